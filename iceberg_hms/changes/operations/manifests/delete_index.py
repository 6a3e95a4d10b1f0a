"""Which delete files apply to a data file (spec: Scan Planning; Java: DeleteFileIndex).

- A deletion vector applies to the data file that it references.
- A position delete file applies to the data file that it references, or to those of its partition that are within the
  bounds of its paths; to files with the same or an older data sequence number.
- An equality delete file applies to all older data files of its partition, or of the table if its spec has no fields.
  Bounds and null counts of the equality columns rule out most data files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

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
        self._by_path: dict[str, list[ManifestEntry]] = {}
        self._by_partition: dict[PartitionKey, list[ManifestEntry]] = {}
        self._everywhere: list[ManifestEntry] = []
        for entry in entries:
            self._add(entry)

    def __bool__(self) -> bool:
        return bool(self._by_path or self._by_partition or self._everywhere)

    @property
    def has_global(self) -> bool:
        """Whether a delete file may apply to files of any partition."""
        return bool(self._everywhere)

    @property
    def partitions(self) -> Collection[PartitionKey]:
        """The partitions of delete files that may apply to any file there."""
        return self._by_partition.keys()

    @property
    def paths(self) -> Collection[str]:
        """The data files (`file_key`) that delete files name."""
        return self._by_path.keys()

    def applying_to(self, data_file: DataFile, sequence_number: int) -> Iterator[ManifestEntry]:
        """The entries that may delete rows of a data file. sequence_number: the file's data sequence number."""
        key, partition = file_key(data_file.file_path), partition_key(data_file)
        for entry in (*self._by_path.get(key, ()), *self._by_partition.get(partition, ()), *self._everywhere):
            number = entry.sequence_number or 0
            if entry.data_file.content == FileContent.POSITION_DELETES:
                if number >= sequence_number and _may_name(entry.data_file, data_file.file_path):
                    yield entry
            elif number > sequence_number and _may_equal(entry.data_file, data_file, self._base):
                yield entry

    def _add(self, entry: ManifestEntry) -> None:
        delete_file = entry.data_file
        if (path := referenced_data_file(delete_file)) is not None:
            self._by_path.setdefault(file_key(path), []).append(entry)
            return
        if applies_everywhere(delete_file, self._base):
            self._everywhere.append(entry)
        else:
            self._by_partition.setdefault(partition_key(delete_file), []).append(entry)


def _may_name(deletes: DataFile, path: str) -> bool:
    """Whether position deletes may be of a data file, by the bounds of their paths, which readers compare by bytes."""
    if referenced_data_file(deletes) is not None:
        return True
    lower = (deletes.lower_bounds or {}).get(PATH_COLUMN)
    upper = (deletes.upper_bounds or {}).get(PATH_COLUMN)
    return (lower is None or lower <= path.encode()) and (upper is None or path.encode() <= upper)


def _may_equal(deletes: DataFile, data_file: DataFile, base: TableMetadata) -> bool:
    """Whether a row of a data file may equal a deleted one in all equality columns."""
    return all(_column_may_equal(deletes, data_file, id_, base.schema) for id_ in deletes.equality_ids or ())


def _column_may_equal(deletes: DataFile, data_file: DataFile, column: int, schema: Schema) -> bool:
    field = schema.field(column)
    if field is None or not isinstance(field.type, PrimitiveType):
        return True
    if _may_be_null(deletes, column) and _may_be_null(data_file, column):
        return True
    if _is_all_null(deletes, column) or _is_all_null(data_file, column):
        return False
    return _may_overlap(field, deletes, data_file)


def _may_be_null(file: DataFile, column: int) -> bool:
    count = (file.null_value_counts or {}).get(column)
    return count is None or count > 0


def _is_all_null(file: DataFile, column: int) -> bool:
    nulls, all_ = (file.null_value_counts or {}).get(column), (file.value_counts or {}).get(column)
    return nulls is not None and nulls == all_


def _may_overlap(field: NestedField, one: DataFile, other: DataFile) -> bool:
    # Writers count NaN in columns that can have it.
    if field.type in (FLOAT, DOUBLE) and _has_nan(one, field.id) and _has_nan(other, field.id):
        return True
    found = (of or {} for each in (one, other) for of in (each.lower_bounds, each.upper_bounds))
    bounds = [bound_value(field.type, of.get(field.id)) for of in found]
    if any(each is None for each in bounds):
        return True
    return bool(bounds[0] <= bounds[3] and bounds[2] <= bounds[1])


def _has_nan(file: DataFile, column: int) -> bool:
    count = (file.nan_value_counts or {}).get(column)
    return count is None or count > 0
