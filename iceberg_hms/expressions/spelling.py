"""How the text of a filter spells columns and values, so that `text.parse` reads the same filter again."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from iceberg_hms.format.schema.plain_values import NanoTimestamp, time_of_text, timestamp_of_text

#: Words that are no column unless they are quoted.
KEYWORDS: Final = frozenset({"and", "or", "not", "in", "is", "null", "nan", "like", "between", "true", "false"})
#: Floats for which the syntax has no word, as numbers that no float reaches.
_INFINITE: Final = {math.inf: "1e999", -math.inf: "-1e999"}
_PLAIN: Final = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
#: What `like` reads otherwise, unless a backslash is before it.
_SPECIAL: Final = frozenset("%_\\")
_DATE_LENGTH: Final = len("2021-04-01")


def column_text(name: str) -> str:
    """A column's dotted name, in double quotes where it is no plain word."""
    if _PLAIN.fullmatch(name) and name.lower() not in KEYWORDS | TYPED.keys():
        return name
    return '"' + name.replace('"', '""') + '"'


def term_text(transform: str, column: str) -> str:
    """A transformed column, as Spark's SQL calls Iceberg's transforms: `bucket(4, id)` for `bucket[4]`. column: as
    `column_text` has it."""
    name, _, parameter = transform.removesuffix("]").partition("[")
    return f"{name}({parameter}, {column})" if parameter else f"{name}({column})"


def value_text(value: Any) -> str:
    """A value as a literal; what can be none, and fits no column, as Python shows it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            # Without an exponent it would be a decimal.
            shown = _INFINITE.get(value, float.__repr__(value))
            return shown if "e" in shown or math.isnan(value) else f"{shown}e0"
        case Decimal() if value.is_finite():
            shown = format(value, "f")
            return shown if "." in shown else f"{shown}."
        case str():
            return _quoted(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime() | NanoTimestamp():
            return f"timestamp '{value.isoformat(' ')}'"
        case datetime.date():
            return f"date '{value.isoformat()}'"
        case datetime.time():
            return f"time '{value.isoformat()}'"
        case uuid.UUID():
            return f"uuid '{value}'"
    return repr(value)


def prefix_text(prefix: Any) -> str:
    """The pattern of `like` for texts with a beginning."""
    if not isinstance(prefix, str):
        return value_text(prefix)
    return _quoted("".join(f"\\{each}" if each in _SPECIAL else each for each in prefix) + "%")


def read_pattern(pattern: str) -> tuple[str, bool] | None:
    """What a pattern of `like` looks for, and whether that is a beginning; None for patterns of another kind."""
    found: list[str] = []
    characters: Iterator[tuple[int, str]] = iter(enumerate(pattern))
    for at, each in characters:
        if each == "%" and at == len(pattern) - 1:
            return "".join(found), True
        if each == "\\":
            _, each = next(characters, (at, ""))
            if each not in _SPECIAL:
                return None
        elif each in _SPECIAL:
            return None
        found.append(each)
    return "".join(found), False


def _timestamp(text: str) -> datetime.datetime | datetime.date | NanoTimestamp:
    return datetime.date.fromisoformat(text) if len(text) == _DATE_LENGTH else timestamp_of_text(text)


#: How a text is read by the word before it; all raise ValueError.
TYPED: Final[dict[str, Callable[[str], Any]]] = {
    "date": datetime.date.fromisoformat,
    "time": time_of_text,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "uuid": uuid.UUID,
}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
