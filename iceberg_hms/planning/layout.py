"""The columns of a decoded manifest: an Arrow batch with a row for each live entry, in the manifest's order.

Values are as the manifest stores them: what entries inherit from the manifest list is filled in later
(`planning.inherit`). A column that no entry has a value for may be absent, but for the `REQUIRED` ones, and the fields
of the manifest's partition tuples whose type may have values.

    partition.<field id>      a partition value, in the type of the manifest's own schema: dates and times are numbers
                              as in `format.schema.values`, UUIDs are their 16 bytes
    lower_bound.<column id>   and upper_bound: binary (spec appendix D)
    value_count.<column id>   and null_value_count, nan_value_count, column_size: numbers
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.format.manifests.manifest import FileContent

#: Changes with what a batch has: one that was kept on disk in another layout is not read.
VERSION: Final = 1

STATUS: Final = "status"
CONTENT: Final = "content"
SNAPSHOT_ID: Final = "snapshot_id"
SEQUENCE_NUMBER: Final = "sequence_number"
FILE_SEQUENCE_NUMBER: Final = "file_sequence_number"
FILE_PATH: Final = "file_path"
FILE_FORMAT: Final = "file_format"
RECORD_COUNT: Final = "record_count"
FILE_SIZE: Final = "file_size_in_bytes"
KEY_METADATA: Final = "key_metadata"
SPLIT_OFFSETS: Final = "split_offsets"
EQUALITY_IDS: Final = "equality_ids"
SORT_ORDER_ID: Final = "sort_order_id"
FIRST_ROW_ID: Final = "first_row_id"
REFERENCED_DATA_FILE: Final = "referenced_data_file"
CONTENT_OFFSET: Final = "content_offset"
CONTENT_SIZE: Final = "content_size_in_bytes"

#: The columns of an entry and of its file, but for partition values and statistics of columns.
TYPES: Final[Mapping[str, pa.DataType]] = {
    STATUS: pa.int32(),
    CONTENT: pa.int32(),
    SNAPSHOT_ID: pa.int64(),
    SEQUENCE_NUMBER: pa.int64(),
    FILE_SEQUENCE_NUMBER: pa.int64(),
    FILE_PATH: pa.string(),
    FILE_FORMAT: pa.string(),
    RECORD_COUNT: pa.int64(),
    FILE_SIZE: pa.int64(),
    KEY_METADATA: pa.binary(),
    SPLIT_OFFSETS: pa.list_(pa.int64()),
    EQUALITY_IDS: pa.list_(pa.int32()),
    SORT_ORDER_ID: pa.int32(),
    FIRST_ROW_ID: pa.int64(),
    REFERENCED_DATA_FILE: pa.string(),
    CONTENT_OFFSET: pa.int64(),
    CONTENT_SIZE: pa.int64(),
}
#: Those of an entry; all others are of its file.
ENTRY_FIELDS: Final = (STATUS, SNAPSHOT_ID, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER)
#: Those that every batch has, without nulls.
REQUIRED: Final = (STATUS, CONTENT, FILE_PATH, FILE_FORMAT, RECORD_COUNT, FILE_SIZE)

#: What a file has, in the words of the REST protocol.
CONTENTS: Final[Mapping[int, str]] = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position-deletes",
    FileContent.EQUALITY_DELETES: "equality-deletes",
}

LOWER_BOUND: Final = "lower_bound"
UPPER_BOUND: Final = "upper_bound"
VALUE_COUNT: Final = "value_count"
NULL_VALUE_COUNT: Final = "null_value_count"
NAN_VALUE_COUNT: Final = "nan_value_count"
COLUMN_SIZE: Final = "column_size"

#: Statistics of a column of the table: what begins the names of their Arrow columns, and the map of a manifest that has
#: them.
STATISTICS: Final[Mapping[str, str]] = {
    COLUMN_SIZE: "column_sizes",
    VALUE_COUNT: "value_counts",
    NULL_VALUE_COUNT: "null_value_counts",
    NAN_VALUE_COUNT: "nan_value_counts",
    LOWER_BOUND: "lower_bounds",
    UPPER_BOUND: "upper_bounds",
}
_COUNTS: Final = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.int64())]))
_BOUNDS: Final = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary())]))
#: The maps of a manifest, and their types in Arrow.
MAPS: Final[Mapping[str, pa.DataType]] = {
    name: _BOUNDS if statistic in (LOWER_BOUND, UPPER_BOUND) else _COUNTS for statistic, name in STATISTICS.items()
}


def partition(field_id: int) -> str:
    """The column of a partition field."""
    return f"partition.{field_id}"


def statistic(name: str, column_id: int) -> str:
    """The column of a statistic of a column of the table, such as `lower_bound.7`. name: one of STATISTICS."""
    return f"{name}.{column_id}"


def is_statistic(name: str) -> bool:
    """Whether a column has a statistic of a column of the table."""
    return name.partition(".")[0] in STATISTICS


def column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """A column of a batch; None if it is absent: all its values are null then."""
    at = batch.schema.get_field_index(name)
    return None if at < 0 else batch.column(at)


def values_of(batch: pa.RecordBatch, name: str) -> list[Any]:
    """The values of a column, one for each row."""
    found = column(batch, name)
    return [None] * batch.num_rows if found is None else found.to_pylist()


def offsets_of(lists: pa.ListArray) -> pa.Int32Array:
    """Where each list begins in the values of all, and the end; a null is an empty list."""
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
