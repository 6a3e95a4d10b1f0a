"""Which leaf columns of Parquet files every reader reads as their writer meant them.

Java, Spark and PyIceberg were measured, each on its own way through the code, with and without filters:
docs/readable-files.md has the record. What is not in READABLE is refused, also where some of them read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.types import PrimitiveType, Type

INT96: Final = "INT96"

#: (physical type, logical type, Arrow type) -> the kinds of the table's types. PyIceberg sees the Arrow type, which
#: pyarrow takes from the Arrow schema in the footer, if there is one, and otherwise from the first two.
READABLE: Final[Mapping[tuple[str, str, str], tuple[str, ...]]] = {
    ("BOOLEAN", "", "bool"): ("boolean",),
    ("INT32", "", "int32"): ("int", "long"),
    ("INT32", "Int 8", "int8"): ("int",),
    ("INT32", "Int 16", "int16"): ("int",),
    ("INT32", "Int 32", "int32"): ("int",),
    ("INT64", "", "int64"): ("long",),
    ("INT64", "Int 64", "int64"): ("long",),
    ("FLOAT", "", "float"): ("float", "double"),
    ("DOUBLE", "", "double"): ("double",),
    ("INT32", "Decimal", "decimal128"): ("decimal",),
    ("INT64", "Decimal", "decimal128"): ("decimal",),
    ("FIXED_LEN_BYTE_ARRAY", "Decimal", "decimal128"): ("decimal",),
    ("INT32", "Date", "date32[day]"): ("date",),
    ("INT64", "Time microseconds", "time64[us]"): ("time",),
    ("INT64", "Timestamp microseconds", "timestamp[us]"): ("timestamp",),
    ("INT64", "Timestamp microseconds in UTC", "timestamp[us, tz=UTC]"): ("timestamptz",),
    ("INT64", "Timestamp nanoseconds", "timestamp[ns]"): ("timestamp_ns",),
    ("INT64", "Timestamp nanoseconds in UTC", "timestamp[ns, tz=UTC]"): ("timestamptz_ns",),
    (INT96, "", "timestamp[ns]"): ("timestamptz",),
    ("BYTE_ARRAY", "String", "string"): ("string",),
    ("BYTE_ARRAY", "String", "large_string"): ("string",),
    ("BYTE_ARRAY", "", "binary"): ("binary",),
    ("BYTE_ARRAY", "", "large_binary"): ("binary",),
    ("BYTE_ARRAY", "BSON", "binary"): ("binary",),
    ("FIXED_LEN_BYTE_ARRAY", "", "fixed_size_binary"): ("fixed",),
    ("FIXED_LEN_BYTE_ARRAY", "UUID", "fixed_size_binary"): ("uuid",),
}
#: In tables of later versions PyIceberg takes INT96 for nanoseconds, and fails to make microseconds of them.
_INT96_LAST_VERSION: Final = 2
#: From this version on PyIceberg has a type for columns of nulls.
_NULLS_VERSION: Final = 3
#: PyIceberg's names of UTC (pyiceberg.io.pyarrow.UTC_ALIASES).
_UTC: Final = frozenset({"UTC", "+00:00", "Etc/UTC", "Z"})

#: What Java reads without a further library.
_CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4"})
#: The encoding of booleans that Spark reads in vectors. Each chunk has RLE too, for its nulls.
_PLAIN: Final = "PLAIN"

#: The kind of a table's type -> what pyarrow has to write for it.
_WRITTEN_AS: Final[Mapping[str, str]] = {
    "boolean": "pyarrow.bool_()",
    "int": "pyarrow.int32()",
    "long": "pyarrow.int64()",
    "float": "pyarrow.float32()",
    "double": "pyarrow.float64()",
    "date": "pyarrow.date32()",
    "time": "pyarrow.time64('us')",
    "timestamp": "pyarrow.timestamp('us')",
    "timestamptz": "pyarrow.timestamp('us', 'UTC')",
    "timestamp_ns": "pyarrow.timestamp('ns')",
    "timestamptz_ns": "pyarrow.timestamp('ns', 'UTC')",
    "string": "pyarrow.string()",
    "binary": "pyarrow.binary()",
    "uuid": "pyarrow.uuid(), and write the file with store_schema=False",
}


@dataclass(frozen=True, slots=True)
class FileType:
    """What a Parquet column stores.

    physical: Parquet's physical type. logical: its logical type, with what distinguishes it, as in READABLE. arrow: the
    type that pyarrow restores, as in READABLE. size: precision and scale of decimals; of fixed-length bytes the length.
    shown: all of it, for messages. is_never_null: whether it is required, and all that it is in.
    """

    physical: str
    logical: str
    arrow: str
    size: tuple[int, ...] = ()
    shown: str = ""
    is_never_null: bool = False


def file_type(column: pq.ColumnSchema, arrow: pa.DataType) -> FileType:
    """The type of a leaf column. arrow: as the footer's schema has it in pyarrow."""
    found = json.loads(column.logical_type.to_json())
    physical = column.physical_type
    size: tuple[int, ...] = ()
    match logical := "" if found["Type"] == "None" else found["Type"]:
        case "Int":
            logical = f"{'Int' if found['isSigned'] else 'UInt'} {found['bitWidth']}"
        case "Decimal":
            size = found["precision"], found["scale"]
        case "Time" | "Timestamp":
            in_utc = logical == "Timestamp" and found["isAdjustedToUTC"]
            logical = f"{logical} {found['timeUnit']}{' in UTC' if in_utc else ''}"
        case "" if physical == "FIXED_LEN_BYTE_ARRAY":
            size = (column.length,)
    kind = _arrow_kind(arrow)
    shown = f"{logical}{size if logical == 'Decimal' else ''} ({physical})" if logical else physical
    if (physical, logical, kind) not in READABLE:
        shown += f", which pyarrow reads as {arrow}"
    return FileType(physical, logical, kind, size, shown, column.max_definition_level == 0)


