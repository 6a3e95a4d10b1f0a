"""PyIceberg's filters as ours: every operator and type, and what is left to PyIceberg."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg import types
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.schema import Schema

from iceberg_hms.pyiceberg.filters import CannotSay, as_ours

SCHEMA = Schema(
    types.NestedField(1, "n", types.LongType()),
    types.NestedField(2, "s", types.StringType()),
    types.NestedField(3, "d", types.DoubleType()),
    types.NestedField(4, "f", types.FloatType()),
    types.NestedField(5, "day", types.DateType()),
    types.NestedField(6, "at", types.TimestampType()),
    types.NestedField(7, "tz", types.TimestamptzType()),
    types.NestedField(8, "time", types.TimeType()),
    types.NestedField(9, "u", types.UUIDType()),
    types.NestedField(10, "b", types.BinaryType()),
    types.NestedField(11, "x", types.FixedType(2)),
    types.NestedField(12, "m", types.DecimalType(9, 2)),
    types.NestedField(13, "flag", types.BooleanType()),
    types.NestedField(14, "i", types.IntegerType()),
    types.NestedField(15, "place", types.StructType(types.NestedField(16, "lat", types.DoubleType()))),
)
UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


def text(row_filter: BooleanExpression, *, case_sensitive: bool = True) -> str:
    return str(as_ours(row_filter, SCHEMA, case_sensitive=case_sensitive))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (AlwaysTrue(), "true"),
        (AlwaysFalse(), "false"),
        (EqualTo("n", 1), "n = 1"),
        (GreaterThan("n", 1), "n > 1"),
        (GreaterThanOrEqual("n", 1), "n >= 1"),
        (LessThan("n", 1), "n < 1"),
        (LessThanOrEqual("n", 1), "n <= 1"),
        (In("n", {2, 1}), "n in (1, 2)"),
        (IsNull("n"), "n is null"),
        (NotNull("n"), "n is not null"),
        (IsNaN("d"), "d is nan"),
        (StartsWith("s", "a%"), r"s like 'a\%%'"),
        (And(EqualTo("n", 1), EqualTo("s", "x")), "(n = 1 and s = 'x')"),
        (Or(EqualTo("n", 1), EqualTo("s", "x")), "(n = 1 or s = 'x')"),
        # What matches null in PyIceberg's planner.
        (NotEqualTo("n", 1), "(n is null or n <> 1)"),
        (Not(EqualTo("n", 1)), "(n is null or n <> 1)"),
        (NotIn("n", {1, 2}), "(n is null or n not in (1, 2))"),
        (NotNaN("d"), "(d is null or d is not nan)"),
        (NotStartsWith("s", "a"), "(s is null or s not like 'a%')"),
        # Values.
        (EqualTo("d", 0.1), "d = 0.1e0"),
        (EqualTo("f", 0.5), "f = 0.5e0"),
        (EqualTo("day", "2026-01-01"), "day = date '2026-01-01'"),
        (EqualTo("at", "2026-01-01T00:00:00.000001"), "at = timestamp '2026-01-01 00:00:00.000001'"),
        (EqualTo("tz", "2026-01-01T00:00:00+01:00"), "tz = timestamp '2025-12-31 23:00:00+00:00'"),
        (EqualTo("u", UUID), f"u = uuid '{UUID}'"),
        (EqualTo("b", b"\x01"), "b = X'01'"),
        (EqualTo("x", b"\x01\x02"), "x = X'0102'"),
        (EqualTo("m", "1.25"), "m = 1.25"),
        (EqualTo("flag", True), "flag = true"),
        (EqualTo("place.lat", 1.5), "place.lat = 1.5e0"),
        # No int is beyond this one.
        (EqualTo("i", 2**40), "false"),
        (LessThan("i", 2**40), "true"),
    ],
)
def test_a_filter_says_the_same(theirs: BooleanExpression, ours: str) -> None:
    assert text(theirs) == ours


def test_names_of_any_case() -> None:
    assert text(EqualTo("PLACE.LAT", 1.5), case_sensitive=False) == "place.lat = 1.5e0"


@pytest.mark.parametrize(
    "theirs", [EqualTo("f", 0.1), EqualTo("nobody", 1), EqualTo("N", 1), EqualTo("n", "x"), EqualTo("day", 10**8)]
)
def test_what_is_left_to_pyiceberg(theirs: BooleanExpression) -> None:
    with pytest.raises(ValueError):
        text(theirs)


def test_a_type_or_a_predicate_of_a_later_release_is_left_to_pyiceberg() -> None:
    class Later(BooleanExpression):
        pass

    schema = Schema(types.NestedField(1, "t", types.TimestampNanoType()))
    later: Any = EqualTo("t", "2026-01-01T00:00:00")
    with pytest.raises((CannotSay, TypeError)):
        as_ours(later, schema, case_sensitive=True)
