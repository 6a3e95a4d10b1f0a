"""What a predicate on a column says about a partition of it (Java: ProjectionUtil, Transforms' project methods).

    inclusive   a row may match only in partitions that match the projection
    strict      every row of a partition that matches the projection matches

Java before 1.0 wrote wrong partition values for times before 1970: truncated towards zero, so one too high. As in Java,
projections of such times allow for both. Those of a predicate on a transform do so for who must not miss a row; a plan
follows Java (ProjectionUtil.projectTransformPredicate), since Spark leaves such a predicate to the plan, and takes all
rows of what it gets. as_stored: the value of a partition is that of its rows' transform.

Truncated numbers near the least one of their type have a partition near the greatest one
(`Truncate.first_in_order`). Java misses such rows; here what is less than a number may be in any partition.
"""

from __future__ import annotations

from collections.abc import Callable
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
_TIMES = (Year, Month, Day, Hour)
_KNOWN = (IdentityTransform, Bucket, Truncate, *_TIMES)
_NULLS = frozenset({_O.IS_NULL, _O.NOT_NULL})
#: The lowest and the highest value of the types that a projection steps over.
_INTS = (-(2**31), 2**31 - 1)
_LIMITS = {"int": _INTS, "date": _INTS}
_LONGS = (-(2**63), 2**63 - 1)
#: `Truncate.first_in_order` where no int is.
_NOWHERE = 2**31

#: The operator and the values of a projection.
_Projected = tuple[Operator, tuple[Any, ...] | frozenset[Any]]


def inclusive(predicate: BoundPredicate, field: PartitionField, *, as_stored: bool = False) -> BoundPredicate | None:
    """The projection on a partition field of the predicate's column; None if it says nothing. Only `is null` matches in
    the partition of null."""
    found = _project(predicate, field, _inclusive, as_stored=as_stored)
    if found is not None:
        return found
    not_null = replace(_on_column(predicate), operator=_O.NOT_NULL, values=())
    return _project(not_null, field, _inclusive, as_stored=as_stored)


def strict(predicate: BoundPredicate, field: PartitionField, *, as_stored: bool = False) -> BoundPredicate | None:
    """The projection on a partition field of the predicate's column; None if no partition proves a match."""
    return _project(predicate, field, _strict, as_stored=as_stored)


def _project(
    predicate: BoundPredicate,
    field: PartitionField,
    project: Callable[[BoundPredicate, Transform], _Projected | None],
    *,
    as_stored: bool,
) -> BoundPredicate | None:
    transform, of = field.transform, predicate.source or predicate.type
    if not isinstance(transform, _KNOWN) or field.more_source_ids or not transform.can_transform(of):
        return None
    target = replace(_on_column(predicate), field_id=field.field_id, type=transform.result_type(of), path=(field.name,))
    # Days of dates are the dates themselves, which no writer has ever truncated towards zero.
    may_be_late = isinstance(transform, _TIMES) and not (isinstance(transform, Day) and values.kind_of(of) == "date")
    if predicate.transform is not None:
        if predicate.transform != transform:
            return None
        if as_stored or not may_be_late:
            return target
        project = _inclusive_of_result if project is _inclusive else _strict_of_result
    elif isinstance(transform, IdentityTransform) or predicate.operator in _NULLS:
        return target
    projected = None if predicate.operator.is_unary else project(predicate, transform)
    if projected is None:
        return None
    operator, found = projected
    if may_be_late:
        found = _with_late(operator, found)
    return replace(target, operator=operator, values=found)


def _inclusive(predicate: BoundPredicate, transform: Transform) -> _Projected | None:
    operator, of = predicate.operator, predicate.type
    ordered = _first_in_order(transform, of)
    if operator in (_O.EQ, _O.IN):
        found = frozenset(transform.apply(value, of) for value in predicate.values)
        return None if ordered == _NOWHERE else (_O.IN, found)
    if isinstance(transform, Bucket):
        return None
    match operator:
        case _O.LT | _O.LT_EQ:
            last = _step(predicate.value, of, -1) if operator is _O.LT else predicate.value
            return None if last is None or ordered is not None else (_O.LT_EQ, (transform.apply(last, of),))
        case _O.GT | _O.GT_EQ:
            first = _step(predicate.value, of, 1) if operator is _O.GT else predicate.value
            return None if first is None or _wraps(first, ordered) else (_O.GT_EQ, (transform.apply(first, of),))
        case _O.STARTS_WITH:
            return operator, (transform.apply(predicate.value, of),)
        case _O.NOT_STARTS_WITH if isinstance(transform, Truncate) and len(predicate.value) <= transform.width:
            return operator, (predicate.value,)
    return None


