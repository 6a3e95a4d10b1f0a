"""The columns and the storage descriptor of a table's row, as Java's HiveSchemaUtil and HiveOperationsBase write them.

Engines that read Iceberg do not need them; Hive, dashboards and data catalogs do.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    nested_fields,
)
from iceberg_hms.metastore.connection.storable import COLUMN_NAME_MAX, COMMENT_MAX, TYPE_MAX, cut, fits
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor

logger = logging.getLogger(__name__)

_HIVE_TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "time": "string",
    "string": "string",
    "uuid": "string",
    "timestamp": "timestamp",
    "timestamp_ns": "timestamp",
    "fixed": "binary",
    "binary": "binary",
    # Hive has no such types. Java writes `unknown` for variant, which Hive 2.3 refuses to store.
    "unknown": "string",
    "variant": "binary",
    "geometry": "binary",
    "geography": "binary",
}
_NO_COLUMN = FieldSchema()
_INSTANTS = frozenset({"timestamptz", "timestamptz_ns"})

_PLAIN_FORMATS = (
    "org.apache.hadoop.mapred.FileInputFormat",
    "org.apache.hadoop.mapred.FileOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
_HIVE_ENGINE_FORMATS = (
    "org.apache.iceberg.mr.hive.HiveIcebergInputFormat",
    "org.apache.iceberg.mr.hive.HiveIcebergOutputFormat",
    "org.apache.iceberg.mr.hive.HiveIcebergSerDe",
)


def hive_type(type_: Type, *, local_time_zones: bool) -> str:
    """Hive's type string for an Iceberg type.

    local_time_zones: the server is Hive 3 or later, which has `timestamp with local time zone`. Hive 2.3 takes that
    type when a table is created and refuses every later alter, so it gets `timestamp`.
    """

    def inner(part: Type) -> str:
        return hive_type(part, local_time_zones=local_time_zones)

    match type_:
        case StructType():
            return f"struct<{','.join(f'{field.name}:{inner(field.type)}' for field in type_.fields)}>"
        case ListType():
            return f"array<{inner(type_.element)}>"
        case MapType():
            return f"map<{inner(type_.key)},{inner(type_.value)}>"
        case PrimitiveType():
            return _primitive(type_, local_time_zones)


def _primitive(type_: PrimitiveType, local_time_zones: bool) -> str:
    if type_.kind == "decimal":
        return f"decimal({type_.precision},{type_.scale})"
    if type_.kind in _INSTANTS:
        return "timestamp with local time zone" if local_time_zones else "timestamp"
    return _HIVE_TYPES.get(type_.kind, "string")


def has_instants(type_: Type) -> bool:
    """Whether a timestamptz is anywhere in a type: only then does the server's version matter."""
    if isinstance(type_, PrimitiveType):
        return type_.kind in _INSTANTS
    return any(has_instants(field.type) for field in nested_fields(type_))


def columns(
    schema: Schema,
    *,
    local_time_zones: bool,
    current: Iterable[Any] = (),
    keys: Collection[str] = (),
    before: Schema | None = None,
    comment_max: int = COMMENT_MAX,
) -> list[Any]:
    """A schema's top level as the metastore's FieldSchema records.

    current: the columns of the row now. before: the table's schema until now, if its columns may have types that Hive
    chose (`tinyint` of an int): they keep them as long as the field keeps its type. comment_max: the most bytes of a
    comment; a longer one is cut, since its beginning says more than none. keys: names of the row's partition keys, in
    lower case: a table that was one of Hive's has some. Every release of the metastore takes a column of the same name,
    and shows the table with two of it.

    A column is left out if it is a partition key, if the metastore cannot hold its name or its type, or takes its
    name for that of a column before it. What the row has already stays.
    """
    held = {column.name.lower(): column for column in current}
    records: dict[str, Any] = {}
    for field in schema.fields:
        # As the metastore and its databases compare names.
        name = field.name.lower().rstrip(" ")
        if name in keys:
            continue
        hives = _column_of(field, before, held)
        type_ = hive_type(field.type, local_time_zones=local_time_zones) if hives is None else hives.type
        old = held.get(name, _NO_COLUMN)
        is_held = old.type == type_ or (fits(field.name, COLUMN_NAME_MAX) and fits(type_, TYPE_MAX))
        if name in records or not is_held:
            logger.info("A column is left out of the table's row: the metastore cannot hold %.100r", field.name)
        elif (old.name, old.type, old.comment) == (field.name, type_, field.doc):
            records[name] = old
        else:
            comment = field.doc
            if comment is not None and comment != old.comment:
                comment = cut(comment, comment_max)
            records[name] = FieldSchema(name=field.name, type=type_, comment=comment)
    return list(records.values())


def _column_of(field: NestedField, before: Schema | None, held: Mapping[str, Any]) -> Any | None:
    """The row's column of a field that had the same type in the schema before; None if it has none."""
    was = None if before is None else before.field(field.id)
    return None if was is None or was.type != field.type else held.get(was.name.lower())


def has_long_comments(schema: Schema) -> bool:
    """Whether a comment would be cut on a metastore before Hive 4."""
    return any(field.doc is not None and not fits(field.doc, COMMENT_MAX) for field in schema.fields)


def storage_descriptor(current: Any | None, cols: list[Any], location: str, *, hive_engine: bool) -> Any:
    """A storage descriptor with these columns and location; whatever else `current` has (buckets, skew, serde
    parameters) stays.

    hive_engine: `engine.hive.enabled`, with which Hive itself can read the table.
    """
    descriptor = StorageDescriptor(parameters={}) if current is None else copy.copy(current)
    serde = SerDeInfo(parameters={}) if descriptor.serdeInfo is None else copy.copy(descriptor.serdeInfo)
    input_format, output_format, library = _HIVE_ENGINE_FORMATS if hive_engine else _PLAIN_FORMATS
    serde.serializationLib = library
    descriptor.cols = cols
    descriptor.location = location
    descriptor.inputFormat = input_format
    descriptor.outputFormat = output_format
    descriptor.serdeInfo = serde
    return descriptor
