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
            **{**file, layout.CONTENT: _CONTENTS[file[layout.CONTENT]]}, partition=partitions[place], spec_id=spec_id
        )
        for file, place in zip(files_of(batch, _FILE_FIELDS), places, strict=True)
    )
    numbers = [layout.values_of(batch, name) for name in layout.ENTRY_FIELDS]
    return [
        ManifestEntry(status, file, snapshot_id, number, file_number)
        for file, status, snapshot_id, number, file_number in zip(files, *numbers, strict=True)
    ]


def files_of(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What each row says of its file, by the names that a manifest has for it: the columns of these names, and all maps
    of statistics, but for the partition. What it does not say is None, also a map that has nothing."""
    values = {name: layout.values_of(batch, name) for name in names}
    maps: dict[str, list[tuple[int, list[Any]]]] = {name: [] for name in layout.MAPS}
    for name in filter(layout.is_statistic, batch.schema.names):
        statistic, _, column_id = name.partition(".")
        maps[layout.STATISTICS[statistic]].append((int(column_id), batch.column(name).to_pylist()))
    for row in range(batch.num_rows):
        file = {name: each[row] for name, each in values.items()}
        for name, columns in maps.items():
            file[name] = {column_id: each[row] for column_id, each in columns if each[row] is not None} or None
        yield file
