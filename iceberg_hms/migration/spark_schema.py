"""The schema that Spark keeps beside Hive's columns, in parameters of the row.

Hive folds the case of columns, and has no columns for some of Spark's tables; the files have Spark's names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema, assign_fresh_ids
from iceberg_hms.format.schema.types import MAX_NESTING, ListType, MapType, NestedField, PrimitiveType, StructType, Type
from iceberg_hms.migration.column_defaults import CURRENT_DEFAULT, default_of
from iceberg_hms.migration.hive_types import LENGTHS, ColumnKey, decimal_of, no_type, too_deep

#: HMS parameter: the schema as JSON, or the prefix of those that have its parts.
SPARK_SCHEMA: Final = "spark.sql.sources.schema"
#: How long the JSON may be. A column takes some hundred characters.
MAX_SCHEMA_TEXT: Final = 16 * 1024 * 1024

_PRIMITIVES: Final = {
    "boolean": types.BOOLEAN,
    "byte": types.INT,
    "short": types.INT,
    "integer": types.INT,
    "long": types.LONG,
    "float": types.FLOAT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "binary": types.BINARY,
    "date": types.DATE,
    "timestamp_ntz": types.TIMESTAMP,
}
#: Of parts of some 4,000 characters.
_COUNT: Final = re.compile(r"\d{1,5}", re.ASCII)
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)", re.ASCII)
# Spark keeps them as strings with the length beside, and did not always.
_CHARS: Final = re.compile(r"(char|varchar)\(\s*\d{1,9}\s*\)", re.ASCII)
#: Metadata that have a type with lengths, also within others: `array<char(3)>`.
_TYPE_TEXTS: Final = ("__CHAR_VARCHAR_TYPE_STRING", "HIVE_TYPE_STRING")
_LENGTH: Final = re.compile(r"\b(char|varchar)\s*\(\s*\d", re.ASCII | re.I)


def spark_schema(
    parameters: Mapping[str, str],
    *,
    timestamp: PrimitiveType = types.TIMESTAMPTZ,
    defaults: bool = True,
    keys: list[ColumnKey] | None = None,
) -> Schema | None:
    """The schema in a row's parameters, with fresh field ids; each field may be null, for Spark did not always keep
    nulls out. None if they have none. timestamp: what Spark's `timestamp` becomes. defaults: whether fields get
    what writers write that name no value. keys: gets all metadata of columns. Raises InvalidInput for a
    schema that cannot be read, and that names the column for a type that Iceberg lacks and for a default that is no
    literal."""
    text = _schema_text(parameters)
    if text is None:
        return None
    raw = read.load_object(text, SPARK_SCHEMA)
    struct = _SparkTypes(timestamp, defaults, [] if keys is None else keys).type_of(raw, "", 0)
    if not isinstance(struct, StructType):
        raise InvalidInput(f"{SPARK_SCHEMA} is no struct")
    return assign_fresh_ids(Schema.of(struct.fields))


def _schema_text(parameters: Mapping[str, str]) -> str | None:
    whole = parameters.get(SPARK_SCHEMA)
    if whole is None:
        count = parameters.get(f"{SPARK_SCHEMA}.numParts")
        if count is None:
            return None
        if _COUNT.fullmatch(count) is None:
            raise InvalidInput(f"{SPARK_SCHEMA}.numParts is no number of parts: {read.shown(count)}")
        parts = [parameters.get(f"{SPARK_SCHEMA}.part.{at}") for at in range(int(count))]
        if None in parts:
            raise InvalidInput(f"{SPARK_SCHEMA}.part.{parts.index(None)} is not there, of {count} parts")
        whole = "".join(part for part in parts if part is not None)
    if len(whole) > MAX_SCHEMA_TEXT:
        raise InvalidInput(f"{SPARK_SCHEMA} has more than {MAX_SCHEMA_TEXT} characters")
    return whole


class _SparkTypes:
    """Turns Spark's JSON into types with provisional ids."""

    def __init__(self, timestamp: PrimitiveType, defaults: bool, keys: list[ColumnKey]) -> None:
        self._timestamp = timestamp
        self._defaults = defaults
        self._keys = keys
        self._next_id: Callable[[], int] = itertools.count(1).__next__

    def type_of(self, raw: Any, path: str, depth: int) -> Type:
        """path: of the column, empty for the schema itself."""
        if depth > MAX_NESTING:
            raise too_deep(path)
        if isinstance(raw, str):
            return self._primitive(raw, path)
        raw = read.require_object(raw, f"Column {path}: the type in {SPARK_SCHEMA}")
        match raw.get("type"):
            case "struct":
                fields = read.require_list(raw, "fields", f"Column {path}")
                return StructType(tuple(self._field(each, path, depth) for each in fields))
            case "array":
                element_id = self._next_id()
                return ListType(element_id, False, self.type_of(raw.get("elementType"), f"{path}.element", depth + 1))
            case "map":
                key_id, value_id = self._next_id(), self._next_id()
                key = self.type_of(raw.get("keyType"), f"{path}.key", depth + 1)
                return MapType(
                    key_id, key, value_id, False, self.type_of(raw.get("valueType"), f"{path}.value", depth + 1)
                )
            case other:
                raise no_type(path, f"Spark's {read.shown(other)}")

    def _field(self, raw: Any, path: str, depth: int) -> NestedField:
        raw = read.require_object(raw, f"{SPARK_SCHEMA}: a field")
        name = read.require_str(raw, "name", f"{SPARK_SCHEMA}: a field")
        of = f"{path}.{name}" if path else name
        field_id = self._next_id()
        metadata = read.require_object(raw.get("metadata") or {}, f"Column {of}: metadata")
        doc = read.optional_str(metadata, "comment", f"Column {of}") or None
        type_ = self.type_of(raw.get("type"), of, depth + 1)
        found = [ColumnKey(of, key, value if isinstance(value, str) else "") for key, value in metadata.items()]
        self._keys += found
        default = None
        for each in found:
            if each.name in _TYPE_TEXTS:
                self._note_lengths(of, each.value)
            if each.name == CURRENT_DEFAULT and self._defaults:
                default = default_of(each.value, type_, of)
        return NestedField(field_id, name, type_, doc=doc, write_default=default)

    def _note_lengths(self, path: str, text: str) -> None:
        self._keys += [ColumnKey(path, LENGTHS[found[1].lower()], text) for found in _LENGTH.finditer(text)]

    def _primitive(self, name: str, path: str) -> PrimitiveType:
        if name == "timestamp":
            return self._timestamp
        if decimal := _DECIMAL.fullmatch(name):
            return decimal_of(int(decimal[1]), int(decimal[2]), path)
        if _CHARS.fullmatch(name):
            self._note_lengths(path, name)
            return types.STRING
        if name not in _PRIMITIVES:
            raise no_type(path, f"Spark's {read.shown(name)}")
        return _PRIMITIVES[name]
