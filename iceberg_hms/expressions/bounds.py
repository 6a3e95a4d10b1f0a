"""Predicates judged on the least and the greatest value of a set of values, without the values.

A set is described by bounds that no value exceeds, which may be wider than the values, and by whether it may have, or
consists of, nulls and NaNs. Bounds never cover nulls and NaNs (spec: data file fields, field_summary).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.binding import BoundPredicate, value_matches
from iceberg_hms.expressions.expression import Operator
from iceberg_hms.format.schema import uuid_order, values
from iceberg_hms.format.schema.types import Type

_O = Operator
_NUMERIC_TESTS = frozenset({_O.LT, _O.LT_EQ, _O.GT, _O.GT_EQ, _O.EQ, _O.IN, _O.STARTS_WITH})


#: The bounds of most columns, as `struct` reads them.
_FORMS: Final = {
    "int": "<i",
    "date": "<i",
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), "<q"),
}


class ValueRange(NamedTuple):
    """What is known of a set of values.

    lower, upper: None: unknown. may_be_null, may_be_nan: False only if it is known that none is. only_nulls, only_nans:
    True only if it is known that all are.
    """

    lower: Any = None
    upper: Any = None
    may_be_null: bool = True
    may_be_nan: bool = True
    only_nulls: bool = False
    only_nans: bool = False


#: Nothing is known.
UNKNOWN_RANGE = ValueRange()


def bound_value(of: Type, data: bytes | None) -> Any:
    """The value of a bound; None for one that is missing, that cannot be read, and for what has no order that all
    writers share: NaN, and UUIDs (`format.schema.uuid_order`)."""
    if data is None or values.kind_of(of) == uuid_order.KIND:
        return None
    try:
        found = values.from_bytes(of, data)
    except InvalidInput:
        return None
    return None if found != found else found


def bound_decoder(of: Type) -> Callable[[bytes], Any]:
    """`bound_value` of one type, quickly: a filter reads the bounds of all files of a table."""
    form = _FORMS.get(values.kind_of(of))
    if form is None:
        return lambda data: bound_value(of, data)
    unpack, size = struct.Struct(form).unpack, struct.calcsize(form)
    return lambda data: unpack(data)[0] if len(data) == size else bound_value(of, data)


def may_match(predicate: BoundPredicate, known: ValueRange) -> bool:
    """False only if no value of the set matches."""
    operator = predicate.operator
    if operator is _O.IS_NULL:
        return known.may_be_null
    if known.only_nulls:
        return False
    match operator:
        case _O.IS_NAN:
            return known.may_be_nan
        case _O.NOT_NAN:
            return not known.only_nans
    if operator in _NUMERIC_TESTS:
        return not known.only_nans and _may_reach(predicate, known.lower, known.upper)
    if operator is _O.NOT_STARTS_WITH:
        return not _all_start_with(predicate.value, known)
    if operator in (_O.NOT_EQ, _O.NOT_IN):
        return known.may_be_nan or not _only_value_in(predicate, known)
    return True


def must_match(predicate: BoundPredicate, known: ValueRange) -> bool:
    """True only if every value of the set matches."""
    operator = predicate.operator
    if operator is _O.IS_NULL:
        return known.only_nulls
    if known.may_be_null:
        return False
    match operator:
        case _O.NOT_NULL:
            return True
        case _O.IS_NAN:
            return known.only_nans
        case _O.NOT_NAN:
            return not known.may_be_nan
    if operator in (_O.NOT_EQ, _O.NOT_IN, _O.NOT_STARTS_WITH):
        # NaN differs from every value.
        opposite = replace(predicate, operator=operator.negated)
        return known.only_nans or not _may_reach(opposite, known.lower, known.upper)
    return not known.may_be_nan and _must_reach(predicate, known)


def _may_reach(predicate: BoundPredicate, lower: Any, upper: Any) -> bool:
    """Whether a value between the bounds may match; NaNs aside."""
    match predicate.operator:
        case _O.LT | _O.LT_EQ:
            return lower is None or value_matches(predicate, lower)
        case _O.GT | _O.GT_EQ:
            return upper is None or value_matches(predicate, upper)
        case _O.STARTS_WITH:
            prefix = predicate.value
            above = lower is not None and lower[: len(prefix)] > prefix
            return not above and not (upper is not None and upper[: len(prefix)] < prefix)
        case _:
            return any(
                (lower is None or lower <= value) and (upper is None or value <= upper) for value in predicate.values
            )


def _must_reach(predicate: BoundPredicate, known: ValueRange) -> bool:
    """Whether every value between the bounds matches."""
    lower, upper = known.lower, known.upper
    match predicate.operator:
        case _O.LT | _O.LT_EQ:
            return upper is not None and value_matches(predicate, upper)
        case _O.GT | _O.GT_EQ:
            return lower is not None and value_matches(predicate, lower)
        case _O.STARTS_WITH:
            return _all_start_with(predicate.value, known)
        case _:
            return _only_value_in(predicate, known)


def _only_value_in(predicate: BoundPredicate, known: ValueRange) -> bool:
    """Whether all values, but for nulls and NaN, are one of the predicate's (Java: InclusiveMetricsEvaluator)."""
    return known.lower is not None and known.lower == known.upper and known.lower in predicate.values


def _all_start_with(prefix: str, known: ValueRange) -> bool:
    """Whether each value starts with a prefix, nulls aside: what lies between two texts with a prefix has it too."""
    lower, upper = known.lower, known.upper
    if lower is None or upper is None:
        return False
    return bool(lower[: len(prefix)] == prefix == upper[: len(prefix)])
