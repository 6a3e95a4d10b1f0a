"""Scene 5: a table taken apart, from the metastore's row down to the bounds of a data file."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Final

import orjson

from iceberg_hms.cli import output, render
from iceberg_hms.cli.demo.stage import Stage
from iceberg_hms.errors import EngineError
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.inspect.files import FileRow, file_rows
from iceberg_hms.inspect.manifests import manifest_rows
from iceberg_hms.inspect.metadata import column_rows, metadata_facts, spec_rows

_EVENTS: Final = "logging.events"
_FLIGHTS: Final = "nyc.flights"
_FILES_SHOWN: Final = 6


def play(stage: Stage) -> None:
    """Pointer, metadata, manifest list, manifests, files and bounds, read by iceberg-hms itself, without Spark."""
    stage.scene(
        5,
        "A table taken apart",
        "The same files, read by iceberg-hms without Spark. The pointer names a metadata file (JSON); its current "
        "snapshot names a manifest list (Avro); that names manifests (Avro), and those name the data files with their "
        "partitions and, for each column, the lowest and highest value, by which a query skips files.",
    )
    loaded = stage.catalog.load(_EVENTS)
    location = str(loaded.metadata_location)
    parameters = stage.catalog.pointer(_EVENTS).parameters
    pointer = {name: parameters.get(name) for name in ("metadata_location", "previous_metadata_location")}
    stage.show(output.facts("The pointer (a row in the metastore)", pointer))
    _metadata(stage, loaded.metadata, location)
    current = _current(loaded.metadata)
    stage.tell("The current snapshot, as it stands in that file:")
    stage.code(orjson.dumps(current.raw, option=orjson.OPT_INDENT_2).decode())
    _manifests(stage, loaded.metadata, current)
    flights = stage.catalog.load(_FLIGHTS).metadata
    _bounds(stage, flights, _current(flights))
    stage.tell("The same from the command line, on any metastore:")
    stage.code(f"iceberg-hms inspect {_EVENTS} --metastore-uri thrift://host:9083")


def _current(metadata: TableMetadata) -> Snapshot:
    if metadata.current_snapshot is None:
        raise EngineError("The demo's table has no snapshot")
    return metadata.current_snapshot


def _metadata(stage: Stage, metadata: TableMetadata, location: str) -> None:
    known = metadata_facts(metadata, location)
    facts = {
        "metadata file": _in_table(metadata, location),
        "format version": known.format_version,
        "uuid": known.uuid,
        "location": known.location,
        "last updated": output.instant(known.last_updated_ms),
        "last sequence number": known.last_sequence_number,
        "snapshots": known.snapshots,
        "current snapshot": str(known.current_snapshot_id),
    }
    stage.show(output.facts(f"Metadata of {_EVENTS} (JSON)", facts))
    stage.table(
        f"Columns of the current schema (schema {known.current_schema_id} of {len(metadata.schemas)})",
        ["id", "column", "type"],
        [[row.field_id, row.name, row.type] for row in column_rows(metadata.schema)],
    )
    stage.table(
        "Partition specs",
        ["spec", "default", "field", "transform", "source"],
        [[row.id, row.is_default, row.field, row.transform, row.source] for row in spec_rows(metadata)],
    )


def _manifests(stage: Stage, metadata: TableMetadata, snapshot: Snapshot) -> None:
    rows = manifest_rows(metadata, snapshot, stage.catalog.manifests())
    stage.table(
        f"Manifest list {_in_table(metadata, snapshot.manifest_list or '')} (Avro)",
        ["manifest", "spec", "sequence", "files added", "existing", "partitions"],
        [
            [
                _in_table(metadata, row.path),
                row.spec_id,
                row.sequence_number,
                row.added_files,
                row.existing_files,
                [render.partition_text(asdict(part)) for part in row.partitions],
            ]
            for row in rows
        ],
    )
    files = list(file_rows(metadata, snapshot, stage.catalog.manifests()))
    _files(stage, files, "Data files, as the manifests name them (Avro)")


def _files(stage: Stage, rows: list[FileRow], title: str) -> None:
    stage.table(
        title,
        ["file", "status", "spec", "partition", "rows", "size"],
        [[_name(row.path), row.status, row.spec_id, row.partition, row.records, output.size(row.size)] for row in rows],
    )


def _bounds(stage: Stage, metadata: TableMetadata, snapshot: Snapshot) -> None:
    """The first files of the large table, and the columns of one of them."""
    rows = list(islice(file_rows(metadata, snapshot, stage.catalog.manifests()), _FILES_SHOWN))
    total = snapshot.summary.get("total-data-files", "?")
    _files(stage, rows, f"The first {len(rows)} of the {total} files of {_FLIGHTS}")
    stage.table(
        f"Bounds of {_name(rows[0].path)}",
        ["id", "column", "values", "nulls", "lowest", "highest"],
        [
            [column.field_id, column.column, column.values, column.nulls, column.lower, column.upper]
            for column in rows[0].columns
        ],
    )


def _in_table(metadata: TableMetadata, location: str) -> str:
    return render.relative(location, metadata.location)


def _name(path: str) -> str:
    """A data file's own name: its folder tells no more than its partition does."""
    return path.rpartition("/")[2]
