"""Bounds in their binary form."""

from __future__ import annotations

import math
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.datafiles.column_bounds import ColumnStatistics, bounds, float_bounds, lower_bound, upper_bound
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.types import PrimitiveType


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("abc", 16, "abc"),
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("ab\U0010ffffd", 3, "ac"),
        ("\U0010ffff\U0010ffffd", 2, None),
        ("a\ud7ffb", 2, "a\ue000"),
        ("☕☕☕", 2, "☕☖"),
        ("😀😀😀", 2, "😀😁"),
        ("abc", None, "abc"),
    ],
)
def test_text_bounds_are_truncated_by_code_points_as_in_java(
    text: str, length: int | None, expected: str | None
) -> None:
    assert upper_bound(types.STRING, text, length) == (None if expected is None else expected.encode())
    assert lower_bound(types.STRING, text, length) == (text if length is None else text[:length]).encode()


@pytest.mark.parametrize(
    ("data", "length", "expected"),
    [
        (b"ab", 16, b"ab"),
        (b"abc", 2, b"ac"),
        (b"a\xffc", 2, b"b"),
        (b"\xff\xff\xff", 2, None),
        (b"\xff\xff", 2, b"\xff\xff"),
        (b"", 2, b""),
    ],
)
def test_binary_bounds_are_truncated_by_bytes_as_in_java(data: bytes, length: int, expected: bytes | None) -> None:
    assert upper_bound(types.BINARY, data, length) == expected
    assert lower_bound(types.BINARY, data, length) == data[:length]


def test_other_types_are_never_truncated() -> None:
    assert upper_bound(PrimitiveType("fixed[4]"), b"abcd", 2) == b"abcd"
    assert lower_bound(types.LONG, 5, 1) == (5).to_bytes(8, "little")


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 5))
def test_truncated_text_still_bounds(text: str, length: int) -> None:
    lower, upper = lower_bound(types.STRING, text, length), upper_bound(types.STRING, text, length)
    assert lower <= text.encode()
    assert len(lower.decode()) <= length
    if upper is not None:
        assert text.encode() <= upper
        assert len(upper.decode()) <= length


def test_bounds_of_floats_contain_both_zeros_and_never_nan() -> None:
    found = float_bounds(0.0, -0.0)
    assert found is not None
    assert [math.copysign(1, each) for each in found] == [-1, 1]
    assert float_bounds(-1.5, 2.5) == (-1.5, 2.5)
    assert float_bounds(math.nan, 1.0) is None
    assert float_bounds(1.0, math.nan) is None


def test_bounds_of_uuids_are_those_that_hold_in_java_s_order_too() -> None:
    texts = ("018f0000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000001", "f" * 32)
    first, later, last = map(uuid.UUID, texts)
    for lower, upper, kept in (
        (first, first, (first.bytes, first.bytes)),
        (first, later, (first.bytes, None)),
        (first, last, (None, None)),
    ):
        assert bounds(types.UUID, ColumnStatistics(9, 2, 0, lower, upper, bounded=True), 16) == kept


def test_a_column_without_statistics_has_no_bounds() -> None:
    assert bounds(types.UUID, ColumnStatistics(9, 2, 2), 16) == (None, None)
    assert bounds(types.STRING, ColumnStatistics(9, 1, 0, "abc", "abc", bounded=True), 2) == (b"ab", b"ac")
