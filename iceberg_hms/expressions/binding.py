"""Filters on a table's columns: names become field ids, and values become values of the columns' types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import (
    DEPTH_MAX,
    Always,
    And,
    Expression,
    Operator,
    Or,
    Predicate,
    balanced,
    operands,
)
from iceberg_hms.expressions.literals import Gap, ProtocolNumber, to_type
from iceberg_hms.format.json_fields import shown
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import IdentityTransform, Transform, UnknownTransform, Void
from iceberg_hms.format.schema.types import FLOATING, ListType, MapType, NestedField, Type

#: How many columns an error names.
_NAMED_MAX = 20
_PREFIXED = frozenset({"string"})


@dataclass(frozen=True, slots=True)
class BoundPredicate:
    """A predicate on a field of a schema.

    field_id: of the column. type: of what is compared: the column's, or that of the transform's results. path: the
    names of the column and the structs around it, from the outside. values: as the type stores them; a set for `in` and
    `not in`, else none or one. transform: of the column's values, whose type is `source`.
    """

    operator: Operator
    field_id: int
    type: Type
    path: tuple[str, ...]
    values: tuple[Any, ...] | frozenset[Any] = ()
    transform: Transform | None = None
    source: Type | None = None

    @property
    def value(self) -> Any:
        """The only value."""
        (value,) = self.values
        return value


@dataclass(frozen=True, slots=True)
class BoundAnd:
    left: Bound
    right: Bound


@dataclass(frozen=True, slots=True)
class BoundOr:
    left: Bound
    right: Bound


Bound = bool | BoundPredicate | BoundAnd | BoundOr


def bind(expression: Expression, schema: Schema, *, case_sensitive: bool = True) -> Bound:
    """A filter on the columns of a schema; True or False where it matches all rows or none.

    Raises InvalidInput for a column that the schema lacks, or that is within a list or a map, for a value that is not
    one of the column's type, for a transform that is unknown or not for the column's type, and for a filter that is
    nested more than DEPTH_MAX deep.

    case_sensitive: whether columns are named as they are written; else a name as written goes before others, and one
    that several columns have is refused."""
    find = schema.find if case_sensitive else schema.find_ignoring_case
    return _bind(expression, lambda name: _field(schema, find, name))


@dataclass(frozen=True, slots=True)
class _Field:
    field: NestedField
    path: tuple[str, ...]
    is_required: bool


def _bind(expression: Expression, resolve: Callable[[str], _Field], depth: int = 0) -> Bound:
    if depth > DEPTH_MAX:
        raise InvalidInput(f"the filter is nested more than {DEPTH_MAX} deep")
    match expression:
        case Always(value):
            return value
        case And() | Or():
            parts = [_bind(each, resolve, depth + 1) for each in operands(expression)]
            return balanced(parts, _both if isinstance(expression, And) else _either)
        case Predicate():
            return _predicate(expression, resolve(expression.column))
    raise InvalidInput(f"not a filter: {expression!r}")


def _both(left: Bound, right: Bound) -> Bound:
    if isinstance(left, bool):
        return right if left else False
    if isinstance(right, bool):
        return left if right else False
    return BoundAnd(left, right)


def _either(left: Bound, right: Bound) -> Bound:
    if isinstance(left, bool):
        return True if left else right
    if isinstance(right, bool):
        return True if right else left
    return BoundOr(left, right)


def _predicate(predicate: Predicate, column: _Field) -> Bound:
    operator, of, transform = predicate.operator, column.field.type, _transform(predicate, column)

    def on_nulls(operator: Operator) -> BoundPredicate:
        return BoundPredicate(operator, column.field.id, column.field.type, column.path)

    # A transform's result is null for null alone.
    not_null: Bound = True if column.is_required else on_nulls(Operator.NOT_NULL)
    if operator is Operator.IS_NULL:
        return False if column.is_required else on_nulls(operator)
    if operator is Operator.NOT_NULL:
        return not_null
    source = None
    if transform is not None:
        of, source = transform.result_type(of), of

    def bound(operator: Operator, found: tuple[Any, ...] | frozenset[Any] = ()) -> BoundPredicate:
        return BoundPredicate(operator, column.field.id, of, column.path, found, transform, source)

    if operator in (Operator.IS_NAN, Operator.NOT_NAN):
        if values.kind_of(of) not in FLOATING:
            raise InvalidInput(f"column {predicate.column} has type {of}, which has no NaN")
        return bound(operator)
    if operator in (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH) and values.kind_of(of) not in _PREFIXED:
        raise InvalidInput(f"column {predicate.column} has type {of}, whose values start with nothing")
    literals = [to_type(value, of, predicate.column) for value in _counted(predicate.values, of, transform)]
    if operator.is_set:
        found = frozenset(each for each in literals if not isinstance(each, Gap))
        if not found:
            return False if operator is Operator.IN else not_null
        if len(found) == 1:
            return bound(Operator.EQ if operator is Operator.IN else Operator.NOT_EQ, tuple(found))
        return bound(operator, found)
    (value,) = literals
    if not isinstance(value, Gap):
        return bound(operator, (value,))
    if operator in (Operator.EQ, Operator.NOT_EQ):
        return not_null if operator is Operator.NOT_EQ else False
    is_less = operator in (Operator.LT, Operator.LT_EQ)
    nearest, beyond = (value.below, value.above) if is_less else (value.above, value.below)
    if nearest is None:
        return False
    return not_null if beyond is None else bound(Operator.LT_EQ if is_less else Operator.GT_EQ, (nearest,))


def _transform(predicate: Predicate, column: _Field) -> Transform | None:
    """What is applied to the column's values before they are compared; None: nothing."""
    transform, of = predicate.transform, column.field.type
    if transform is None or isinstance(transform, IdentityTransform):
        return None
    if isinstance(transform, Void | UnknownTransform) or not transform.can_transform(of):
        named = shown(str(transform))
        raise InvalidInput(f"column {predicate.column} of type {of} cannot be filtered by its transform {named}")
    return transform


