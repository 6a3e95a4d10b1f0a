"""What a predicate on a column says about a partition of it (Java: ProjectionUtil, Transforms' project methods).

    inclusive   a row may match only in partitions that match the projection
    strict      every row of a partition that matches the projection matches

Java before 1.0 wrote wrong partition values for times before 1970: truncated towards zero, so one too high. As in Java,
projections of such times allow for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from iceberg_hms.expressions.binding import BoundPredicate
from iceberg_hms.expressions.expression import Operator
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.transforms import (
    Bucket,
    Day,
    Hour,
    IdentityTransform,
    Month,
    Transform,
    Truncate,
    Year,
)
from iceberg_hms.format.schema.types import PrimitiveType, Type

_O = Operator
_KNOWN = (IdentityTransform, Bucket, Truncate, Year, Month, Day, Hour)
_TIMES = (Year, Month, Day, Hour)
_NULLS = frozenset({_O.IS_NULL, _O.NOT_NULL})


def inclusive(predicate: BoundPredicate, field: PartitionField) -> BoundPredicate | None:
    """The projection on a partition field of the predicate's column; None if it says nothing. Only `is null` matches in
    the partition of null."""
    found = _project(predicate, field, _INCLUSIVE)
    not_null = replace(predicate, operator=_O.NOT_NULL, values=())
    return _project(not_null, field, _INCLUSIVE) if found is None else found


def strict(predicate: BoundPredicate, field: PartitionField) -> BoundPredicate | None:
    """The projection on a partition field of the predicate's column; None if no partition proves a match."""
    return _project(predicate, field, _STRICT)


#: Projects a predicate by a transform; None if that says nothing.
_Projector = Callable[[BoundPredicate, Transform], BoundPredicate | None]


def _project(
    predicate: BoundPredicate, field: PartitionField, projectors: Iterable[tuple[tuple[type, ...], _Projector]]
) -> BoundPredicate | None:
    transform, of = field.transform, predicate.type
    if not isinstance(transform, _KNOWN) or field.more_source_ids or not transform.can_transform(of):
        return None
    target = replace(predicate, field_id=field.field_id, type=transform.result_type(of), path=(field.name,))
    if isinstance(transform, IdentityTransform) or predicate.operator in _NULLS:
        return target
    if predicate.operator.is_unary:
        return None
    for kinds, project in projectors:
        if isinstance(transform, kinds):
            found = project(predicate, transform)
            return None if found is None else replace(target, operator=found.operator, values=found.values)
    return None


def _of(operator: Operator, *found: Any) -> BoundPredicate:
    """A projection; only its operator and values count."""
    return BoundPredicate(operator, 0, PrimitiveType("int"), (), found)


def _of_set(operator: Operator, found: Iterable[Any]) -> BoundPredicate:
    return BoundPredicate(operator, 0, PrimitiveType("int"), (), frozenset(found))


def _bucket_inclusive(predicate: BoundPredicate, transform: Transform) -> BoundPredicate | None:
    if predicate.operator not in (_O.EQ, _O.IN):
        return None
    return _of_set(_O.IN, (transform.apply(value, predicate.type) for value in predicate.values))


def _bucket_strict(predicate: BoundPredicate, transform: Transform) -> BoundPredicate | None:
    if predicate.operator not in (_O.NOT_EQ, _O.NOT_IN):
        return None
    return _of_set(_O.NOT_IN, (transform.apply(value, predicate.type) for value in predicate.values))


def _ordered_inclusive(predicate: BoundPredicate, transform: Transform) -> BoundPredicate | None:
    """Of a transform that keeps the order of numbers."""
    operator, of = predicate.operator, predicate.type
    match operator:
        case _O.LT | _O.LT_EQ:
            last = _step(predicate.value, of, -1) if operator is _O.LT else predicate.value
            return None if last is None else _of(_O.LT_EQ, transform.apply(last, of))
        case _O.GT | _O.GT_EQ:
            first = _step(predicate.value, of, 1) if operator is _O.GT else predicate.value
            return None if first is None else _of(_O.GT_EQ, transform.apply(first, of))
        case _O.EQ | _O.IN:
            return _of_set(_O.IN, (transform.apply(value, of) for value in predicate.values))
    return None


def _ordered_strict(predicate: BoundPredicate, transform: Transform) -> BoundPredicate | None:
    """Of a transform that keeps the order of numbers."""
    operator, of = predicate.operator, predicate.type
    match operator:
        case _O.LT | _O.LT_EQ:
            beyond = _step(predicate.value, of, 1) if operator is _O.LT_EQ else predicate.value
            return None if beyond is None else _of(_O.LT, transform.apply(beyond, of))
        case _O.GT | _O.GT_EQ:
            before = _step(predicate.value, of, -1) if operator is _O.GT_EQ else predicate.value
            return None if before is None else _of(_O.GT, transform.apply(before, of))
        case _O.NOT_EQ | _O.NOT_IN:
            return _of_set(_O.NOT_IN, (transform.apply(value, of) for value in predicate.values))
    return None


