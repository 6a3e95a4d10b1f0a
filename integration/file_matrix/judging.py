"""Whether a reader gives the values that a file's writer meant, and the rows that filters leave."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.file_matrix.record import NO_TYPE, READ
from tests.file_matrix.shapes import Case, Place

_MESSAGE_MAX = 160
#: What readers say of a table with a column of a type that they have not.
_NO_TYPE = re.compile(
    "Spark does not support time fields|Cannot convert unknown type|Cannot convert unsupported type to Spark"
)


@dataclass(frozen=True)
class Filter:
    """name: of a method of Java's Expressions. sign: in SQL. value: None: is null. rows: the ids that it leaves."""

    name: str
    sign: str
    value: Any
    rows: frozenset[int]


def filters_of(case: Case, place: Place) -> list[Filter]:
    """Those that keep a row and those that drop all. Readers filter by columns and fields of structs alone."""
    low, high = case.values
    if place not in ("top", "struct") or low is None or isinstance(low, list | dict):
        return []
    none: frozenset[int] = frozenset()
    found = [
        Filter("equal", "=", low, frozenset({0, 1} if low == high else {0})),
        Filter("greaterThanOrEqual", ">=", high, frozenset({0, 1} if low == high else {1})),
        Filter("isNull", "IS NULL", None, frozenset({2})),
    ]
    if not isinstance(low, uuid.UUID):
        # Readers differ about the order of UUIDs.
        found += [Filter("lessThan", "<", low, none), Filter("greaterThan", ">", high, none)]
    return found


def column_of(place: Place) -> str:
    return "s.c" if place == "struct" else "c"


def judged(
    case: Case, place: Place, read: Callable[[Filter | None], dict[int, Any]], filters: Sequence[Filter] | None = None
) -> str:
    """read: gives the values by id, under a filter or none, in the form of `Shape`; raises what the reader raises.
    filters: those that the reader has; all of `filters_of` by default."""
    expected = {0: case.values[0], 1: case.values[1], 2: case.shape.nothing}
    try:
        found = read(None)
    except Exception as error:  # noqa: BLE001 - the error is the outcome
        return outcome_of(error)
    if found.keys() != expected.keys():
        return f"rows {sorted(found)}"
    for number, value in expected.items():
        if not same(found[number], value):
            return f"reads {_short(found[number])} for {_short(value)}"
    for each in filters_of(case, place) if filters is None else filters:
        try:
            rows = set(read(each))
        except Exception as error:  # noqa: BLE001 - the error is the outcome
            return f"{each.sign}: {outcome_of(error)}"
        if rows != each.rows:
            return f"{each.sign} leaves {sorted(rows)}, not {sorted(each.rows)}"
    return READ


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 40 else text[:37] + "..."


def same(found: Any, meant: Any) -> bool:
    if isinstance(found, bool) != isinstance(meant, bool):
        return False
    if isinstance(meant, Decimal | int | float) and isinstance(found, Decimal | int | float):
        return found == meant
    return (type(found) is type(meant) and found == meant) or (found is None and meant is None)


def outcome_of(error: BaseException) -> str:
    """An error as an outcome. Of one of Java's the cause at the bottom counts, for types that Spark has not, too."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if cause is None:
        text = f"{type(error).__name__}: {error}"
    else:
        while cause.getCause() is not None:
            cause = cause.getCause()
        text = str(cause.toString())
    if _NO_TYPE.search(text):
        return NO_TYPE
    text = re.sub(r"/[\w./-]*/", "", text.strip().partition("\n")[0])
    return f"fails: {text[:_MESSAGE_MAX]}"
