"""Scenes 4 and 5: what one pointer makes possible, and a table taken apart down to the bounds of a data file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import orjson

from iceberg_hms.cli import output, render
from iceberg_hms.cli.demo.stage import Stage
from iceberg_hms.clock import instant
from iceberg_hms.errors import EngineError
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.inspect.files import file_rows, manifest_rows
from iceberg_hms.inspect.history import history_rows
from iceberg_hms.inspect.metadata import column_rows, metadata_facts, spec_rows
from iceberg_hms.inspect.pointer import parameter_rows

_EVENTS: Final = "logging.events"
#: Longer JSON (schema, spec, summary) would fill the screen.
_JSON_MAX: Final = 60


def travel(stage: Stage) -> None:
    """Scene 4: the pointer, time travel, then evolution, on a table so small that every row is shown."""
    stage.scene(
        4,
        "One pointer, and everything that follows from it",
        "To the metastore an Iceberg table is one row with parameters. One of them, metadata_location, points at the "
        "current metadata file. A commit writes a new metadata file and swaps that pointer. Old files stay, so a "
        "reader can read old states, an operator can roll back, and a schema change rewrites no data.",
    )
    _pointer(stage)
    first, second = _history(stage)
    _time_travel(stage, first, second)
    _schema(stage)
    _partitioning(stage)


def _pointer(stage: Stage) -> None:
    loaded = stage.catalog.load(_EVENTS)
    rows = parameter_rows(stage.catalog.pointer(_EVENTS), loaded.metadata.properties)
    stage.records(
        "logging.events in the metastore: its TABLE_PARAMS, row by row",
        rows,
        {"parameter": "parameter", "value": lambda row: shortened(row["value"]), "meaning": "meaning"},
    )


def _history(stage: Stage) -> tuple[int, int]:
    """Show the history; returns its first two snapshots."""
    rows = history_rows(stage.catalog.load(_EVENTS).metadata)
    stage.records(
        "History of logging.events",
        rows,
        {
            "made current at": render.moment("made_current_at_ms"),
            "snapshot": render.identifier("snapshot_id"),
            "parent": render.identifier("parent_id"),
            "operation": "operation",
            "rows added": lambda row: row["summary"].get("added-records"),
        },
    )
    return rows[0]["snapshot_id"], rows[1]["snapshot_id"]


def _time_travel(stage: Stage, first: int, second: int) -> None:
    stage.tell("Read the table as it was, by snapshot and by timestamp:")
    then = stage.query(
        f"SELECT level, event_time, message FROM logging.events VERSION AS OF {first} ORDER BY event_time"  # noqa: S608
    )
    made_ms = history_rows(stage.catalog.load(_EVENTS).metadata)[0]["made_current_at_ms"]
    moment = instant(made_ms)
    by_time = stage.query(f"SELECT count(*) AS rows_then FROM logging.events TIMESTAMP AS OF '{moment}'")  # noqa: S608
    stage.check("the table had 3 rows then, and has 4 now", (len(then), by_time[0][0], _count(stage)) == (3, 3, 4))
    stage.tell("Roll back to the first snapshot, then go forward to the second:")
    stage.run(f"CALL spark_catalog.system.rollback_to_snapshot('logging.events', {first})")
    back = _count(stage)
    stage.run(f"CALL spark_catalog.system.set_current_snapshot('logging.events', {second})")
    stage.check(f"the table had {back} rows after the rollback, and has {_count(stage)} again", back == 3)
    stage.query("SELECT made_current_at, snapshot_id, is_current_ancestor FROM logging.events.history")


def _schema(stage: Stage) -> None:
    stage.tell("The schema changes in place. Columns are known by id, so no data file is touched:")
    stage.run("ALTER TABLE logging.events ADD COLUMN host STRING")
    stage.run("ALTER TABLE logging.events RENAME COLUMN level TO severity")
    stage.run("ALTER TABLE logging.events DROP COLUMN call_stack")
    stage.run("INSERT INTO logging.events VALUES ('INFO', TIMESTAMP '2021-04-03 09:00:00', 'all is well', 'node-7')")
    rows = stage.query("SELECT * FROM logging.events ORDER BY event_time")
    stage.check("Spark reads old rows with the new columns", [row[0] for row in rows].count("ERROR") == 3)


def _partitioning(stage: Stage) -> None:
    stage.tell("The partitioning changes in place too: new files follow the new spec, old files keep theirs.")
    stage.run("ALTER TABLE logging.events ADD PARTITION FIELD severity")
    stage.run("INSERT INTO logging.events VALUES ('WARN', TIMESTAMP '2021-04-03 10:00:00', 'slow again', 'node-7')")
    files = stage.query(
        "SELECT spec_id, partition.event_time_day AS day, partition.severity, record_count FROM logging.events.files\n"
        "ORDER BY spec_id, day"
    )
    stage.check("files of both partition specs are in one table", {row[0] for row in files} == {0, 1})
    stage.query("SELECT severity, count(*) AS events FROM logging.events GROUP BY severity ORDER BY severity")


def _count(stage: Stage) -> int:
    return int(stage.value("SELECT count(*) FROM logging.events"))


def shortened(value: str) -> str:
    """Cut long JSON, which scene 5 shows in full; never cut a location."""
    if len(value) <= _JSON_MAX or not value.startswith("{"):
        return value
    return f"{value[:_JSON_MAX]}... ({len(value)} characters)"


_FLIGHTS: Final = "nyc.flights"
_FILES_SHOWN: Final = 6


def take_apart(stage: Stage) -> None:
    """Scene 5: iceberg-hms reads pointer, metadata, manifest list, manifests, files and bounds without Spark."""
    stage.scene(
        5,
        "A table taken apart",
        "iceberg-hms reads the same files without Spark. The pointer names a metadata file (JSON). Its current "
        "snapshot names a manifest list (Avro), which names manifests (Avro). These name the data files with their "
        "partitions and, for each column, the lowest and highest value, so that a query can skip files.",
    )
    loaded = stage.catalog.load(_EVENTS)
    location = str(loaded.metadata_location)
    parameters = stage.catalog.pointer(_EVENTS).parameters
    pointer = {name: parameters.get(name) for name in ("metadata_location", "previous_metadata_location")}
    stage.show(output.facts("The pointer (a row in the metastore)", pointer))
    _metadata(stage, loaded.metadata, location)
    current = _current(loaded.metadata)
    stage.tell("The current snapshot in that file:")
    stage.code(orjson.dumps(current.raw, option=orjson.OPT_INDENT_2).decode())
    _manifests(stage, loaded.metadata, current)
    flights = stage.catalog.load(_FLIGHTS).metadata
    _bounds(stage, flights, _current(flights))
    stage.tell("The command line shows the same, on any metastore:")
    stage.code(f"iceberg-hms inspect {_EVENTS} --metastore-uri thrift://host:9083")


def _current(metadata: TableMetadata) -> Snapshot:
    if metadata.current_snapshot is None:
        raise EngineError("The demo's table has no snapshot")
    return metadata.current_snapshot


def _metadata(stage: Stage, metadata: TableMetadata, location: str) -> None:
    known = metadata_facts(metadata, location)
    facts = {
        "metadata file": _in_table(metadata, location),
        "format version": known["format_version"],
        "uuid": known["uuid"],
        "location": known["location"],
        "last updated": instant(known["last_updated_ms"]),
        "last sequence number": known["last_sequence_number"],
        "snapshots": known["snapshots"],
        "current snapshot": str(known["current_snapshot_id"]),
    }
    stage.show(output.facts(f"Metadata of {_EVENTS} (JSON)", facts))
    stage.records(
        f"Columns of the current schema (schema {known['current_schema_id']} of {len(metadata.schemas)})",
        column_rows(metadata.schema),
        {"id": "field_id", "column": "name", "type": "type"},
    )
    stage.records(
        "Partition specs",
        spec_rows(metadata),
        {"spec": "id", "default": "is_default", "field": "field", "transform": "transform", "source": "source"},
    )


def _manifests(stage: Stage, metadata: TableMetadata, snapshot: Snapshot) -> None:
    stage.records(
        f"Manifest list {_in_table(metadata, snapshot.manifest_list or '')} (Avro)",
        manifest_rows(metadata, snapshot, stage.catalog.manifests()),
        {
            "manifest": lambda row: _in_table(metadata, row["path"]),
            "spec": "spec_id",
            "sequence": "sequence_number",
            "files added": "added_files",
            "existing": "existing_files",
            "partitions": lambda row: [render.partition_text(part) for part in row["partitions"]],
        },
    )
    files = file_rows(metadata, snapshot, stage.catalog.manifests())
    _files(stage, files, "Data files that the manifests name (Avro)")


def _files(stage: Stage, rows: Iterable[Mapping[str, Any]], title: str) -> None:
    stage.records(
        title,
        rows,
        {
            "file": lambda row: _name(row["path"]),
            "status": "status",
            "spec": "spec_id",
            "partition": "partition",
            "rows": "records",
            "size": lambda row: output.size(row["size"]),
        },
    )


def _bounds(stage: Stage, metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Show the first files of the large table, and the column bounds of the first one."""
    rows = list(islice(file_rows(metadata, snapshot, stage.catalog.manifests()), _FILES_SHOWN))
    total = snapshot.summary.get("total-data-files", "?")
    _files(stage, rows, f"The first {len(rows)} of the {total} files of {_FLIGHTS}")
    stage.records(
        f"Bounds of {_name(rows[0]['path'])}",
        rows[0]["columns"],
        {
            "id": "field_id",
            "column": "column",
            "values": "values",
            "nulls": "nulls",
            "lowest": "lower",
            "highest": "upper",
        },
    )


def _in_table(metadata: TableMetadata, location: str) -> str:
    return render.relative(location, metadata.location)


def _name(path: str) -> str:
    """A data file's name without its folder, which repeats the partition."""
    return path.rpartition("/")[2]
