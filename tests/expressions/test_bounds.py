"""What bounds, nulls and NaNs prove; that it is sound is in test_file_filter.py."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from iceberg_hms.expressions.binding import BoundPredicate
from iceberg_hms.expressions.bounds import ValueRange, bound_decoder, bound_value, may_match, must_match
from iceberg_hms.expressions.expression import Operator
from iceberg_hms.format.schema import types, values
from iceberg_hms.format.schema.types import DOUBLE, STRING, Type, parse_type

_O = Operator
FULL = ValueRange(10, 20, may_be_null=False, may_be_nan=False)


def predicate(operator: Operator, *found: Any, of: Type = DOUBLE) -> BoundPredicate:
    return BoundPredicate(operator, 1, of, ("c",), found)


@pytest.mark.parametrize(
    ("operator", "value", "may", "must"),
    [
        (_O.LT, 10, False, False),
        (_O.LT, 11, True, False),
        (_O.LT, 21, True, True),
        (_O.LT_EQ, 20, True, True),
        (_O.GT, 20, False, False),
        (_O.GT, 9, True, True),
        (_O.GT_EQ, 10, True, True),
        (_O.EQ, 9, False, False),
        (_O.EQ, 15, True, False),
        (_O.NOT_EQ, 15, True, False),
        (_O.NOT_EQ, 21, True, True),
    ],
)
def test_values_between_bounds(operator: Operator, value: int, may: bool, must: bool) -> None:
    one = predicate(operator, value)
    assert (may_match(one, FULL), must_match(one, FULL)) == (may, must)


def test_one_value_that_is_known_matches_as_itself() -> None:
    known = ValueRange(10, 10, may_be_null=False, may_be_nan=False)
    assert must_match(predicate(_O.EQ, 10), known)
    assert must_match(predicate(_O.IN, 9, 10), known)
    assert must_match(predicate(_O.NOT_IN, 9, 11), known)


def test_one_value_that_is_known_is_no_other_but_for_nans() -> None:
    known = ValueRange(10, 10, may_be_null=True, may_be_nan=False)
    assert not may_match(predicate(_O.NOT_EQ, 10), known)
    assert not may_match(predicate(_O.NOT_IN, 9, 10), known)
    assert may_match(predicate(_O.NOT_IN, 9, 11), known)
    with_nan = ValueRange(10, 10, may_be_null=False, may_be_nan=True)
    assert may_match(predicate(_O.NOT_EQ, 10), with_nan)
    assert may_match(predicate(_O.NOT_EQ, 10), ValueRange(10, None, may_be_null=False, may_be_nan=False))


def test_nulls_and_nans_among_the_values_prove_nothing() -> None:
    with_null = ValueRange(10, 20, may_be_null=True, may_be_nan=False)
    with_nan = ValueRange(10, 20, may_be_null=False, may_be_nan=True)
    assert not must_match(predicate(_O.GT, 9), with_null)
    assert not must_match(predicate(_O.GT, 9), with_nan)
    assert must_match(predicate(_O.NOT_EQ, 9), with_nan), "NaN differs from 9 too"
    assert not must_match(predicate(_O.NOT_NULL), with_null)
    assert not must_match(predicate(_O.NOT_NAN), with_nan)


def test_only_nulls_match_is_null_alone() -> None:
    nulls = ValueRange(only_nulls=True)
    assert must_match(predicate(_O.IS_NULL), nulls)
    others = [predicate(_O.NOT_NULL), predicate(_O.NOT_EQ, 1), predicate(_O.IS_NAN), predicate(_O.NOT_NAN)]
    assert not any(may_match(each, nulls) for each in others)


def test_only_nans_match_is_nan_and_what_differs() -> None:
    nans = ValueRange(only_nans=True, may_be_null=False)
    assert must_match(predicate(_O.IS_NAN), nans)
    assert must_match(predicate(_O.NOT_EQ, 1), nans)
    assert not may_match(predicate(_O.LT, 1), nans)
    assert not may_match(predicate(_O.NOT_NAN), nans)


def test_texts_between_two_with_a_prefix_have_it() -> None:
    known = ValueRange("ERRA", "ERRZ", may_be_null=False, may_be_nan=False)
    for prefix, may, must in (("ERR", True, True), ("ERRB", True, False), ("F", False, False), ("A", False, False)):
        one = predicate(_O.STARTS_WITH, prefix, of=STRING)
        other = predicate(_O.NOT_STARTS_WITH, prefix, of=STRING)
        assert (may_match(one, known), must_match(one, known)) == (may, must)
        assert (may_match(other, known), must_match(other, known)) == (not must, not may)


def test_bounds_without_an_order_that_all_writers_share_are_left_out() -> None:
    assert bound_value(types.UUID, uuid.UUID(int=1).bytes) is None
    assert bound_value(DOUBLE, values.to_bytes(DOUBLE, float("nan"))) is None
    assert bound_value(types.INT, b"123") is None
    assert bound_value(types.INT, None) is None
    assert bound_value(types.INT, values.to_bytes(types.INT, 5)) == 5


def test_bounds_are_read_alike_quickly_and_one_by_one() -> None:
    for kind in ("int", "date", "long", "timestamp", "double", "string", "uuid", "decimal(9, 2)"):
        of = parse_type(kind)
        for data in (bytes(4), bytes(8), b"\x01\x02\x03\x04", b"abc", b""):
            assert bound_decoder(of)(data) == bound_value(of, data)
