"""Matches the columns of a Parquet file with a table's, and checks their types.

By field ids, if the file has them; else by name, through the table's `schema.name-mapping.default` or the names of its
current schema (spec: Column Projection). Readers then find the same columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.datafiles.arrow_schemas import has_form, is_list
from iceberg_hms.datafiles.described_file import mapping_of
from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.manifests.lineage_columns import LINEAGE_COLUMNS
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import NestedField, PrimitiveType, nested_fields

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


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf column of a file that is a column of the table, or a metadata column of row lineage.

    index: its position in the footer's row groups. field_id, type: the table's. repeated: it is in a list or map.
    """

    index: int
    field_id: int
    type: PrimitiveType
    stored: FileType
    repeated: bool


@dataclass(frozen=True, slots=True)
class Matched:
    """has_field_ids: the file's columns carry ids. columns: the leaf columns that the table has, and the metadata
    columns of row lineage. present: ids of all these fields, nested ones too, that the file has.
    extra: names of columns that keep PyIceberg from reading the file, or whose ids the table never assigned."""

    has_field_ids: bool
    columns: tuple[Column, ...]
    present: frozenset[int]
    extra: tuple[str, ...] = ()


def match_columns(location: str, footer: pq.FileMetaData, metadata: TableMetadata) -> Matched:
    """Raises InvalidInput: nothing in the file belongs to the table, or a column cannot be read as the table's type;
    UnsupportedFormat: the file's schema does not identify its leaf columns.
    Leaves out columns that the table lacks; `Matched.extra` names those that keep PyIceberg from reading the file."""
    arrow = footer.schema.to_arrow_schema()
    matcher = _Matcher(location, footer, metadata.schema, metadata.last_column_id)
    if _has_ids(arrow):
        matcher.by_id(arrow)
    else:
        matcher.by_name(arrow, mapping_of(metadata))
    matcher.check_every_leaf_was_visited()
    if matcher.present <= LINEAGE_COLUMNS.keys():
        how = "field ids" if _has_ids(arrow) else "column names"
        raise InvalidInput(f"{location} has no column of the table (matched by {how})")
    return Matched(_has_ids(arrow), tuple(matcher.columns), frozenset(matcher.present), tuple(matcher.extra))


@dataclass(frozen=True, slots=True)
class _Place:
    """A field's place in a file.

    path: the beginning of its leaves' paths in the footer; it ends at a list or map, whose inner levels every writer
    names differently. in_repeated: in a list or map. shown: for messages. in_extra: in a column that already counts
    as extra.
    """

    shown: str
    path: str
    in_repeated: bool = False
    in_extra: bool = False

    def below(self, name: str, *, of_struct: bool) -> _Place:
        stays = self.in_repeated or not of_struct
        return _Place(f"{self.shown}.{name}", self.path if stays else f"{self.path}.{name}", stays, self.in_extra)


