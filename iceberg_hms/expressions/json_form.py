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
    DEPTH_MAX,
    Always,
    And,
    Expression,
    Operator,
    Or,
    Predicate,
    balanced,
    both,
    either,
    operands,
)
from iceberg_hms.expressions.literals import ProtocolNumber, ProtocolText
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.json_fields import shown
from iceberg_hms.format.schema.plain_values import NanoTimestamp
from iceberg_hms.format.schema.transforms import Transform, parse_transform

_MATCH_NULL: Final = frozenset({Operator.NOT_EQ, Operator.NOT_IN, Operator.NOT_STARTS_WITH, Operator.NOT_NAN})
_OPERATORS: Final = {each.value: each for each in Operator}


def from_json(raw: Any) -> Expression:
    """The filter of its JSON form. Raises InvalidInput for what is none, and for terms that are neither columns nor
    transforms of one."""
    return _parse(raw, negated=False, depth=0)


def to_json(expression: Expression) -> Any:
    """The JSON form of a filter. Raises InvalidInput for a value that JSON has no form for."""
    match expression:
        case Always(value):
            return value
        case And() | Or():
            kind = "and" if isinstance(expression, And) else "or"
            parts = [to_json(each) for each in operands(expression)]
            return balanced(parts, lambda left, right: {"type": kind, "left": left, "right": right})
        case Predicate(operator, column, values, transform):
            term: Any = column
            if transform is not None:
                term = {"type": "transform", "transform": str(transform), "term": column}
            form: dict[str, Any] = {"type": operator.value, "term": term}
            if operator.is_set:
                form["values"] = [_value_to_json(each) for each in values]
            elif not operator.is_unary:
                form["value"] = _value_to_json(values[0])
            if operator in _MATCH_NULL:
                return {
                    "type": "and",
                    "left": {"type": Operator.NOT_NULL.value, "term": term},
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
        parts = [_parse(each, negated=negated, depth=depth + 1) for each in _chained(form, kind)]
        return balanced(parts, both if (kind == "and") is not negated else either)
    operator = _OPERATORS.get(kind.replace("_", "-"))
    if operator is None:
        raise InvalidInput(f"unknown filter type {shown(kind)}")
    return _predicate(operator.negated if negated else operator, form)


def _chained(form: Mapping[str, Any], kind: str) -> list[Any]:
    """The operands of a chain of `and`, or of `or`, which clients nest as deep as it is long."""
    found: list[Any] = []
    waiting: list[Any] = [form]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict) and each.get("type") == kind:
            waiting += [each.get("right"), each.get("left")]
        else:
            found.append(each)
    return found


def _predicate(operator: Operator, form: Mapping[str, Any]) -> Expression:
    # The protocol prefers child, left and right; Java's clients write term and value.
    column, transform = _term(form.get("term", form.get("child", form.get("left"))))
    values: tuple[Any, ...] = ()
    if operator.is_set:
        listed = form.get("values")
        if isinstance(listed, dict) and listed.get("type") == "literals":
            form = listed
        values = tuple(map(_value, read.require_list(form, "values", "filter")))
    elif not operator.is_unary:
        values = (_value(form.get("value", form.get("right"))),)
    found = Predicate(operator, column, values, transform)
    if operator in _MATCH_NULL:
        return either(Predicate(Operator.IS_NULL, column, (), transform), found)
    return found


def _term(term: Any) -> tuple[str, Transform | None]:
    if isinstance(term, dict) and term.get("type") == "transform":
        transform = parse_transform(read.require_str(term, "transform", "filter's term"))
        return _column(term.get("term")), transform
    return _column(term), None


def _column(term: Any) -> str:
    if isinstance(term, dict) and term.get("type") == "reference":
        term = term.get("name", term.get("term"))
    if not isinstance(term, str) or not term:
        raise InvalidInput(f"a filter's term is a column name, found {shown(str(term))}")
    return term


def _value(raw: Any) -> Any:
    if isinstance(raw, dict) and raw.get("type") == "literal":
        raw = raw.get("value")
    if not isinstance(raw, bool | int | float | str):
        raise InvalidInput(f"a filter's value is a text, a number, true or false, found {shown(str(raw))}")
    if isinstance(raw, str):
        return ProtocolText(raw)
    return ProtocolNumber(raw) if isinstance(raw, int) and not isinstance(raw, bool) else raw


def _value_to_json(value: Any) -> Any:
    match value:
        case bool() | int() | float() | str():
            return value
        case Decimal() | uuid.UUID():
            return str(value)
        case bytes():
            return value.hex().upper()
        case datetime.datetime() | datetime.date() | datetime.time() | NanoTimestamp():
            return value.isoformat()
    raise InvalidInput(f"{value!r} has no form in JSON")