def _time_inclusive(predicate: BoundPredicate, transform: Transform) -> BoundPredicate | None:
    found = _ordered_inclusive(predicate, transform)
    if found is None or _is_exact(predicate.type, transform):
        return found
    if found.operator is _O.LT_EQ:
        return _of(_O.LT_EQ, found.value + 1) if found.value < 0 else found
    if found.operator is _O.IN:
        return _of_set(_O.IN, (*found.values, *(value + 1 for value in found.values if value < 0)))
    return found


def _time_strict(predicate: BoundPredicate, transform: Transform) -> BoundPredicate | None:
    found = _ordered_strict(predicate, transform)
    if found is None or _is_exact(predicate.type, transform):
        return found
    if found.operator is _O.GT:
        # Rows below the bound may be in the partition above it.
        return _of(_O.GT, found.value + 1) if found.value <= 0 else found
    if found.operator is _O.NOT_IN:
        return _of_set(_O.NOT_IN, (*found.values, *(value + 1 for value in found.values if value < 0)))
    return found


def _is_exact(of: Type, transform: Transform) -> bool:
    """Whether no writer has ever truncated these values towards zero: days of dates are the dates themselves."""
    return isinstance(transform, Day) and values.kind_of(of) == "date"


def _truncate_inclusive(predicate: BoundPredicate, transform: Transform) -> BoundPredicate | None:
    if not isinstance(transform, Truncate) or values.kind_of(predicate.type) not in ("string", "binary"):
        return _ordered_inclusive(predicate, transform)
    operator, of = predicate.operator, predicate.type
    match operator:
        case _O.LT | _O.LT_EQ:
            return _of(_O.LT_EQ, transform.apply(predicate.value, of))
        case _O.GT | _O.GT_EQ:
            return _of(_O.GT_EQ, transform.apply(predicate.value, of))
        case _O.EQ | _O.IN:
            return _of_set(_O.IN, (transform.apply(value, of) for value in predicate.values))
        case _O.STARTS_WITH:
            return _of(_O.STARTS_WITH, transform.apply(predicate.value, of))
        case _O.NOT_STARTS_WITH if len(predicate.value) <= transform.width:
            return _of(_O.NOT_STARTS_WITH, predicate.value)
    return None


def _truncate_strict(predicate: BoundPredicate, transform: Transform) -> BoundPredicate | None:
    if not isinstance(transform, Truncate) or values.kind_of(predicate.type) not in ("string", "binary"):
        return _ordered_strict(predicate, transform)
    operator, of = predicate.operator, predicate.type
    match operator:
        case _O.LT | _O.LT_EQ:
            return _of(_O.LT, transform.apply(predicate.value, of))
        case _O.GT | _O.GT_EQ:
            return _of(_O.GT, transform.apply(predicate.value, of))
        case _O.NOT_EQ | _O.NOT_IN:
            return _of_set(_O.NOT_IN, (transform.apply(value, of) for value in predicate.values))
        case _O.STARTS_WITH if len(predicate.value) <= transform.width:
            return _of(_O.STARTS_WITH, predicate.value)
        case _O.NOT_STARTS_WITH:
            return _of(_O.NOT_STARTS_WITH, transform.apply(predicate.value, of))
    return None


_INCLUSIVE: tuple[tuple[tuple[type, ...], _Projector], ...] = (
    ((Bucket,), _bucket_inclusive),
    ((Truncate,), _truncate_inclusive),
    (_TIMES, _time_inclusive),
)
_STRICT: tuple[tuple[tuple[type, ...], _Projector], ...] = (
    ((Bucket,), _bucket_strict),
    ((Truncate,), _truncate_strict),
    (_TIMES, _time_strict),
)
#: The lowest and the highest value of the types that a projection steps over.
_LIMITS = {
    "int": (-(2**31), 2**31 - 1),
    "date": (-(2**31), 2**31 - 1),
}
_LONG_LIMITS = (-(2**63), 2**63 - 1)


def _step(value: Any, of: Type, by: int) -> Any:
    """The next value of a type, upwards or downwards; None if there is none."""
    if isinstance(value, Decimal) and isinstance(of, PrimitiveType):
        digits = values.unscaled(value, of.scale) + by
        return None if abs(digits) >= 10**of.precision else values.from_unscaled(digits, of.scale)
    low, high = _LIMITS.get(values.kind_of(of), _LONG_LIMITS)
    stepped = value + by
    return stepped if low <= stepped <= high else None
