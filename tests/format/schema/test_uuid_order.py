"""Bounds of UUIDs that hold in both orders."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.format.schema.uuid_order import shared_bounds, signed

#: Halves around the sign, so that few of them meet often.
HALVES = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]) | st.integers(0, 2**64 - 1)
UUIDS = st.builds(lambda high, low: UUID(int=high << 64 | low), HALVES, HALVES)


def test_what_begins_with_8_to_f_comes_first_in_java() -> None:
    texts = [
        "80000000-0000-0000-8000-000000000000",
        "80000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "00000000-0000-0000-8000-000000000000",
        "00000000-0000-0000-0000-00000000000f",
        "7fffffff-ffff-ffff-7fff-ffffffffffff",
    ]
    assert sorted(map(UUID, reversed(texts)), key=signed) == list(map(UUID, texts))


@given(st.lists(UUIDS, min_size=3, max_size=3).map(sorted))
def test_bounds_that_are_kept_hold_in_both_orders(drawn: list[UUID]) -> None:
    lower, value, upper = drawn
    kept = shared_bounds(lower, upper)
    assert kept[0] in (lower, None)
    assert kept[1] in (upper, None)
    assert kept[0] is None or signed(kept[0]) <= signed(value)
    assert kept[1] is None or signed(value) <= signed(kept[1])


@given(UUIDS, UUIDS)
def test_a_bound_is_left_out_only_if_a_value_exceeds_it(one: UUID, other: UUID) -> None:
    lower, upper = sorted((one, other))
    kept = shared_bounds(lower, upper)
    between = [
        UUID(int=number)
        for bound in (lower, upper)
        for low in (0, 2**63 - 1, 2**63, 2**64 - 1)
        if lower.int <= (number := (bound.int >> 64 << 64) | low) <= upper.int
    ]
    if kept[0] is None:
        assert any(signed(value) < signed(lower) for value in (*between, upper))
    if kept[1] is None:
        assert any(signed(value) > signed(upper) for value in (*between, lower))


@pytest.mark.parametrize(
    ("lower", "upper", "kept"),
    [
        ("018f0000-0000-7000-8000-000000000001", "018f0000-0000-7000-bfff-000000000001", "both"),
        ("018f0000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000001", "lower"),
        ("018f0000-0000-4000-8000-000000000001", "f1900000-0000-4000-8000-000000000001", "none"),
    ],
)
def test_versions_4_and_7(lower: str, upper: str, kept: str) -> None:
    found = shared_bounds(UUID(lower), UUID(upper))
    assert (
        found
        == {
            "both": (UUID(lower), UUID(upper)),
            "lower": (UUID(lower), None),
            "none": (None, None),
        }[kept]
    )
