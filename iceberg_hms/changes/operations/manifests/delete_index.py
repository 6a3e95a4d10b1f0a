"""Which delete files apply to a data file (spec: Scan Planning; Java: DeleteFileIndex).

- A deletion vector applies to the data file that it references.
- A position delete file applies to the data file that it references, or to those of its partition that are within the
  bounds of its paths; to files with the same or an older data sequence number.
- An equality delete file applies to all older data files of its partition, or of the table if its spec has no fields.
  Bounds and null counts of the equality columns rule out most data files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from iceberg_hms.changes.partition_set import PartitionKey, partition_key
from iceberg_hms.expressions.bounds import bound_value
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import DOUBLE, FLOAT, NestedField, PrimitiveType

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
        self._by_partition: dict[PartitionKey, list[_Deletes]] = {}
        self._everywhere: list[_Deletes] = []
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
        key, partition = file_key(data_file.file_path), partition_key(data_file)
        path = data_file.file_path.encode(errors="surrogatepass")
        columns: dict[int, _Column] = {}
        for each in (*self._by_path.get(key, ()), *self._by_partition.get(partition, ()), *self._everywhere):
            if each.is_position:
                if each.number >= sequence_number and each.may_name(path):
                    yield each.entry
            elif each.number > sequence_number and each.may_equal(data_file, columns):
                yield each.entry

    def add(self, entry: ManifestEntry) -> None:
        """One more."""
        delete_file = entry.data_file
        if (path := referenced_data_file(delete_file)) is not None:
            self._by_path.setdefault(file_key(path), []).append(_Deletes(entry))
        elif delete_file.content == FileContent.POSITION_DELETES:
            lowest, highest = (
                (of or {}).get(PATH_COLUMN) for of in (delete_file.lower_bounds, delete_file.upper_bounds)
            )
            self._by_partition.setdefault(partition_key(delete_file), []).append(_Deletes(entry, lowest, highest))
        else:
            deletes = _Deletes(entry, columns=tuple(_equality_columns(delete_file, self._base.schema)))
            if applies_everywhere(delete_file, self._base):
                self._everywhere.append(deletes)
            else:
                self._by_partition.setdefault(partition_key(delete_file), []).append(deletes)


class _Deletes:
    """A delete file, with what is compared with each data file. lowest, highest: the bounds of the paths that position
    deletes name, which readers compare by bytes. columns: of equality deletes, with what the file says of each."""

    __slots__ = ("columns", "entry", "highest", "is_position", "lowest", "number")

    def __init__(
        self,
        entry: ManifestEntry,
        lowest: bytes | None = None,
        highest: bytes | None = None,
        columns: Sequence[tuple[NestedField, _Column]] = (),
    ) -> None:
        self.entry = entry
        self.number = entry.sequence_number or 0
        self.is_position = entry.data_file.content == FileContent.POSITION_DELETES
        self.lowest, self.highest = lowest, highest
        self.columns = columns

    def may_name(self, path: bytes) -> bool:
        """Whether position deletes may be of a data file."""
        return (self.lowest is None or self.lowest <= path) and (self.highest is None or path <= self.highest)

    def may_equal(self, data_file: DataFile, known: dict[int, _Column]) -> bool:
        """Whether a row of a data file may equal a deleted one in all equality columns. known: what the data file says
        of columns, as far as it was asked."""
        for field, own in self.columns:
            other = known.get(field.id)
            if other is None:
                other = known[field.id] = _column(field, data_file)
            if not own.may_equal(other):
                return False
        return True


def _equality_columns(deletes: DataFile, schema: Schema) -> Iterator[tuple[NestedField, _Column]]:
    """Those that can rule out data files."""
    for column_id in deletes.equality_ids or ():
        field = schema.field(column_id)
        if field is not None and isinstance(field.type, PrimitiveType):
            yield field, _column(field, deletes)


class _Column(NamedTuple):
    """What a file's metrics say of a column. lower, upper: None: unknown."""

    may_be_null: bool
    is_all_null: bool
    may_be_nan: bool
    lower: Any
    upper: Any

    def may_equal(self, other: _Column) -> bool:
        """Whether a value of one file's column may be one of the other's."""
        if self.may_be_null and other.may_be_null:
            return True
        if self.is_all_null or other.is_all_null:
            return False
        if self.may_be_nan and other.may_be_nan:
            return True
        if self.lower is None or self.upper is None or other.lower is None or other.upper is None:
            return True
        return bool(self.lower <= other.upper and other.lower <= self.upper)


def _column(field: NestedField, file: DataFile) -> _Column:
    nulls, values, nans = (
        None if counts is None else counts.get(field.id)
        for counts in (file.null_value_counts, file.value_counts, file.nan_value_counts)
    )
    lower, upper = (
        bound_value(field.type, None if bounds is None else bounds.get(field.id))
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
