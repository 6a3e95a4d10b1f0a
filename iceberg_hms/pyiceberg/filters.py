"""PyIceberg's filters as ours, so that our planner leaves out no file in which PyIceberg finds a row.

PyIceberg binds a filter to the schema first, which gives each value the type of its column. Its `!=`, `not in`,
`not starts with` and `is not nan` match null where it plans; ours never do, so that these say it in full.
"""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyiceberg import expressions as theirs
from pyiceberg import types
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.schema import Schema

from iceberg_hms.expressions.expression import ALWAYS_FALSE, ALWAYS_TRUE, Expression, Operator, Predicate, both, either

_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - columns without zone count from this
_EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FLOAT: Final = struct.Struct("<f")

_OPERATORS: Final[Mapping[type[theirs.BooleanExpression], Operator]] = {
    theirs.BoundIsNull: Operator.IS_NULL,
    theirs.BoundNotNull: Operator.NOT_NULL,
    theirs.BoundIsNaN: Operator.IS_NAN,
    theirs.BoundNotNaN: Operator.NOT_NAN,
    theirs.BoundIn: Operator.IN,
    theirs.BoundNotIn: Operator.NOT_IN,
    theirs.BoundEqualTo: Operator.EQ,
    theirs.BoundNotEqualTo: Operator.NOT_EQ,
    theirs.BoundGreaterThan: Operator.GT,
    theirs.BoundGreaterThanOrEqual: Operator.GT_EQ,
    theirs.BoundLessThan: Operator.LT,
    theirs.BoundLessThanOrEqual: Operator.LT_EQ,
    theirs.BoundStartsWith: Operator.STARTS_WITH,
    theirs.BoundNotStartsWith: Operator.NOT_STARTS_WITH,
}
_MATCH_NULL: Final = (Operator.NOT_EQ, Operator.NOT_IN, Operator.NOT_STARTS_WITH, Operator.NOT_NAN)


class CannotSay(ValueError):
    """A filter of PyIceberg's that ours have no words for."""


def as_ours(row_filter: theirs.BooleanExpression, schema: Schema, *, case_sensitive: bool) -> Expression:
    """A filter of PyIceberg's for the columns of a schema. Raises CannotSay, and PyIceberg's errors for what does not
    fit the schema, most of them ValueErrors."""
    return _converted(bind(schema, rewrite_not(row_filter), case_sensitive), schema)


def _converted(bound: theirs.BooleanExpression, schema: Schema) -> Expression:
    if isinstance(bound, theirs.AlwaysTrue | theirs.AlwaysFalse):
        return ALWAYS_TRUE if isinstance(bound, theirs.AlwaysTrue) else ALWAYS_FALSE
    if isinstance(bound, theirs.And | theirs.Or):
        combine = both if isinstance(bound, theirs.And) else either
        return combine(_converted(bound.left, schema), _converted(bound.right, schema))
    operator = _OPERATORS.get(type(bound))
    if operator is None or not isinstance(bound, theirs.BoundPredicate):
        raise CannotSay(f"a filter has {type(bound).__name__}")
    term = bound.term
    if not isinstance(term, theirs.BoundReference):
        raise CannotSay(f"a filter has {type(term).__name__}")
    name = schema.find_column_name(term.ref().field.field_id)
    if name is None:
        raise CannotSay(f"the schema has no name for {term}")
    predicate = Predicate(operator, name, tuple(_values(bound, term.ref().field.field_type)))
    return either(Predicate(Operator.IS_NULL, name), predicate) if operator in _MATCH_NULL else predicate


def _values(bound: theirs.BoundPredicate, of: types.IcebergType) -> list[Any]:
    if isinstance(bound, theirs.BoundLiteralPredicate):
        return [_value(bound.literal.value, of)]
    if isinstance(bound, theirs.BoundSetPredicate):
        return [_value(each.value, of) for each in sorted(bound.literals, key=str)]
    return []


def _value(value: Any, of: types.IcebergType) -> Any:
    convert = _CONVERSIONS.get(type(of))
    if convert is None:
        raise CannotSay(f"a filter compares a column of type {of}")
    try:
        return convert(value)
    except OverflowError as error:
        raise CannotSay(f"{value} of type {of} is beyond Python's calendar") from error


def _float(value: float) -> float:
    """PyIceberg compares floats with the double, and we with the nearest float."""
    if _FLOAT.unpack(_FLOAT.pack(value))[0] != value:
        raise CannotSay(f"{value} is no float")
    return value


def _same(value: Any) -> Any:
    return value


_CONVERSIONS: Final[Mapping[type[types.IcebergType], Callable[[Any], Any]]] = {
    types.BooleanType: _same,
    types.IntegerType: _same,
    types.LongType: _same,
    types.FloatType: _float,
    types.DoubleType: _same,
    types.DecimalType: _same,
    types.StringType: _same,
    types.BinaryType: _same,
    types.FixedType: _same,
    types.UUIDType: lambda data: data if isinstance(data, uuid.UUID) else uuid.UUID(bytes=data),
    types.DateType: lambda days: _EPOCH.date() + datetime.timedelta(days=days),
    types.TimeType: lambda micros: (_EPOCH + datetime.timedelta(microseconds=micros)).time(),
    types.TimestampType: lambda micros: _EPOCH + datetime.timedelta(microseconds=micros),
    types.TimestamptzType: lambda micros: _EPOCH_UTC + datetime.timedelta(microseconds=micros),
}