def _arrow_kind(arrow: pa.DataType) -> str:
    if pa.types.is_dictionary(arrow):
        return _arrow_kind(arrow.value_type)
    if pa.types.is_timestamp(arrow) and arrow.tz in _UTC:
        return f"timestamp[{arrow.unit}, tz=UTC]"
    if pa.types.is_decimal128(arrow):
        return "decimal128"
    return "fixed_size_binary" if pa.types.is_fixed_size_binary(arrow) else str(arrow)


def can_read(stored: FileType, format_version: int, wanted: PrimitiveType) -> bool:
    """Whether every reader reads a file's column as a type, in a table of a format version."""
    if wanted.kind not in READABLE.get((stored.physical, stored.logical, stored.arrow), ()):
        return False
    if wanted.kind == "decimal":
        precision, scale = stored.size
        return precision <= wanted.precision and scale == wanted.scale
    if wanted.kind == "fixed":
        return wanted == types.fixed_type(stored.size[0])
    return stored.physical != INT96 or format_version <= _INT96_LAST_VERSION


def unread_pages(stored: FileType, chunk: pq.ColumnChunkMetaData) -> tuple[str, str] | None:
    """What a reader cannot read of the pages of a column in a row group, Java without a further library or Spark in
    vectors, and how to write them instead. None: all read them."""
    if chunk.compression not in _CODECS:
        return f"compressed by {chunk.compression}", "write the file with zstd or snappy"
    if stored.physical == "BOOLEAN" and _PLAIN not in chunk.encodings:
        return "booleans in encoding RLE", "write the file with data pages of version 1"
    return None


def cast_to(wanted: Type) -> str:
    """What to do with a leaf column that is not read as a type, so that it is."""
    if not isinstance(wanted, PrimitiveType):
        return "write the file with the table's types"
    match wanted.kind:
        case "decimal":
            written = f"pyarrow.decimal128({wanted.precision}, {wanted.scale})"
        case "fixed":
            written = f"pyarrow.binary({wanted.length})"
        case kind if kind in _WRITTEN_AS:
            written = _WRITTEN_AS[kind]
        case _:
            return f"leave it out, since no kind of Parquet column is known to be read as {wanted} by all"
    return f"cast it to {written}"


def form_advice(_wanted: Type) -> str:
    """What to do with a struct, list or map that is not read as a type, so that it is."""
    return "write the file with the table's types, and each list and map with two levels below it, as pyarrow does"


def pyiceberg_knows(arrow: pa.DataType, format_version: int) -> bool:
    """Whether PyIceberg has a type for a leaf column. Else it reads no column of the file
    (pyiceberg.io.pyarrow.pyarrow_to_schema)."""
    if pa.types.is_dictionary(arrow):
        return pyiceberg_knows(arrow.value_type, format_version)
    if pa.types.is_timestamp(arrow):
        return arrow.tz is None or arrow.tz in _UTC
    if pa.types.is_null(arrow):
        return format_version >= _NULLS_VERSION
    return isinstance(arrow, pa.UuidType) or any(is_it(arrow) for is_it in _KNOWN)


_KNOWN: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal128,
    pa.types.is_date32,
    lambda arrow: arrow == pa.time64("us"),
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
