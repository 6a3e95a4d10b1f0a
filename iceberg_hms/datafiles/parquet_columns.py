"""The columns of a Parquet file, for `file_columns` to match with a table's, and the types that they can be read as."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.datafiles.arrow_schemas import has_form, is_list
from iceberg_hms.datafiles.file_columns import FileColumn, Shape
from iceberg_hms.errors import UnsupportedFormat
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.types import PrimitiveType

INT96 = "INT96"

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class FileType:
    """What a Parquet column stores.

    type: the Iceberg type that it is; None if there is none. physical: Parquet's physical type.
    unit: of times and timestamps: "milliseconds", "microseconds", "nanoseconds". unsigned_bits: 0 for signed integers.
    """

    type: PrimitiveType | None
    physical: str
    unit: str = ""
    unsigned_bits: int = 0
    shown: str = ""


def parquet_columns(location: str, footer: pq.FileMetaData) -> list[FileColumn]:
    """The columns at the top level; the index of a leaf is its position in the footer's row groups. Raises
    UnsupportedFormat: the file's schema does not identify its leaf columns."""
    return _Walk(location, footer).columns()


@dataclass
class _Walk:
    """Parquet lists leaf columns in the order of this walk, and each leaf's path in the footer proves that the walk is
    at the right leaf."""

    location: str
    footer: pq.FileMetaData
    _next: int = 0

    def columns(self) -> list[FileColumn]:
        found = [self._column(each, each.name, each.name, each.name) for each in self.footer.schema.to_arrow_schema()]
        if self._next != self.footer.num_columns:
            self._lost(self.footer.schema.column(self._next).path)
        return found

    def _column(self, each: pa.Field, name: str, shown: str, path: str, *, in_repeated: bool = False) -> FileColumn:
        """shown: the field's path, for messages. path: the beginning of its leaves' paths in the footer; it ends at a
        list or map, whose inner levels every writer names differently. in_repeated: in such a one."""
        stored, field_id, known = _storage(each.type), _id_of(each), has_form(each.type)
        if not pa.types.is_nested(stored):
            index, leaf = self._next, file_type(self._leaf(shown, path))
            reads = partial(can_read, leaf)
            return FileColumn(name, field_id, index, "leaf", leaf.shown, reads, known, stored=leaf)
        shape, fields = _fields(stored)
        stays = in_repeated or shape != "struct"
        children = tuple(
            self._column(child, inner, f"{shown}.{inner}", path if stays else f"{path}.{inner}", in_repeated=stays)
            for inner, child in fields
        )
        return FileColumn(name, field_id, -1, shape, str(each.type), types.VARIANT.__eq__, known, children)

    def _leaf(self, shown: str, path: str) -> pq.ColumnSchema:
        if self._next >= self.footer.num_columns:
            self._lost(shown)
        column = self.footer.schema.column(self._next)
        self._next += 1
        if column.path != path and not column.path.startswith(path + "."):
            self._lost(column.path)
        return column

    def _lost(self, path: str) -> NoReturn:
        raise UnsupportedFormat(f"{self.location}: cannot tell which column {path} is by the schema in the footer")


