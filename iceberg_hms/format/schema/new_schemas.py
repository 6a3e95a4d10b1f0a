"""The one door through which a schema that a caller sends comes into a table or a view.

It takes what every reader reads, and writes it as Java does: fields that are null are left out, types and defaults have
the form of the specification. Unknown fields stay. `Schema.parse` alone reads the schemas that a table has already:
other writers may have taken more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.schema.json_values import default_json
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    walk_fields,
)

#: How edges between points run (spec: Primitive Types, geography).
_ALGORITHMS: Final = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_DEFAULTS: Final = frozenset({"initial-default", "write-default"})
#: The highest id of a column (spec: Reserved Field IDs); readers give the ids above it to metadata columns.
MAX_FIELD_ID: Final = 2147483447
#: Columns that readers make up (spec: Reserved Field IDs). Spark reads no row of a table with a column `_file`, updates
#: none of one with `_FILE`, and has no changelog of one with `_change_type`. `file_path`, `pos` and `row`, which only
#: delete files have, do no harm, nor do fields in structs.
METADATA_COLUMNS: Final = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
    | {"_change_type", "_change_ordinal", "_commit_snapshot_id"}
)


def new_table_schema(raw: Any, format_version: int, known: Iterable[Schema] = ()) -> Schema:
    """A schema for a table, of the JSON object that a caller sends. known: the table's schemas, whose columns stay what
    they are, even if they have names or ids that a new column may not have.

    Raises InvalidInput that names the field: it is malformed, `Schema.validate` refuses it, a default is no value of
    its column's type (spec: Appendix D), or a new column has a reserved name or id (spec: Reserved Field IDs).
    """
    schema = _as_written(raw)
    schema.validate(format_version)
    if _reserved(schema):
        _refuse_reserved(schema, known)
    return schema


def new_view_schema(raw: Any) -> Schema:
    """A schema for a view, likewise. The columns of a view may have any name and id: nobody reads files by them."""
    schema = _as_written(raw)
    schema.validate()
    return schema


def check_column_name(name: str) -> None:
    """Raises InvalidInput for the name of a metadata column, in whatever case: Spark ignores it."""
    if name.lower() in METADATA_COLUMNS:
        raise InvalidInput(
            f"Cannot call a column {name}: readers take {name.lower()} for a metadata column of Iceberg",
            next_step="give the column another name",
        )


def _as_written(raw: Any) -> Schema:
    raw = read.require_object(raw, "schema")
    if raw.get("type") not in (None, "struct"):
        raise InvalidInput(f"schema: type must be struct, but is {read.shown(raw['type'])}")
    return Schema.parse(_struct(raw, Schema.parse(raw).as_struct(), ""))


def _struct(raw: Mapping[str, Any], struct: StructType, prefix: str) -> dict[str, Any]:
    fields = [_field(each, field, prefix) for each, field in zip(raw["fields"], struct.fields, strict=True)]
    return {**read.without_nulls(raw), "type": "struct", "fields": fields}


def _field(raw: Mapping[str, Any], field: NestedField, prefix: str) -> dict[str, Any]:
    name = prefix + field.name
    written = {**read.without_nulls(raw), "type": _type(raw["type"], field.type, f"{name}.")}
    for key in _DEFAULTS & written.keys():
        try:
            written[key] = default_json(field.type, written[key])
        except InvalidInput as error:
            raise InvalidInput(f"Invalid {key} of column {name}: {error.message}") from error
    return written


def _type(raw: Any, type_: Type, prefix: str) -> Any:
    match type_:
        case PrimitiveType():
            return _primitive(type_)
        case StructType():
            return _struct(raw, type_, prefix)
        case ListType():
            return {**read.without_nulls(raw), "element": _type(raw["element"], type_.element, f"{prefix}element.")}
        case MapType():
            key, value = (
                _type(raw["key"], type_.key, f"{prefix}key."),
                _type(raw["value"], type_.value, f"{prefix}value."),
            )
            return {**read.without_nulls(raw), "key": key, "value": value}


def _primitive(type_: PrimitiveType) -> str:
    name = type_.to_json()
    crs, comma, algorithm = name.removesuffix(")").partition(", ")
    if type_.kind != "geography" or not comma:
        return name
    if algorithm.lower() not in _ALGORITHMS:
        raise InvalidInput(f"Cannot parse type string: {name}: the algorithm must be one of {', '.join(_ALGORITHMS)}")
    return f"{crs}, {algorithm.lower()})"


def _reserved(schema: Schema) -> set[tuple[int, str]]:
    """Id and name of each field that a new schema may not have."""
    by_name = {(field.id, field.name) for field in schema.fields if field.name.lower() in METADATA_COLUMNS}
    return by_name | {(each.id, each.name) for each in walk_fields(schema.as_struct()) if each.id > MAX_FIELD_ID}


def _refuse_reserved(schema: Schema, known: Iterable[Schema]) -> None:
    there = {found for each in known for found in _reserved(each)}
    for field_id, name in sorted(_reserved(schema) - there):
        if field_id > MAX_FIELD_ID:
            raise InvalidInput(
                f"Cannot give column {name} the id {field_id}: ids above {MAX_FIELD_ID} are those of metadata columns",
                next_step="give it the next id after the table's last-column-id",
            )
        check_column_name(name)
