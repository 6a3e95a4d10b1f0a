"""Which delete files apply to a data file (spec: Scan Planning; Java: DeleteFileIndex).

- A deletion vector applies to the data file that it references, if that is as old or older. It has the positions of all
  position delete files, so none of these applies beside it, whatever its sequence number.
- A position delete file applies to the data file that it references, or to those of its partition that are within the
  bounds of its paths; to files with the same or an older data sequence number.
- An equality delete file applies to all older data files of its partition, or of the table if its spec has no fields.
  Bounds and null counts of the equality columns rule out most data files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from iceberg_hms.changes.operations.manifests.range_index import RangeIndex
from iceberg_hms.changes.partition_set import PartitionKey, partition_key
from iceberg_hms.expressions.bounds import bound_value
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import DOUBLE, FLOAT, PrimitiveType

#: The reserved column of a position delete file that names the data file (spec: Reserved Field IDs).
PATH_COLUMN: Final = 2_147_483_546


def referenced_data_file(delete_file: DataFile) -> str | None:
    """The only data file that position deletes apply to; None if they may apply to several, and for equality deletes.

    Writers that do not fill in the field leave equal bounds of the path column instead."""
    if delete_file.content != FileContent.POSITION_DELETES:
        return None
    if delete_file.referenced_data_file is not None:
        return delete_file.referenced_data_file
    lower = (delete_file.lower_bounds or {}).get(PATH_COLUMN)
    upper = (delete_file.upper_bounds or {}).get(PATH_COLUMN)
    return None if lower is None or lower != upper else lower.decode("utf-8", "replace")


def applies_everywhere(delete_file: DataFile, base: TableMetadata) -> bool:
    """Whether a delete file applies to all partitions: equality deletes without one (spec: Scan Planning)."""
    spec = base.spec_by_id(delete_file.spec_id)
    return delete_file.content == FileContent.EQUALITY_DELETES and (spec is None or spec.is_unpartitioned)


class DeleteIndex:
    """Live entries of delete files, by what they apply to.

    entries: with their sequence numbers. base: the table, for its partition specs and the current schema."""

    def __init__(self, entries: Iterable[ManifestEntry], base: TableMetadata) -> None:
        self._base = base
        self._by_path: dict[str, list[_Deletes]] = {}
        self._by_partition: dict[PartitionKey, _Scope] = {}
        self._everywhere = _Scope()
        for entry in entries:
            self.add(entry)

    def __bool__(self) -> bool:
        return bool(self._by_path or self._by_partition or self._everywhere)

    @property
    def has_global(self) -> bool:
        """Whether a delete file may apply to files of any partition."""
        return bool(self._everywhere)

    def applying_to(self, data_file: DataFile, sequence_number: int) -> Iterator[ManifestEntry]:
        """The entries that may delete rows of a data file. sequence_number: the file's data sequence number."""
        columns = _DataColumns(data_file, self._base.schema)
        named = [
            each for each in self._by_path.get(file_key(data_file.file_path), ()) if sequence_number <= each.newest
        ]
        has_vector = any(each.entry.data_file.is_deletion_vector for each in named)
        for each in chain(
            named,
            self._by_partition.get(partition_key(data_file), _NONE).near(columns),
            self._everywhere.near(columns),
        ):
            if has_vector and each.is_position_file:
                continue
            if sequence_number <= each.newest and each.may_delete(columns):
                yield each.entry

    def add(self, entry: ManifestEntry) -> None:
        """One more."""
        delete_file = entry.data_file
        if (path := referenced_data_file(delete_file)) is not None:
            self._by_path.setdefault(file_key(path), []).append(_Deletes(entry, {}))
            return
        deletes = _Deletes(entry, _deleted_columns(delete_file, self._base.schema))
        if applies_everywhere(delete_file, self._base):
            self._everywhere.add(deletes)
        else:
            self._by_partition.setdefault(partition_key(delete_file), _Scope()).add(deletes)


class _Deletes:
    """A delete file, with what is compared with each data file. newest: the largest sequence number of data files that
    it applies to. columns: what it says of the columns whose values it names, by id. is_position_file: it has position
    deletes, and is no deletion vector."""

    __slots__ = ("columns", "entry", "is_position_file", "newest")

    def __init__(self, entry: ManifestEntry, columns: Mapping[int, _Column]) -> None:
        self.entry = entry
        is_position = entry.data_file.content == FileContent.POSITION_DELETES
        self.is_position_file = is_position and not entry.data_file.is_deletion_vector
        self.newest = (entry.sequence_number or 0) - (0 if is_position else 1)
        self.columns = columns

    def may_delete(self, data: _DataColumns) -> bool:
        """Whether a row of a data file may be a deleted one by all columns."""
        return all(own.may_equal(data[column_id]) for column_id, own in self.columns.items())


