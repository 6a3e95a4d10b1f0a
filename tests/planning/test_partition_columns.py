"""Columns of partition values, judged: each value as `value_matches` judges it."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.expressions.binding import BoundPredicate, value_matches
from iceberg_hms.expressions.expression import Operator
from iceberg_hms.format.schema.types import parse_type
from iceberg_hms.planning.partition_columns import partition_test, partition_values
from tests.planning.batches import arrow_type

_O = Operator
IDS = [uuid.UUID(int=each) for each in (1, 2**127, 2**128 - 1)]
COLUMNS: dict[str, list[Any]] = {
    "int": [-3, 0, 5, 2**31 - 1],
    "long": [-3, 0, 5, 2**63 - 1],
    "double": [-1.5, -0.0, 0.0, math.nan, math.inf],
    "float": [-1.5, -0.0, 0.0, math.nan],
    "string": ["", "a", "ab", "b", "\U0001f600", "\uffff"],
    "binary": [b"", b"a", b"\xff"],
    "fixed[1]": [b"a", b"\xff"],
    "boolean": [True, False],
    "decimal(6,2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")],
    "uuid": IDS,
    "date": [-1, 0, 1],
    "timestamptz": [-1, 0, 1],
}


def judged(predicate: BoundPredicate, column: pa.Array) -> list[bool]:
    found: list[bool] = partition_test(predicate)(column).to_pylist()
    return found


def predicates(kind: str) -> list[BoundPredicate]:
    found = []
    usable = [each for each in COLUMNS[kind] if each == each]
    for operator in Operator:
        if "starts-with" in operator.value and kind != "string":
            continue
        for value in usable:
            sets = frozenset(usable[:-1]) if len(usable) > 1 else frozenset(usable)
            given = () if operator.is_unary else sets if operator.is_set else (value,)
            found.append(BoundPredicate(operator, 1000, parse_type(kind), ("p",), given))
    return found


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_a_column_is_judged_as_each_value_is(kind: str) -> None:
    column = [*COLUMNS[kind], None]
    stored = [each.bytes if isinstance(each, uuid.UUID) else each for each in column]
    for predicate in predicates(kind):
        expected = [value_matches(predicate, each) for each in column]
        assert judged(predicate, pa.array(stored, arrow_type(parse_type(kind)))) == expected, predicate


def test_negative_zero_is_among_values_with_zero() -> None:
    predicate = BoundPredicate(_O.IN, 1000, parse_type("double"), ("p",), frozenset([0.0, 7.0]))
    assert judged(predicate, pa.array([-0.0, 0.0, 1.0])) == [True, True, False]


@pytest.mark.parametrize(("kind", "before"), [("long", pa.int32()), ("double", pa.float32())])
def test_columns_from_before_a_promotion_are_compared_as_the_wider_type(kind: str, before: pa.DataType) -> None:
    wide = 2**40 + 1 if kind == "long" else 0.1
    predicate = BoundPredicate(_O.LT, 1000, parse_type(kind), ("p",), (wide,))
    assert judged(predicate, pa.array([0, 1, None], before)) == [True, kind == "long", False]


def test_a_text_that_arrow_cannot_hold_is_compared_by_python() -> None:
    predicate = BoundPredicate(_O.LT, 1000, parse_type("string"), ("p",), ("\ud800",))
    assert judged(predicate, pa.array(["a", "\U0001f600", None])) == [True, False, False]


def test_a_number_that_arrow_cannot_hold_is_compared_by_python() -> None:
    predicate = BoundPredicate(_O.LT_EQ, 1000, parse_type("int"), ("p",), (2**31 + 5,))
    assert judged(predicate, pa.array([0, 2**31 - 1, None], pa.int32())) == [True, True, False]


def test_uuids_are_made_of_their_bytes() -> None:
    column = pa.array([IDS[1].bytes, None], pa.binary(16))
    assert partition_values(column, parse_type("uuid")) == [IDS[1], None]