@dataclass
class _Matcher:
    """Walks a file's schema beside the table's. Parquet lists leaf columns in the order of this walk, and each leaf's
    path in the footer proves that the walk is at the right leaf.

    PyIceberg reads a file only if it can give each of its columns an id and an Iceberg type, also those
    outside of the projection (pyiceberg.io.pyarrow.pyarrow_to_schema); `extra` collects the columns for which it
    cannot.
    """

    location: str
    footer: pq.FileMetaData
    schema: Schema
    last_column_id: int
    columns: list[Column] = field(default_factory=list)
    present: set[int] = field(default_factory=set)
    extra: list[str] = field(default_factory=list)
    _next: int = 0

    def by_id(self, arrow: Iterable[pa.Field]) -> None:
        for each in arrow:
            self._visit(each, _Place(each.name, each.name), _id_of(each), None)

    def by_name(self, arrow: Iterable[pa.Field], mapping: Sequence[Mapping[str, Any]]) -> None:
        for each in arrow:
            self._visit_named(each, _Place(each.name, each.name), each.name, mapping)

    def check_every_leaf_was_visited(self) -> None:
        if self._next != self.footer.num_columns:
            self._lost(self.footer.schema.column(self._next).path)

    def _visit_named(self, each: pa.Field, place: _Place, name: str, mapping: Sequence[Mapping[str, Any]]) -> None:
        entry = next((item for item in mapping if name in item.get("names", ())), {})
        self._visit(each, place, entry.get("field-id"), entry.get("fields") or [])

    def _visit(
        self, each: pa.Field, place: _Place, field_id: int | None, mapping: Sequence[Mapping[str, Any]] | None
    ) -> None:
        """One field of the file. mapping: the names below it; None = go by ids."""
        found = None if field_id is None else self.schema.field(field_id)
        if found is None and field_id is not None and place.shown == each.name:
            found = LINEAGE_COLUMNS.get(field_id)
        stored = _storage(each.type)
        if found is not None:
            if found.id in self.present:
                self._refuse_second(found, place)
            self._check_shape(each, found, nested=pa.types.is_nested(stored))
            self.present.add(found.id)
        elif not place.in_extra and not self._readers_skip(each.type, field_id, by_id=mapping is None):
            unmapped = mapping is not None and self.schema.find(place.shown) is not None
            self.extra.append(f"{place.shown} (not in {NAME_MAPPING})" if unmapped else place.shown)
            place = replace(place, in_extra=True)
        if not pa.types.is_nested(stored):
            self._leaf(found, place)
        elif found is not None and found.type == types.VARIANT:
            # The leaves of a variant are columns of no table.
            place = replace(place, in_extra=True)
        for name, child in _children(stored):
            below = place.below(name, of_struct=pa.types.is_struct(stored))
            if mapping is None:
                self._visit(child, below, _id_of(child), None)
            else:
                self._visit_named(child, below, name, mapping)

    def _readers_skip(self, arrow: pa.DataType, field_id: int | None, *, by_id: bool) -> bool:
        """Whether readers skip a column that is not in the table's schema: it was dropped, or is in the name mapping.
        An id that the table never assigned belongs to another table's column."""
        if field_id is None or (by_id and field_id > self.last_column_id):
            return False
        return has_form(arrow)

    def _check_shape(self, each: pa.Field, found: NestedField, *, nested: bool) -> None:
        fits = nested == bool(nested_fields(found.type))
        if fits and nested:
            fits = {types.StructType: pa.types.is_struct, types.ListType: is_list, types.MapType: pa.types.is_map}[
                type(found.type)
            ](_storage(each.type))
        is_variant = isinstance(found.type, PrimitiveType) and found.type == types.VARIANT
        if not fits and not is_variant:
            self._refuse(found, str(each.type))

    def _leaf(self, found: NestedField | None, place: _Place) -> None:
        index = self._next
        self._next += 1
        if index >= self.footer.num_columns:
            self._lost(place.shown)
        column = self.footer.schema.column(index)
        if column.path != place.path and not column.path.startswith(place.path + "."):
            self._lost(column.path)
        if found is None or not isinstance(found.type, PrimitiveType):
            return
        stored = file_type(column)
        if not (stored.type == found.type if found.id in LINEAGE_COLUMNS else can_read(stored, found.type)):
            self._refuse(found, stored.shown)
        self.columns.append(Column(index, found.id, found.type, stored, repeated=column.max_repetition_level > 0))

    def _lost(self, path: str) -> None:
        raise UnsupportedFormat(f"{self.location}: cannot tell which column {path} is by the schema in the footer")

    def _refuse_second(self, found: NestedField, place: _Place) -> None:
        name = self.schema.name_of(found.id) or found.name
        raise InvalidInput(
            f"{self.location}: {place.shown} is column {name} of the table, and so is another column of the file",
            next_step="write the file with one of them; field ids, or without them the table's "
            f"{NAME_MAPPING}, say which column of the table each is",
        )

    def _refuse(self, found: NestedField, stored: str) -> None:
        name = self.schema.name_of(found.id) or found.name
        raise InvalidInput(
            f"{self.location}: column {name} is {stored} in the file and {found.type} in the table",
            next_step="write the file with the table's types",
        )


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
            found = types.decimal_type(logical["precision"], logical["scale"])
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


def _children(arrow: pa.DataType) -> list[tuple[str, pa.Field]]:
    """The fields in a pyarrow type, with Iceberg's names. Types that Iceberg lacks, such as list_view, have fields too:
    Parquet has a column for each of their leaves."""
    if pa.types.is_struct(arrow):
        return [(child.name, child) for child in arrow]
    if is_list(arrow):
        return [("element", arrow.value_field)]
    if pa.types.is_map(arrow):
        return [("key", arrow.key_field), ("value", arrow.item_field)]
    if pa.types.is_nested(arrow):
        return [(child.name, child) for child in (arrow.field(at) for at in range(arrow.num_fields))]
    return []


def _id_of(each: pa.Field) -> int | None:
    text = (each.metadata or {}).get(_FIELD_ID)
    # Some Parquet writers write -1 for a field without an id.
    return None if text is None or int(text) < 0 else int(text)


def _has_ids(fields: Iterable[pa.Field]) -> bool:
    return any(
        _id_of(each) is not None or _has_ids(child for _, child in _children(_storage(each.type))) for each in fields
    )