def _counted(given: tuple[Any, ...], of: Type, transform: Transform | None) -> Iterable[Any]:
    """Days are numbers, too, as the other times that transforms make are."""
    if transform is None or values.kind_of(of) != "date":
        return given
    return [ProtocolNumber(each) if isinstance(each, int) and not isinstance(each, bool) else each for each in given]


def _field(schema: Schema, find: Callable[[str], NestedField | None], name: str) -> _Field:
    field = find(name)
    if field is None:
        known = [each.name for each in schema.fields]
        more = f" and {len(known) - _NAMED_MAX} more" if len(known) > _NAMED_MAX else ""
        raise InvalidInput(f"there is no column {name}; the table has {', '.join(known[:_NAMED_MAX])}{more}")
    path, is_required = [field.name], field.required
    for parent in schema.ancestors_of(field.id):
        if isinstance(parent.type, ListType | MapType):
            raise InvalidInput(f"column {name} is within a list or a map, so it has many values in a row")
        path.append(parent.name)
        is_required = is_required and parent.required
    return _Field(field, tuple(reversed(path)), is_required)


def value_matches(predicate: BoundPredicate, value: Any) -> bool:
    """Whether a value of the predicate's column, transformed if it has a transform, matches; None is null."""
    operator = predicate.operator
    if value is None:
        return operator is Operator.IS_NULL
    if operator is Operator.IS_NULL:
        return False
    if operator is Operator.NOT_NULL:
        return True
    is_nan = bool(value != value)
    match operator:
        case Operator.IS_NAN:
            return is_nan
        case Operator.NOT_NAN:
            return not is_nan
        case Operator.IN:
            return value in predicate.values
        case Operator.NOT_IN:
            return value not in predicate.values
    return bool(_COMPARE[operator](value, predicate.value))


_COMPARE: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.LT: lambda a, b: a < b,
    Operator.LT_EQ: lambda a, b: a <= b,
    Operator.GT: lambda a, b: a > b,
    Operator.GT_EQ: lambda a, b: a >= b,
    Operator.EQ: lambda a, b: a == b,
    Operator.NOT_EQ: lambda a, b: a != b,
    Operator.STARTS_WITH: lambda a, b: a[: len(b)] == b,
    Operator.NOT_STARTS_WITH: lambda a, b: a[: len(b)] != b,
}
