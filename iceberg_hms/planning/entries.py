"""Rows of decoded manifests as the records that they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.schema.types import NestedField
from iceberg_hms.planning import layout
from iceberg_hms.planning.partition_columns import named_partition, partitions_of

_CONTENTS: Final = {each.value: each for each in FileContent}
_FILE_FIELDS: Final = tuple(name for name in layout.TYPES if name not in layout.ENTRY_FIELDS)


def entries_of(batch: pa.RecordBatch, spec_id: int, partition: Sequence[NestedField]) -> list[ManifestEntry]:
    """The entries of a batch, in its order. batch: as `layout`, with inherited values. partition: the fields of the
    partition tuples of its spec.

    They are as `decode_manifest` gives them, but for maps: one that has nothing may be None."""
    tuples, places = partitions_of(batch, partition)
    partitions = [named_partition(partition, each) for each in tuples]
    files = (
        DataFile(
            **{**file, layout.CONTENT: _CONTENTS[file[layout.CONTENT]]},
            **maps,
            partition=partitions[place],
            spec_id=spec_id,
        )
        for file, maps, place in zip(_records(batch, _FILE_FIELDS), _maps(batch), places, strict=True)
    )
    numbers = [layout.values_of(batch, name) for name in layout.ENTRY_FIELDS]
    return [
        ManifestEntry(status, file, snapshot_id, number, file_number)
        for file, status, snapshot_id, number, file_number in zip(files, *numbers, strict=True)
    ]


def _records(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The values of each row, without columns that are absent."""
    found = [name for name in names if layout.column(batch, name) is not None]
    for row in zip(*(batch.column(name).to_pylist() for name in found), strict=True):
        yield dict(zip(found, row, strict=True))


def _maps(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The statistics of each row, by the names that `DataFile` has for them."""
    columns: dict[str, list[tuple[int, list[Any]]]] = {}
    for name in filter(layout.is_statistic, batch.schema.names):
        statistic, _, column_id = name.partition(".")
        columns.setdefault(layout.STATISTICS[statistic], []).append((int(column_id), batch.column(name).to_pylist()))
    for row in range(batch.num_rows):
        yield {name: _map_of(row, found) for name, found in columns.items()}


def _map_of(row: int, columns: Sequence[tuple[int, Sequence[Any]]]) -> dict[int, Any] | None:
    return {column_id: values[row] for column_id, values in columns if values[row] is not None} or None
