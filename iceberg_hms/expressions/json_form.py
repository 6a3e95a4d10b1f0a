"""Filters in the REST protocol's JSON (schema `Expression`; Java: ExpressionParser), as clients report and send them.

The protocol's `not-eq`, `not-in`, `not-starts-with` and `not-nan` match null, and its `not` matches what its child does
not. SQL's, which this package follows, never match null. Both directions say so in full.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    Always,
    And,
    Expression,
    Operator,
    Or,
    Predicate,
    both,
    either,
)
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.json_fields import shown

#: How deep `and`, `or` and `not` may be nested.
DEPTH_MAX: Final = 200
_MATCH_NULL: Final = frozenset({Operator.NOT_EQ, Operator.NOT_IN, Operator.NOT_STARTS_WITH, Operator.NOT_NAN})
_OPERATORS: Final = {each.value: each for each in Operator}


def from_json(raw: Any) -> Expression:
    """The filter of its JSON form. Raises InvalidInput for what is none, and for terms that are no columns."""
    return _parse(raw, negated=False, depth=0)


def to_json(expression: Expression) -> Any:
    """The JSON form of a filter. Raises InvalidInput for a value that JSON has no form for."""
    match expression:
        case Always(value):
            return value
        case And(left, right):
            return {"type": "and", "left": to_json(left), "right": to_json(right)}
        case Or(left, right):
            return {"type": "or", "left": to_json(left), "right": to_json(right)}
        case Predicate(operator, column, values):
            form: dict[str, Any] = {"type": operator.value, "term": column}
            if operator.is_set:
                form["values"] = [_value_to_json(each) for each in values]
            elif not operator.is_unary:
                form["value"] = _value_to_json(values[0])
            if operator in _MATCH_NULL:
                return {
                    "type": "and",
                    "left": {"type": Operator.NOT_NULL.value, "term": column},
                    "right": form,
                }
            return form
    raise InvalidInput(f"not a filter: {expression!r}")


def _parse(raw: Any, *, negated: bool, depth: int) -> Expression:
    if depth > DEPTH_MAX:
        raise InvalidInput(f"the filter is nested more than {DEPTH_MAX} deep")
    if isinstance(raw, bool):
        return ALWAYS_TRUE if raw is not negated else ALWAYS_FALSE
    form = read.require_object(raw, "filter")
    kind = read.require_str(form, "type", "filter")
    if kind in ("true", "false"):
        return _parse(kind == "true", negated=negated, depth=depth)
    if kind == "literal" and isinstance(form.get("value"), bool):
        return _parse(form["value"], negated=negated, depth=depth)
    if kind == "not":
        return _parse(form.get("child"), negated=not negated, depth=depth + 1)
    if kind in ("and", "or"):
        left = _parse(form.get("left"), negated=negated, depth=depth + 1)
        right = _parse(form.get("right"), negated=negated, depth=depth + 1)
        return both(left, right) if (kind == "and") is not negated else either(left, right)
    operator = _OPERATORS.get(kind.replace("_", "-"))
    if operator is None:
        raise InvalidInput(f"unknown filter type {shown(kind)}")
    return _predicate(operator.negated if negated else operator, form)


def _predicate(operator: Operator, form: Mapping[str, Any]) -> Expression:
    column = _column(form.get("term"))
    values: tuple[Any, ...] = ()
    if operator.is_set:
        values = tuple(map(_value, read.require_list(form, "values", "filter")))
    elif not operator.is_unary:
        values = (_value(form.get("value")),)
    found = Predicate(operator, column, values)
    return either(Predicate(Operator.IS_NULL, column), found) if operator in _MATCH_NULL else found


def _column(term: Any) -> str:
    if isinstance(term, dict) and term.get("type") == "reference":
        term = term.get("term")
    if isinstance(term, dict) and term.get("type") == "transform":
        raise InvalidInput("a filter on a transformed column is not supported", next_step="filter the column itself")
    if not isinstance(term, str) or not term:
        raise InvalidInput(f"a filter's term is a column name, found {shown(str(term))}")
    return term


def _value(raw: Any) -> Any:
    if isinstance(raw, dict) and raw.get("type") == "literal":
        raw = raw.get("value")
    if not isinstance(raw, bool | int | float | str):
        raise InvalidInput(f"a filter's value is a text, a number, true or false, found {shown(str(raw))}")
    return raw


def _value_to_json(value: Any) -> Any:
    match value:
        case bool() | int() | float() | str():
            return value
        case Decimal() | uuid.UUID():
            return str(value)
        case bytes() | bytearray():
            return value.hex().upper()
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
    raise InvalidInput(f"{value!r} has no form in JSON")
