"""Filters as values."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import ALWAYS_FALSE, ALWAYS_TRUE, as_expression, col
from iceberg_hms.expressions.expression import And, Operator, Or, Predicate
from tests.format.missing_values import MISSING

LEVEL, ID = col("level"), col("id")


def test_a_column_makes_predicates() -> None:
    assert (LEVEL == "ERROR") == Predicate(Operator.EQ, "level", ("ERROR",))
    operators = [ID != 1, ID < 1, ID <= 1, ID > 1, ID >= 1]
    assert [each.operator.value for each in operators] == ["not-eq", "lt", "lt-eq", "gt", "gt-eq"]  # type: ignore[attr-defined]
    assert ID.is_in([1, 2]) == Predicate(Operator.IN, "id", (1, 2))
    assert ID.not_in([1]) == Predicate(Operator.NOT_IN, "id", (1,))
    assert LEVEL.starts_with("E") == Predicate(Operator.STARTS_WITH, "level", ("E",))
    assert (ID.is_null(), ID.is_not_null()) == (
        Predicate(Operator.IS_NULL, "id"),
        Predicate(Operator.NOT_NULL, "id"),
    )
    assert ID.is_nan() == Predicate(Operator.IS_NAN, "id")


def test_filters_combine() -> None:
    a, b = ID == 1, ID == 2
    assert (a & b, a | b) == (And(a, b), Or(a, b))
    assert (a & ALWAYS_TRUE, a & ALWAYS_FALSE, a | ALWAYS_TRUE, ALWAYS_FALSE | a) == (a, ALWAYS_FALSE, ALWAYS_TRUE, a)
    assert str((a | b) & LEVEL.is_null()) == "((id = 1 or id = 2) and level is null)"
    assert str(ID.is_in([1, 2])) == "id in (1, 2)"


def test_a_negation_is_sqls() -> None:
    assert ~(ID == 1) == (ID != 1)
    assert ~((ID < 1) & ID.is_null()) == ((ID >= 1) | ID.is_not_null())
    assert ~~(ID.is_in([1]) | ALWAYS_FALSE) == ID.is_in([1])
    assert ~ALWAYS_TRUE == ALWAYS_FALSE


@pytest.mark.parametrize(
    "given",
    [lambda: ID == None, lambda: ID.is_in([1, None]), lambda: ID == LEVEL, lambda: (LEVEL == "x") > ID],  # noqa: E711
)
def test_null_and_other_columns_are_no_values(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"is_null\(\)|compared with a value"):
        given()


@pytest.mark.parametrize("given", [float("nan"), Decimal("NaN")])
def test_nothing_equals_nan(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"use is_nan\(\)"):
        ID.is_in([given])


COMPARISONS: dict[str, Callable[[Any], Any]] = {
    **{each.__name__: partial(each, ID) for each in (eq, ne, lt, le, gt, ge)},
    "in": lambda value: ID.is_in([1, value]),
    "not in": lambda value: ID.not_in([1, value]),
    "starts with": ID.starts_with,
}


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_nothing_is_compared_with_a_missing_value(comparison: str) -> None:
    for missing in MISSING.values():
        with pytest.raises(InvalidInput, match=r"nothing equals (null|NaN)|starts with a text"):
            COMPARISONS[comparison](missing)


def test_values_of_other_libraries_become_python_s() -> None:
    expected = ID.is_in([1, 2])
    assert ID.is_in(np.array([1, 2], dtype=np.int8)) == ID.is_in(pd.Series([1, 2])) == expected
    assert ID.is_in(pa.array([1, 2])) == ID.is_in(pa.chunked_array([[1], [2]])) == expected
    assert str(pd.Timestamp("2021-04-01T00:00:00.000000500") != LEVEL) == (
        "level <> timestamp '2021-04-01 00:00:00.000000500'"
    )
    # NumPy and pandas compare first where their value is on the left.
    day = datetime.date(2021, 4, 1)
    assert (np.int64(1) < ID) == Predicate(Operator.GT, "id", (1,))
    assert (np.datetime64("2021-04-01") != LEVEL) == Predicate(Operator.NOT_EQ, "level", (day,))
    at = datetime.datetime(2021, 4, 1)  # noqa: DTZ001 - of a column without zone
    assert (pd.Timestamp("2021-04-01") <= LEVEL) == Predicate(Operator.GT_EQ, "level", (at,))


@pytest.mark.parametrize("given", ["ab", b"ab", {"a": 1}, 7, None, pd.NA])
def test_a_list_of_values_is_no_text_and_no_number(given: Any) -> None:
    with pytest.raises(InvalidInput, match="a column is in a list of values"):
        LEVEL.not_in(given)


@pytest.mark.parametrize("given", [7, None, b"a"])
def test_only_texts_start_with_a_text(given: Any) -> None:
    with pytest.raises(InvalidInput, match="a text starts with a text, found"):
        LEVEL.starts_with(given)


def test_and_and_or_of_python_are_refused_rather_than_dropping_a_side() -> None:
    with pytest.raises(InvalidInput, match="combine filters with &"):
        _ = (ID == 1) and (ID == 2)


@pytest.mark.parametrize("wrong", ["", 7, None])
def test_a_column_needs_a_name(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="a column has a name"):
        col(wrong)


def test_a_filter_is_given_as_text_or_as_an_expression() -> None:
    assert as_expression("id = 1") == as_expression(ID == 1) == (ID == 1)
    with pytest.raises(InvalidInput, match="not a filter: 7"):
        as_expression(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not a filter: 'id'"):
        (ID == 1) & "id"  # type: ignore[operator]
