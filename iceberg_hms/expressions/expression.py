"""Filters as values: immutable trees of predicates on columns.

One rule holds everywhere, and it is SQL's: a predicate on null is unknown, so it does not match, and neither does its
negation; only `is_null` matches null. NaN is unequal to every number, and neither less nor greater than one. The
protocol's JSON has another rule for null, which `json_form` translates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Final, NoReturn, TypeVar

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.spelling import column_text, prefix_text, term_text, value_text
from iceberg_hms.format.schema.plain_values import plain_value
from iceberg_hms.format.schema.transforms import Transform

#: How deep filters may be nested; operands of the same `and` or `or` count as side by side.
DEPTH_MAX: Final = 200

Node = TypeVar("Node")


class Operator(Enum):
    """What a predicate says of a column. The values are the names in the REST protocol."""

    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    IN = "in"
    NOT_IN = "not-in"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"

    @property
    def negated(self) -> Operator:
        """What matches the other rows that are not null."""
        return _NEGATED[self]

    @property
    def is_unary(self) -> bool:
        """Whether it has no value to compare with."""
        return self in _UNARY

    @property
    def is_set(self) -> bool:
        """Whether it has any number of values."""
        return self in (Operator.IN, Operator.NOT_IN)


_UNARY = frozenset({Operator.IS_NULL, Operator.NOT_NULL, Operator.IS_NAN, Operator.NOT_NAN})
_PAIRS = (
    (Operator.IS_NULL, Operator.NOT_NULL),
    (Operator.IS_NAN, Operator.NOT_NAN),
    (Operator.LT, Operator.GT_EQ),
    (Operator.LT_EQ, Operator.GT),
    (Operator.EQ, Operator.NOT_EQ),
    (Operator.IN, Operator.NOT_IN),
    (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH),
)
_NEGATED = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}


class Expression:
    """A filter. `a & b`, `a | b` and `~a` combine filters. `str(a)` is a text that `parse` reads as the same filter."""

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        return both(self, other)

    def __or__(self, other: Expression) -> Expression:
        return either(self, other)

    def __invert__(self) -> Expression:
        return negation(self)

    def __bool__(self) -> NoReturn:
        raise InvalidInput("a filter is neither true nor false", next_step="combine filters with &, | and ~")


@dataclass(frozen=True, slots=True)
class Always(Expression):
    """Matches all rows, or none."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


ALWAYS_TRUE = Always(True)
ALWAYS_FALSE = Always(False)


@dataclass(frozen=True, slots=True)
class And(Expression):
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({' and '.join(map(str, operands(self)))})"


@dataclass(frozen=True, slots=True)
class Or(Expression):
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({' or '.join(map(str, operands(self)))})"


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    """column: its dotted name. values: what it is compared with: none for `is_null` and its like, one, or for `in` and
    `not in` any number. transform: of the column, to compare with its result; None: the column's value itself."""

    operator: Operator
    column: str
    values: tuple[Any, ...] = ()
    transform: Transform | None = None

    def __str__(self) -> str:
        operator, column = self.operator, column_text(self.column)
        if self.transform is not None:
            column = term_text(str(self.transform), column)
        if operator.is_unary:
            return f"{column} {_SHOWN[operator]}"
        if operator.is_set:
            if not self.values:
                # SQL has no empty list. Nothing is in it, and all that is not null is not in it.
                return "false" if operator is Operator.IN else f"{column} is not null"
            return f"{column} {_SHOWN[operator]} ({', '.join(map(value_text, self.values))})"
        spelled = prefix_text if operator in (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH) else value_text
        return f"{column} {_SHOWN[operator]} {', '.join(map(spelled, self.values))}"


_SHOWN = {
    Operator.IS_NULL: "is null",
    Operator.NOT_NULL: "is not null",
    Operator.IS_NAN: "is nan",
    Operator.NOT_NAN: "is not nan",
    Operator.LT: "<",
    Operator.LT_EQ: "<=",
    Operator.GT: ">",
    Operator.GT_EQ: ">=",
    Operator.EQ: "=",
    Operator.NOT_EQ: "<>",
    Operator.IN: "in",
    Operator.NOT_IN: "not in",
    Operator.STARTS_WITH: "like",
    Operator.NOT_STARTS_WITH: "not like",
}