def file_type(column: pq.ColumnSchema) -> FileType:
    """The type of a leaf column by Parquet's own description. An Arrow schema in the file describes the writer's
    memory, not what is stored."""
    logical = json.loads(column.logical_type.to_json())
    physical = column.physical_type
    shown = physical if logical["Type"] == "None" else f"{logical['Type']} ({physical})"
    found: PrimitiveType | None
    match logical["Type"]:
        case "None":
            found = types.fixed_type(column.length) if physical == "FIXED_LEN_BYTE_ARRAY" else _PHYSICAL.get(physical)
        case "Int":
            bits, signed = logical["bitWidth"], logical["isSigned"]
            if not signed:
                found = {8: types.INT, 16: types.INT, 32: types.LONG}.get(bits)
                return FileType(found, physical, unsigned_bits=bits, shown=f"unsigned {bits}-bit integer")
            found = types.LONG if bits == 64 else types.INT
        case "Decimal":
            fits = logical["precision"] <= types.MAX_DECIMAL_PRECISION
            found = types.decimal_type(logical["precision"], logical["scale"]) if fits else None
        case "Time":
            unit = logical["timeUnit"]
            found = None if unit == "nanoseconds" else types.TIME
            return FileType(found, physical, unit=unit, shown=f"time in {unit}")
        case "Timestamp":
            return _timestamp(physical, logical["timeUnit"], adjusted=logical["isAdjustedToUTC"])
        case "Geometry" | "Geography":
            found = PrimitiveType(logical["Type"].lower())
        case other:
            found = _LOGICAL.get(other)
    return FileType(found, physical, shown=shown)


def _timestamp(physical: str, unit: str, *, adjusted: bool) -> FileType:
    if unit == "nanoseconds":
        found = types.TIMESTAMPTZ_NS if adjusted else types.TIMESTAMP_NS
    else:
        found = types.TIMESTAMPTZ if adjusted else types.TIMESTAMP
    return FileType(found, physical, unit=unit, shown=f"{found} in {unit}")


_PHYSICAL: Mapping[str, PrimitiveType] = {
    "BOOLEAN": types.BOOLEAN,
    "INT32": types.INT,
    "INT64": types.LONG,
    "INT96": types.TIMESTAMP,
    "FLOAT": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "BYTE_ARRAY": types.BINARY,
}
_LOGICAL: Mapping[str, PrimitiveType] = {
    "String": types.STRING,
    "Enum": types.STRING,
    "JSON": types.STRING,
    "BSON": types.BINARY,
    "UUID": types.UUID,
    "Date": types.DATE,
    "Null": types.UNKNOWN,
}


def can_read(stored: FileType, wanted: PrimitiveType) -> bool:
    """Whether readers accept a file's column as the table's: equal types, promotions (spec: Schema Evolution), and
    INT96, which old writers use for both kinds of timestamp."""
    found = stored.type
    if wanted == types.VARIANT:
        return True
    if found is None:
        return False
    if stored.physical == INT96:
        return wanted in (types.TIMESTAMP, types.TIMESTAMPTZ)
    if found == wanted or found == types.UNKNOWN:
        return True
    match wanted.kind:
        case "long":
            return found == types.INT
        case "double":
            return found == types.FLOAT
        case "decimal":
            return found.kind == "decimal" and found.scale == wanted.scale and found.precision <= wanted.precision
        case "timestamp" | "timestamp_ns":
            return found == types.DATE
        case "uuid":
            return found == types.fixed_type(16)
        case "geometry" | "geography":
            return found.kind in (wanted.kind, "binary")
        case _:
            return False


def _storage(arrow: pa.DataType) -> pa.DataType:
    while True:
        if isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        elif pa.types.is_dictionary(arrow):
            arrow = arrow.value_type
        else:
            return arrow


def _fields(arrow: pa.DataType) -> tuple[Shape, list[tuple[str, pa.Field]]]:
    """The shape of a nested pyarrow type, and its fields, with Iceberg's names. Types that Iceberg lacks, such as
    list_view, have fields too: Parquet has a column for each of their leaves."""
    if pa.types.is_struct(arrow):
        return "struct", [(child.name, child) for child in arrow]
    if is_list(arrow):
        return "list", [("element", arrow.value_field)]
    if pa.types.is_map(arrow):
        return "map", [("key", arrow.key_field), ("value", arrow.item_field)]
    return "other", [(child.name, child) for child in (arrow.field(at) for at in range(arrow.num_fields))]


def _id_of(each: pa.Field) -> int | None:
    text = (each.metadata or {}).get(_FIELD_ID)
    # Some Parquet writers write -1 for a field without an id.
    return None if text is None or int(text) < 0 else int(text)
