"""Defaults of columns as Spark stores them, SQL in a column's metadata, and as Iceberg has them.

    default_of("DATE '2020-01-02'", DATE, "day")    # "2020-01-02", Iceberg's JSON form

Spark stores what a later column has in older files as a folded literal (EXISTS_DEFAULT), and what an INSERT without
the column writes as the user's text (CURRENT_DEFAULT), which may be any expression. Literals of the latter become
Iceberg's write-default (spec: "Default values"). The former is refused: with an initial-default, Iceberg 1.11 for Java
leaves rows out of filtered scans of Parquet files that lack the column, and reads no such ORC file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import shown
from iceberg_hms.format.schema.json_values import default_json
from iceberg_hms.format.schema.types import PrimitiveType, Type

#: What older files have in a column that they lack.
EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"
#: What a writer writes that names no value.
CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"
DEFAULTS: Final = frozenset({EXISTS_DEFAULT, CURRENT_DEFAULT})
#: The first version of Iceberg's format that has defaults.
DEFAULTS_VERSION: Final = 3

_CAST: Final = re.compile(
    r"CAST\s*\((.*)\s+AS\s+([A-Za-z_]+)\s*(?:\(\s*\d+\s*(?:,\s*\d+\s*)?\))?\s*\)", re.ASCII | re.I | re.S
)
_INTEGERS: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
#: Casts that change no literal of a column's type: Spark writes them around those that would else have another type.
_SAME: Final = {
    "int": _INTEGERS,
    "long": _INTEGERS,
    "float": frozenset({"FLOAT"}),
    "double": frozenset({"DOUBLE"}),
    "string": frozenset({"STRING"}),
}
_NULL: Final = re.compile(r"NULL", re.I)
_INTEGER: Final = re.compile(r"([+-]?\d{1,20})[YSL]?", re.ASCII | re.I)
_NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:E[+-]?\d{1,3})?)(?:D|F|BD)?", re.ASCII | re.I)
# Of all that a backslash may begin, only what Spark itself writes: a backslash, and a quote.
_STRING: Final = re.compile(r"'((?:[^'\\]|\\\\|\\'|'')*)'", re.S)
_ESCAPED: Final = re.compile(r"\\(.)|''", re.S)
_BOOLEAN: Final = re.compile(r"true|false", re.I)
_DATE: Final = re.compile(r"DATE\s*'(\d{4}-\d\d-\d\d)'", re.ASCII | re.I)
_TIMESTAMP: Final = re.compile(r"TIMESTAMP_NTZ\s*'(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)'", re.ASCII | re.I)
_BINARY: Final = re.compile(r"X'((?:[0-9a-f]{2})*)'", re.ASCII | re.I)


def is_null(text: str) -> bool:
    """Whether the default is null, which is none."""
    literal = text.strip()
    while (cast := _CAST.fullmatch(literal)) is not None:
        literal = cast[1].strip()
    return _NULL.fullmatch(literal) is not None


def default_of(text: str, of: Type, column: str) -> Any:
    """The default in Iceberg's JSON form (spec: Appendix D); None for null. text: Spark's SQL. of: the column's type.
    column: its path, for messages. Raises InvalidInput for what is no literal of the type."""
    if is_null(text):
        return None
    try:
        if isinstance(of, PrimitiveType) and of.kind in _READERS:
            value = _READERS[of.kind](_without_cast(text, _SAME.get(of.kind, frozenset())))
            if value is not None:
                return default_json(of, value)
    except (InvalidInput, ValueError) as error:
        raise _refused(text, of, column) from error
    raise _refused(text, of, column)


def _refused(text: str, of: Type, column: str) -> InvalidInput:
    return InvalidInput(
        f"Column {column}: {CURRENT_DEFAULT} {shown(text)} is no literal of type {of} for an Iceberg default",
        next_step="give it a literal: ALTER TABLE ... ALTER COLUMN ... SET DEFAULT; or copy the table's rows into a "
        "new table; or let the key pass if no writer needs it: ignore_keys",
    )


def _without_cast(text: str, same: frozenset[str]) -> str:
    text = text.strip()
    cast = _CAST.fullmatch(text)
    return text if cast is None or cast[2].upper() not in same else cast[1].strip()


def _text(pattern: re.Pattern[str], literal: str) -> str | None:
    found = pattern.fullmatch(literal)
    return None if found is None else found[1] if found.re.groups else found[0]


def _string(literal: str) -> str | None:
    found = _text(_STRING, literal)
    return None if found is None else _ESCAPED.sub(lambda each: each[1] or "'", found)


def _integer(literal: str) -> int | None:
    found = _text(_INTEGER, literal)
    return None if found is None else int(found)


def _float(literal: str) -> float | None:
    # A cast of text is how Spark writes a float.
    found = _text(_NUMBER, _string(literal) or literal)
    return None if found is None else float(found)


def _boolean(literal: str) -> bool | None:
    found = _text(_BOOLEAN, literal)
    return None if found is None else found.lower() == "true"


def _date(literal: str) -> date | None:
    found = _text(_DATE, literal)
    return None if found is None else date.fromisoformat(found)


def _timestamp(literal: str) -> datetime | None:
    found = _text(_TIMESTAMP, literal)
    return None if found is None else datetime.fromisoformat(found)


def _binary(literal: str) -> bytes | None:
    found = _text(_BINARY, literal)
    return None if found is None else bytes.fromhex(found)


#: Not of timestamptz: Spark writes such a literal in the zone of a session that it does not name. Nor of decimal:
#: Iceberg 1.11 for Spark reads no Parquet file of Spark's with such a column ("Cannot cast default value to int").
_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "date": _date,
    "timestamp": _timestamp,
    "string": _string,
    "binary": _binary,
}
