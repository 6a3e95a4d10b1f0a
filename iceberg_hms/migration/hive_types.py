"""Hive's types as the metastore writes them, and the Iceberg types that hold their values.

    parse_hive_type("array<struct<day:date,price:decimal(7,2)>>", "sales", ids)

The mapping is that of Iceberg's Spark integration (Java: SparkTypeToType): a narrow integer becomes an int, and char
and varchar become strings. Hive's union, interval and void have no Iceberg type.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from iceberg_hms.coordinator.hive_ports import HiveColumn
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import shown
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema, assign_fresh_ids
from iceberg_hms.format.schema.types import MAX_NESTING, ListType, MapType, NestedField, PrimitiveType, StructType, Type

#: How long the text of a column's type may be. A metastore holds 32,672 characters, or with a database's large texts
#: as many as a table of 10,000 nested fields needs.
MAX_HIVE_TYPE_TEXT: Final = 1_000_000

#: The parts of a refusal's advice that are the same for all.
NO_TYPE_ADVICE: Final = "leave the table as it is, or copy its other columns into a new one: CREATE TABLE ... AS SELECT"

_PRIMITIVES: Final = {
    "boolean": types.BOOLEAN,
    "tinyint": types.INT,
    "smallint": types.INT,
    "int": types.INT,
    "integer": types.INT,
    "bigint": types.LONG,
    "float": types.FLOAT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "char": types.STRING,
    "varchar": types.STRING,
    "binary": types.BINARY,
    "date": types.DATE,
    "timestamp with local time zone": types.TIMESTAMPTZ,
}
#: How a type with a length is called among the keys of columns (`known_keys.py`).
LENGTHS: Final = {"char": "char(n)", "varchar": "varchar(n)"}
#: Lengths, which Iceberg has not, and the time zone of a session of Hive 3.
_WITH_PARAMETERS: Final = frozenset({"char", "varchar", "timestamp with local time zone"})
#: What a decimal without parameters is: rows from before Hive 0.13 have it.
_BARE_DECIMAL: Final = (10, 0)
# Hive's words have blanks between them: timestamp with local time zone.
_WORDS: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*(?: +[A-Za-z][A-Za-z0-9_]*)*)\s*")
_PARAMETERS: Final = re.compile(r"\(([^()]*)\)\s*")
_NUMBERS: Final = re.compile(r"\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?", re.ASCII)
# Neither Hive nor Spark lets a nested name have a colon, unless it is quoted.
_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`:,;\s](?:[^:,;]*[^:,;\s])?))\s*:")


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """What Spark's schema or the type says of a column beyond the type that it has in Iceberg. path: of the column.
    name, value: as `known_keys.py` has them in the place COLUMN."""

    path: str
    name: str
    value: str


def hive_schema(
    columns: Iterable[HiveColumn],
    *,
    timestamp: PrimitiveType = types.TIMESTAMPTZ,
    keys: list[ColumnKey] | None = None,
) -> Schema:
    """A schema of Hive's columns with fresh field ids; each field may be null. timestamp: what Hive's `timestamp`
    becomes. keys: gets the lengths of columns. Raises InvalidInput that names the column, for a type that Iceberg lacks
    or that is none."""
    next_id = itertools.count(1).__next__
    fields = [
        NestedField(
            next_id(),
            column.name,
            parse_hive_type(column.type, column.name, next_id, timestamp=timestamp, keys=keys),
            doc=_doc(column.comment),
        )
        for column in columns
    ]
    return assign_fresh_ids(Schema.of(fields))


def parse_hive_type(
    text: str,
    path: str,
    next_id: Callable[[], int],
    *,
    timestamp: PrimitiveType = types.TIMESTAMPTZ,
    keys: list[ColumnKey] | None = None,
) -> Type:
    """The Iceberg type of Hive's text, with provisional field ids. path: of the column, for messages; timestamp, keys:
    as `hive_schema` has them. Raises InvalidInput, also for a text beyond MAX_HIVE_TYPE_TEXT or MAX_NESTING."""
    if len(text) > MAX_HIVE_TYPE_TEXT:
        raise InvalidInput(f"Column {path}: its type has more than {MAX_HIVE_TYPE_TEXT} characters")
    return _HiveTypeParser(text, next_id, timestamp, [] if keys is None else keys).parse(path)


def no_type(path: str, foreign: str) -> InvalidInput:
    """The refusal of a type that Iceberg lacks. foreign: whose type, and its name."""
    return InvalidInput(f"Column {path}: Iceberg has no type for {foreign}", next_step=NO_TYPE_ADVICE)


def too_deep(path: str) -> InvalidInput:
    return InvalidInput(f"Column {path}: its type is nested deeper than {MAX_NESTING} levels")


def decimal_of(precision: int, scale: int, path: str) -> PrimitiveType:
    """Raises InvalidInput that names the column, for a decimal that is none."""
    try:
        return types.decimal_type(precision, scale)
    except InvalidInput as error:
        raise InvalidInput(f"Column {path}: {error.message}") from error


def _doc(comment: str | None) -> str | None:
    # What Hive writes into the comments of columns that it had from a file of Avro's.
    return None if comment in ("", "from deserializer") else comment


class _HiveTypeParser:
    """Parses the text of one type from left to right."""

    def __init__(self, text: str, next_id: Callable[[], int], timestamp: PrimitiveType, keys: list[ColumnKey]) -> None:
        self._text = text
        self._at = 0
        self._next_id = next_id
        self._timestamp = timestamp
        self._keys = keys

    def parse(self, path: str) -> Type:
        # A column's type is one level below the schema.
        found = self._type(path, 1)
        if self._at != len(self._text):
            raise self._malformed(path, "the end")
        return found

    def _type(self, path: str, depth: int) -> Type:
        if depth > MAX_NESTING:
            raise too_deep(path)
        words = self._match(_WORDS)
        if words is None:
            raise self._malformed(path, "a type")
        name = words[1].lower()
        match name:
            case "array":
                return self._list(path, depth + 1)
            case "map":
                return self._map(path, depth + 1)
            case "struct":
                return self._struct(path, depth + 1)
        parameters = self._match(_PARAMETERS)
        if name == "decimal":
            return self._decimal(None if parameters is None else parameters[1], path)
        found = self._timestamp if name == "timestamp" else _PRIMITIVES.get(name)
        if found is None:
            raise no_type(path, f"Hive's {shown(name)}")
        if parameters is not None and name not in _WITH_PARAMETERS:
            raise self._malformed(path, f"nothing in brackets after {name}")
        if name in LENGTHS:
            self._keys.append(ColumnKey(path, LENGTHS[name], self._text))
        return found

    def _list(self, path: str, depth: int) -> ListType:
        self._expect("<", path)
        element_id = self._next_id()
        element = self._type(f"{path}.element", depth)
        self._expect(">", path)
        return ListType(element_id, False, element)

    def _map(self, path: str, depth: int) -> MapType:
        self._expect("<", path)
        key_id, value_id = self._next_id(), self._next_id()
        key = self._type(f"{path}.key", depth)
        self._expect(",", path)
        value = self._type(f"{path}.value", depth)
        self._expect(">", path)
        return MapType(key_id, key, value_id, False, value)

    def _struct(self, path: str, depth: int) -> StructType:
        self._expect("<", path)
        # A name may begin with the bracket that ends a struct without fields.
        name = self._name()
        fields: list[NestedField] = []
        while name is not None:
            fields.append(NestedField(self._next_id(), name, self._type(f"{path}.{name}", depth)))
            if not self._take(","):
                break
            name = self._name()
        if name is None and (fields or not self._text.startswith(">", self._at)):
            raise self._malformed(path, "the name of a field")
        self._expect(">", path)
        return StructType(tuple(fields))

    def _name(self) -> str | None:
        """The name and the colon that come next; None if none do."""
        found = self._match(_NAME)
        if found is None:
            return None
        return found[2] if found[1] is None else found[1].replace("``", "`")

    def _decimal(self, parameters: str | None, path: str) -> PrimitiveType:
        if parameters is None:
            return decimal_of(*_BARE_DECIMAL, path)
        numbers = _NUMBERS.fullmatch(parameters)
        if numbers is None:
            raise self._malformed(path, "precision and scale")
        return decimal_of(int(numbers[1]), int(numbers[2] or 0), path)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _take(self, mark: str) -> bool:
        """Whether this character came next."""
        if not self._text.startswith(mark, self._at):
            return False
        self._at += 1
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return True

    def _expect(self, mark: str, path: str) -> None:
        if not self._take(mark):
            raise self._malformed(path, mark)

    def _malformed(self, path: str, expected: str) -> InvalidInput:
        return InvalidInput(
            f"Column {path}: {shown(self._text)} is no type of Hive's: {expected} is expected at character "
            f"{self._at + 1}",
            next_step="correct the column's type in the metastore: ALTER TABLE ... CHANGE COLUMN",
        )
