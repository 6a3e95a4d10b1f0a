"""Planned files one by one, as records, for what packs them into tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from iceberg_hms.changes.partition_set import schema_of_spec
from iceberg_hms.expressions.expression import Expression
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning import layout
from iceberg_hms.planning.partition_columns import ABSENT, distinct_values
from iceberg_hms.planning.planner import DELETES, RESIDUAL, PlannedFiles
from iceberg_hms.planning.splits import ScanFile


def scan_files(
    planned: PlannedFiles,
    metadata: TableMetadata,
    delete_files: Sequence[ManifestEntry],
    residuals: Sequence[Expression],
) -> Iterator[ScanFile]:
    """The files of one manifest; those of a partition share its values. delete_files, residuals: the planner's."""
    columns = planned.columns
    partitions, places = _partitions(columns, metadata, planned.spec_id)
    values = {
        name: _values(columns, name)
        for name in (
            layout.FILE_PATH,
            layout.FILE_FORMAT,
            layout.RECORD_COUNT,
            layout.FILE_SIZE,
            layout.SEQUENCE_NUMBER,
            layout.FIRST_ROW_ID,
            layout.SPLIT_OFFSETS,
            DELETES,
            RESIDUAL,
        )
    }
    for at in range(columns.num_rows):
        yield ScanFile(
            path=values[layout.FILE_PATH][at],
            format=values[layout.FILE_FORMAT][at],
            rows=values[layout.RECORD_COUNT][at],
            size=values[layout.FILE_SIZE][at],
            spec_id=planned.spec_id,
            partition=partitions[places[at]],
            sequence_number=values[layout.SEQUENCE_NUMBER][at] or 0,
            first_row_id=values[layout.FIRST_ROW_ID][at],
            split_offsets=values[layout.SPLIT_OFFSETS][at],
            deletes=tuple(delete_files[each].data_file for each in values[DELETES][at] or ()),
            residual=residuals[values[RESIDUAL][at]],
        )


def _partitions(
    columns: pa.RecordBatch, metadata: TableMetadata, spec_id: int
) -> tuple[list[Mapping[str, Any]], Sequence[int]]:
    """The partitions of files, and for each file the position of its own."""
    spec = metadata.spec_by_id(spec_id)
    fields = () if spec is None else spec.partition_type(schema_of_spec(metadata, spec)).fields
    stored = [layout.column(columns, layout.partition(each.id)) for each in fields]
    tuples, places = distinct_values(stored, [each.type for each in fields])
    named: list[Mapping[str, Any]] = [
        {field.name: None if value is ABSENT else value for field, value in zip(fields, each, strict=True)}
        for each in tuples
    ]
    rows: Sequence[int] = [0] * columns.num_rows if places is None else places.to_pylist()
    return named, rows


def _values(columns: pa.RecordBatch, name: str) -> list[Any]:
    found = layout.column(columns, name)
    return [None] * columns.num_rows if found is None else found.to_pylist()