@dataclass(frozen=True, slots=True, eq=False)
class ColumnReference:
    """A column by its dotted name; comparing it with a value (`plain_value`) makes a filter. Raises InvalidInput for
    what is no value, and for what is missing: null and NaN equal nothing."""

    #: NumPy leaves a comparison with one of its values on the left to this class.
    __array_ufunc__: ClassVar[None] = None

    name: str

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Predicate(Operator.EQ, self.name, (_value(other),))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Predicate(Operator.NOT_EQ, self.name, (_value(other),))

    def __lt__(self, other: object) -> Expression:
        return Predicate(Operator.LT, self.name, (_value(other),))

    def __le__(self, other: object) -> Expression:
        return Predicate(Operator.LT_EQ, self.name, (_value(other),))

    def __gt__(self, other: object) -> Expression:
        return Predicate(Operator.GT, self.name, (_value(other),))

    def __ge__(self, other: object) -> Expression:
        return Predicate(Operator.GT_EQ, self.name, (_value(other),))

    def is_null(self) -> Expression:
        return Predicate(Operator.IS_NULL, self.name)

    def is_not_null(self) -> Expression:
        return Predicate(Operator.NOT_NULL, self.name)

    def is_nan(self) -> Expression:
        return Predicate(Operator.IS_NAN, self.name)

    def is_in(self, values: Iterable[Any]) -> Expression:
        return Predicate(Operator.IN, self.name, _values(values))

    def not_in(self, values: Iterable[Any]) -> Expression:
        return Predicate(Operator.NOT_IN, self.name, _values(values))

    def starts_with(self, prefix: str) -> Expression:
        found = plain_value(prefix)
        if not isinstance(found, str):
            raise InvalidInput(f"a text starts with a text, found {prefix!r}")
        return Predicate(Operator.STARTS_WITH, self.name, (found,))


def col(name: str) -> ColumnReference:
    """A column, to build a filter with: `col("level") == "ERROR"`. name: dotted for a field of a struct column.
    Raises InvalidInput for what is no name."""
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a column has a name, found {name!r}")
    return ColumnReference(name)


def both(left: Expression, right: Expression) -> Expression:
    """The rows that match two filters."""
    left, right = checked(left), checked(right)
    if isinstance(left, Always):
        return right if left.value else left
    if isinstance(right, Always):
        return left if right.value else right
    return And(left, right)


def either(left: Expression, right: Expression) -> Expression:
    """The rows that match one of two filters, or both."""
    left, right = checked(left), checked(right)
    if isinstance(left, Always):
        return left if left.value else right
    if isinstance(right, Always):
        return right if right.value else left
    return Or(left, right)


def operands(expression: And | Or) -> list[Expression]:
    """What a chain of `and`, or of `or`, combines, in order, however long it is."""
    kind = type(expression)
    found: list[Expression] = []
    waiting: list[Expression] = [expression]
    while waiting:
        each = waiting.pop()
        if isinstance(each, kind):
            waiting += [each.right, each.left]
        else:
            found.append(each)
    return found


def balanced(parts: Sequence[Node], combine: Callable[[Node, Node], Node]) -> Node:
    """Parts combined in a tree that is as deep as the logarithm of their number."""
    while len(parts) > 1:
        pairs = [combine(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]


def predicates(expression: Expression) -> Iterator[Predicate]:
    """The predicates of a filter. One that `bind` took is not nested too deep."""
    match expression:
        case And() | Or():
            for each in operands(expression):
                yield from predicates(each)
        case Predicate():
            yield expression


def column_names(expression: Expression) -> Iterator[str]:
    """The columns that a filter names, as often as it does."""
    return (each.column for each in predicates(expression))


def negation(expression: Expression) -> Expression:
    """SQL's `not`: a row for which the filter is unknown, since a column is null, does not match either."""
    match expression:
        case Always(value):
            return Always(not value)
        case And():
            return balanced([negation(each) for each in operands(expression)], either)
        case Or():
            return balanced([negation(each) for each in operands(expression)], both)
        case Predicate():
            return replace(expression, operator=expression.operator.negated)
    raise InvalidInput(f"not a filter: {expression!r}")


def checked(given: object) -> Expression:
    """What a caller gave as a filter. Raises InvalidInput for anything else."""
    if not isinstance(given, Expression):
        raise InvalidInput(f"not a filter: {given!r}", next_step='give a text, or build one: col("level") == "ERROR"')
    return given


def _value(given: object) -> Any:
    if isinstance(given, ColumnReference | Expression):
        raise InvalidInput(f"a column is compared with a value, found {given!r}")
    value = plain_value(given)
    if value is None:
        raise InvalidInput("nothing equals null", next_step="use is_null() or is_not_null()")
    if value != value:
        raise InvalidInput("nothing equals NaN", next_step="use is_nan()")
    return value


def _values(given: object) -> tuple[Any, ...]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"a column is in a list of values, found {type(given).__name__}")
    return tuple(map(_value, given))
