"""Bound filters judged on rows, one by one: what the package proves of files must agree with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_hms.expressions.binding import Bound, BoundAnd, BoundOr, BoundPredicate, value_matches


def matches(bound: Bound, row: Mapping[str, Any]) -> bool:
    """Whether a row matches. row: column name -> value as columns store it; a struct is such a mapping itself."""
    match bound:
        case bool():
            return bound
        case BoundAnd(left, right):
            return matches(left, row) and matches(right, row)
        case BoundOr(left, right):
            return matches(left, row) or matches(right, row)
        case BoundPredicate():
            value = _value(row, bound.path)
            if bound.transform is not None and bound.source is not None:
                value = bound.transform.apply(value, bound.source)
            return value_matches(bound, value)


def _value(row: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = row
    for name in path:
        if found is None:
            return None
        found = found.get(name)
    return found
