"""Maps of statistics as a column for each key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.planning import layout
from iceberg_hms.planning.flat_columns import statistics

PAIRS = st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(0, 9)), max_size=4)
ALIKE = st.integers(0, 3).flatmap(
    lambda width: st.lists(
        st.none() | st.tuples(*[st.tuples(st.just(key), st.integers(0, 9)) for key in (2, 9, 2)[:width]]), max_size=5
    )
)


def maps(rows: list[Any]) -> pa.Array:
    pairs = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    return pa.array(pairs, layout.MAPS["value_counts"])


@given(
    rows=st.lists(st.none() | PAIRS, max_size=6) | ALIKE,
    wanted=st.none() | st.frozensets(st.integers(1, 10), max_size=3),
    begin=st.integers(0, 2),
)
def test_each_key_has_the_values_that_dictionaries_have(
    rows: list[Any], wanted: frozenset[int] | None, begin: int
) -> None:
    """Also of a part of an array, whose lists do not begin at 0."""
    found = {key: values.to_pylist() for key, values in statistics(maps(rows).slice(begin), wanted)}
    expected: dict[int, list[Any]] = {}
    dicts = [dict(row or ()) for row in rows[begin:]]
    for key in sorted({key for row in dicts for key in row}):
        values = [row.get(key) for row in dicts]
        if (wanted is None or key in wanted) and any(each is not None for each in values):
            expected[key] = values
    assert found == expected
    assert list(found) == sorted(found)


def test_wide_maps_in_an_order_of_their_own() -> None:
    rows = [[(key, row * 100 + key) for key in range(60, 0, -1) if (key + row) % 7] for row in range(500)]
    found = dict(statistics(maps(rows), None))
    assert sorted(found) == list(range(1, 61))
    assert found[5].to_pylist() == [None if (5 + row) % 7 == 0 else row * 100 + 5 for row in range(500)]


def test_a_pair_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="no column"):
        list(statistics(maps([[(None, 1)]]), None))


@pytest.mark.parametrize("last", [[2, 1, 3], [1, 2, 4], [1, 3, 2]])
def test_rows_with_as_many_keys_may_have_others(last: list[int]) -> None:
    rows = [[(key, row * 10 + key) for key in keys] for row, keys in enumerate([[1, 2, 3], [1, 2, 3], last])]
    found = {key: values.to_pylist() for key, values in statistics(maps(rows), None)}
    assert found == {
        key: [dict(row).get(key) for row in rows] for key in range(1, 5) if any(key in dict(row) for row in rows)
    }
