"""Delete files that stay columns until a data file comes that they may apply to: of tens of thousands a plan of one
partition, or a task of a plan, needs a few.

What each waits for is chosen so that no delete file is missed: `DeleteIndex` says which of those that are taken apply.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.changes.operations.manifests.delete_index import PATH_COLUMN, applies_everywhere
from iceberg_hms.changes.partition_set import PartitionKey, partition_key
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.types import NestedField
from iceberg_hms.memory_budget import HeldMemory
from iceberg_hms.planning import layout
from iceberg_hms.planning.entries import entries_of
from iceberg_hms.planning.partition_columns import named_partition, partition_fields, partitions_of

#: What a delete file waits for: a data file of a partition, or one whose path ends so, or (None) any.
_Key: TypeAlias = PartitionKey | str | None

#: How many times the bytes of its columns an entry takes, with what `DeleteIndex` keeps of it. Measured: 4 to 9.
_TIMES_COLUMNS: Final = 6
#: Names in paths that end otherwise once they are normalized.
_ODD_NAMES: Final = pa.array(["", ".", "..", "localhost"])
#: In place of null.
_ANY_PATH: Final = "/folder/name"


class WaitingDeletes:
    """Delete files, each of which is taken once.

    batches: of live delete files, each with the id of its partition spec; as `layout`, with all statistics and
    inherited values. memory: counts them, and the entries that are made of them. equality_ids: the columns of all
    equality deletes, by id. Raises ResourceExhausted if there is no memory.
    """

    def __init__(
        self, batches: Iterable[tuple[int, pa.RecordBatch]], metadata: TableMetadata, memory: HeldMemory
    ) -> None:
        self._metadata = metadata
        self._memory = memory
        self._batches = list(_joined(self._held(batches)))
        self.equality_ids = frozenset(id_ for _, each in self._batches for id_ in _equality_ids(each))
        #: By key the last row, counted over all batches; None once it was taken. And of a row the one before it that
        #: has the same key: a list for each key would take longer than all else.
        self._last: dict[_Key, int | None] = {}
        self._before: dict[int, int] = {}
        keys = (key for spec_id, batch in self._batches for key in self._keys(spec_id, batch))
        for row, key in enumerate(keys):
            before = self._last.get(key)
            if before is not None:
                self._before[row] = before
            self._last[key] = row

    def __bool__(self) -> bool:
        return bool(self._last)

    def __contains__(self, key: _Key) -> bool:
        """Whether a delete file waits for this, or has been taken for it."""
        return key in self._last

    def taken(self, keys: Collection[_Key]) -> Iterator[ManifestEntry]:
        """The delete files that wait for one of these, or for any data file; in the order of manifests for each. Raises
        ResourceExhausted."""
        found = self._last.keys() & {*keys, None}
        rows = sorted(row for key in found for row in self._rows(key))
        self._last.update(dict.fromkeys(found))
        start = 0
        for spec_id, batch in self._batches:
            end = start + batch.num_rows
            first, last = bisect_left(rows, start), bisect_left(rows, end)
            if first < last:
                chosen = batch.take(pa.array([row - start for row in rows[first:last]], pa.int64()))
                self._hold(_TIMES_COLUMNS * chosen.nbytes)
                yield from entries_of(chosen, spec_id, self._fields(spec_id))
            start = end

    def _held(self, batches: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for spec_id, batch in batches:
            self._hold(batch.nbytes)
            yield spec_id, batch

    def _hold(self, size: int) -> None:
        self._memory.require(self._memory.bytes + size, "the delete files of a scan")

    def _rows(self, key: _Key) -> Iterator[int]:
        row = self._last[key]
        while row is not None:
            yield row
            row = self._before.get(row)

    def _keys(self, spec_id: int, batch: pa.RecordBatch) -> Iterator[_Key]:
        """What each row of a batch waits for."""
        fields = self._fields(spec_id)
        tuples, places = partitions_of(batch, fields)
        partitions = keys_of([named_partition(fields, each) for each in tuples], spec_id)
        equality = DataFile("", "", 0, 0, content=FileContent.EQUALITY_DELETES, spec_id=spec_id)
        is_global = applies_everywhere(equality, self._metadata)
        contents, tails = batch.column(layout.CONTENT).to_pylist(), tails_of(_referenced_data_files(batch))
        for content, tail, place in zip(contents, tails, places, strict=True):
            if content == FileContent.POSITION_DELETES and tail is not None:
                yield tail
            else:
                yield None if content == FileContent.EQUALITY_DELETES and is_global else partitions[place]

    def _fields(self, spec_id: int) -> Sequence[NestedField]:
        return partition_fields(self._metadata, spec_id)


def keys_of(partitions: Iterable[Mapping[str, Any]], spec_id: int) -> list[PartitionKey]:
    """Partitions, as the delete files of a partition wait for its data files. partitions: as `DataFile` has them."""
    return [partition_key(DataFile("", "", 0, 0, each, spec_id=spec_id)) for each in partitions]


def tails_of(paths: pa.StringArray) -> list[str | None]:
    """The last folder and the name of each file, the same for all paths that mean one file (`locations.file_key`)."""
    # A pattern that finds them takes ten times as long.
    parts = pc.split_pattern(paths.fill_null(_ANY_PATH), "/", max_splits=2, reverse=True)
    if pc.any(pc.less(pc.list_value_length(parts), 3)).as_py():
        return _normalized_tails(paths)
    folders, names = (parts.values.take(pc.subtract(parts.offsets[1:], back)) for back in (2, 1))
    if any(pc.any(pc.is_in(each, value_set=_ODD_NAMES)).as_py() for each in (folders, names)):
        return _normalized_tails(paths)
    tails = pc.binary_join_element_wise(folders, names, "/")
    found: list[str | None] = pc.if_else(paths.is_valid(), tails, pa.scalar(None, pa.string())).to_pylist()
    return found


def _normalized_tails(paths: pa.StringArray) -> list[str | None]:
    return [None if each is None else "/".join(file_key(each).split("/")[-2:]) for each in paths.to_pylist()]


def _referenced_data_files(batch: pa.RecordBatch) -> pa.StringArray:
    """As `delete_index.referenced_data_file` says of position deletes; null where that is None."""
    lower, upper = (
        layout.column(batch, layout.statistic(name, PATH_COLUMN)) for name in (layout.LOWER_BOUND, layout.UPPER_BOUND)
    )
    stated = layout.column(batch, layout.REFERENCED_DATA_FILE)
    if lower is None or upper is None:
        return pa.nulls(batch.num_rows, pa.string()) if stated is None else stated
    only = _text(pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, lower.type)))
    return only if stated is None else pc.coalesce(stated, only)


def _text(data: pa.BinaryArray) -> pa.StringArray:
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        found = [None if each is None else each.decode("utf-8", "replace") for each in data.to_pylist()]
        return pa.array(found, pa.string())


def _equality_ids(batch: pa.RecordBatch) -> list[int]:
    ids = layout.column(batch, layout.EQUALITY_IDS)
    return [] if ids is None else ids.flatten().unique().to_pylist()


def _joined(batches: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of each spec as few large ones: tables have many small manifests of deletes, and each batch costs
    something for each manifest of data files."""
    by_spec: dict[int, list[pa.RecordBatch]] = {}
    for spec_id, batch in batches:
        if batch.num_rows:
            by_spec.setdefault(spec_id, []).append(batch)
    for spec_id, found in by_spec.items():
        for batch in _one(found):
            yield spec_id, batch


def _one(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    try:
        tables = [pa.Table.from_batches([each]) for each in batches]
        whole: pa.Table = pa.concat_tables(tables, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # The type of a partition value was promoted between them.
        return batches
    joined: Sequence[pa.RecordBatch] = whole.combine_chunks().to_batches()
    return joined
