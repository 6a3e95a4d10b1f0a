"""Planned files one by one, as records, for what packs them into tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iceberg_hms.expressions.expression import Expression
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning import layout
from iceberg_hms.planning.partition_columns import named_partition, partition_fields, partitions_of
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
    fields = partition_fields(metadata, planned.spec_id)
    tuples, places = partitions_of(columns, fields)
    partitions = [named_partition(fields, each) for each in tuples]
    values = {
        name: layout.values_of(columns, name)
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