class _Scope:
    """The delete files that may apply to the same data files: those of a partition, or of the table."""

    def __init__(self) -> None:
        self._ranges: dict[int, RangeIndex[_Deletes]] = {}
        #: Those without a column whose values all lie within known bounds.
        self._others: list[_Deletes] = []

    def __bool__(self) -> bool:
        return bool(self._ranges or self._others)

    def add(self, deletes: _Deletes) -> None:
        """One more."""
        for column_id, column in deletes.columns.items():
            if column.has_range:
                self._ranges.setdefault(column_id, RangeIndex()).add(column.lower, column.upper, deletes)
                return
        self._others.append(deletes)

    def near(self, data: _DataColumns) -> Iterator[_Deletes]:
        """The delete files that may apply, judged by one column of each: a partition that changes a lot has thousands,
        and a data file overlaps few of them."""
        yield from self._others
        for column_id, ranges in self._ranges.items():
            column = data[column_id]
            yield from ranges.overlapping(column.lower, column.upper) if column.is_bounded else ranges


_NONE: Final = _Scope()


class _Column(NamedTuple):
    """What a file's metrics say of a column. lower, upper: None: unknown."""

    may_be_null: bool
    is_all_null: bool
    may_be_nan: bool
    lower: Any
    upper: Any

    @property
    def is_bounded(self) -> bool:
        """Whether both bounds are known."""
        return self.lower is not None and self.upper is not None

    @property
    def has_range(self) -> bool:
        """Whether all values are within known bounds."""
        return self.is_bounded and not (self.may_be_null or self.may_be_nan)

    def may_equal(self, other: _Column) -> bool:
        """Whether a value of one file's column may be one of the other's."""
        if self.may_be_null and other.may_be_null:
            return True
        if self.is_all_null or other.is_all_null:
            return False
        if self.may_be_nan and other.may_be_nan:
            return True
        if not (self.is_bounded and other.is_bounded):
            return True
        return bool(self.lower <= other.upper and other.lower <= self.upper)


_UNKNOWN: Final = _Column(may_be_null=True, is_all_null=False, may_be_nan=True, lower=None, upper=None)


class _DataColumns(dict[int, _Column]):
    """The metrics of a data file, by column id. They are decoded once a delete file is compared with them."""

    def __init__(self, file: DataFile, schema: Schema) -> None:
        path = file.file_path.encode(errors="surrogatepass")
        super().__init__({PATH_COLUMN: _paths(path, path)})
        self._file = file
        self._schema = schema

    def __missing__(self, column_id: int) -> _Column:
        column = self[column_id] = _column(self._schema, column_id, self._file)
        return column


def _deleted_columns(deletes: DataFile, schema: Schema) -> dict[int, _Column]:
    """Of position deletes the paths, which readers compare by bytes."""
    if deletes.content == FileContent.POSITION_DELETES:
        lower, upper = ((of or {}).get(PATH_COLUMN) for of in (deletes.lower_bounds, deletes.upper_bounds))
        return {PATH_COLUMN: _paths(lower, upper)}
    return {column_id: _column(schema, column_id, deletes) for column_id in deletes.equality_ids or ()}


def _paths(lower: bytes | None, upper: bytes | None) -> _Column:
    return _Column(may_be_null=False, is_all_null=False, may_be_nan=False, lower=lower, upper=upper)


def _column(schema: Schema, column_id: int, file: DataFile) -> _Column:
    field = schema.field(column_id)
    if field is None or not isinstance(field.type, PrimitiveType):
        return _UNKNOWN
    nulls, values, nans = (
        None if counts is None else counts.get(column_id)
        for counts in (file.null_value_counts, file.value_counts, file.nan_value_counts)
    )
    lower, upper = (
        bound_value(field.type, None if bounds is None else bounds.get(column_id))
        for bounds in (file.lower_bounds, file.upper_bounds)
    )
    return _Column(
        may_be_null=nulls is None or nulls > 0,
        is_all_null=nulls is not None and nulls == values,
        # Writers count NaN in columns that can have it.
        may_be_nan=field.type in (FLOAT, DOUBLE) and (nans is None or nans > 0),
        lower=lower,
        upper=upper,
    )