def _strict(predicate: BoundPredicate, transform: Transform) -> _Projected | None:
    operator, of = predicate.operator, predicate.type
    ordered = _first_in_order(transform, of)
    if operator in (_O.NOT_EQ, _O.NOT_IN):
        found = frozenset(transform.apply(value, of) for value in predicate.values)
        return None if ordered == _NOWHERE else (_O.NOT_IN, found)
    if isinstance(transform, Bucket):
        return None
    match operator:
        case _O.LT | _O.LT_EQ:
            beyond = _step(predicate.value, of, 1) if operator is _O.LT_EQ else predicate.value
            return None if beyond is None or _wraps(beyond, ordered) else (_O.LT, (transform.apply(beyond, of),))
        case _O.GT | _O.GT_EQ:
            before = _step(predicate.value, of, -1) if operator is _O.GT_EQ else predicate.value
            return None if before is None or ordered is not None else (_O.GT, (transform.apply(before, of),))
        case _O.STARTS_WITH if isinstance(transform, Truncate) and len(predicate.value) <= transform.width:
            return operator, (predicate.value,)
        case _O.NOT_STARTS_WITH:
            return operator, (transform.apply(predicate.value, of),)
    return None


def _first_in_order(transform: Transform, of: Type) -> int | None:
    return transform.first_in_order(of) if isinstance(transform, Truncate) else None


def _wraps(value: Any, ordered: int | None) -> bool:
    return ordered is not None and value < ordered


def _on_column(predicate: BoundPredicate) -> BoundPredicate:
    """The predicate without its transform, for values that are transformed already, or for null, which stays null."""
    if predicate.transform is None:
        return predicate
    return replace(predicate, transform=None, source=None, type=predicate.source or predicate.type)


def _inclusive_of_result(predicate: BoundPredicate, _: Transform) -> _Projected | None:
    """As `_inclusive`, of a predicate on what the transform of times made. A partition up to 0 may have rows of the one
    before."""
    match predicate.operator:
        case _O.EQ | _O.IN:
            return _O.IN, frozenset(predicate.values)
        case _O.LT | _O.LT_EQ:
            return _O.LT_EQ, (predicate.value - (predicate.operator is _O.LT),)
        case _O.GT | _O.GT_EQ:
            return _O.GT_EQ, (predicate.value + (predicate.operator is _O.GT),)
        case _O.NOT_EQ | _O.NOT_IN:
            certain = frozenset(value for value in predicate.values if value > 0)
            return (_O.NOT_IN, certain) if certain else None
    return None


def _strict_of_result(predicate: BoundPredicate, _: Transform) -> _Projected | None:
    match predicate.operator:
        case _O.NOT_EQ | _O.NOT_IN:
            return _O.NOT_IN, frozenset(predicate.values)
        case _O.LT | _O.LT_EQ:
            return _O.LT, (predicate.value + (predicate.operator is _O.LT_EQ),)
        case _O.GT | _O.GT_EQ:
            return _O.GT, (predicate.value - (predicate.operator is _O.GT_EQ),)
        case _O.EQ | _O.IN:
            certain = frozenset(value for value in predicate.values if value > 0)
            return (_O.IN, certain) if certain else None
    return None


def _with_late(operator: Operator, found: tuple[Any, ...] | frozenset[Any]) -> tuple[Any, ...] | frozenset[Any]:
    """The values of a projection of times, allowing for rows in the partition above their own."""
    if operator in (_O.IN, _O.NOT_IN):
        return frozenset((*found, *(value + 1 for value in found if value < 0)))
    (value,) = found
    # The row before partition 0 may be in it.
    is_late = (operator is _O.LT_EQ and value < 0) or (operator is _O.GT and value <= 0)
    return (value + 1,) if is_late else found


def _step(value: Any, of: Type, by: int) -> Any:
    """The next value of a type, upwards or downwards; None if there is none. Texts and bytes have no next one: there
    the value itself is the bound, which says a little less."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Decimal) and isinstance(of, PrimitiveType):
        digits = values.unscaled(value, of.scale) + by
        return None if abs(digits) >= 10**of.precision else values.from_unscaled(digits, of.scale)
    low, high = _LIMITS.get(values.kind_of(of), _LONGS)
    stepped = value + by
    return stepped if low <= stepped <= high else None
