"""Files judged on columns of bounds and counts, case by case; test_column_filter.py compares them with `FileFilter`."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.expressions import Expression, col, parse
from iceberg_hms.expressions.binding import BoundPredicate, bind
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.planning.column_ranges import range_test

SCHEMA = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "n", "required": False, "type": "long"},
            {"id": 2, "name": "x", "required": False, "type": "float"},
            {"id": 3, "name": "t", "required": False, "type": "string"},
            {"id": 4, "name": "ns", "required": False, "type": "timestamp_ns"},
            {"id": 5, "name": "u", "required": False, "type": "uuid"},
            {
                "id": 6,
                "name": "s",
                "required": False,
                "type": {"type": "struct", "fields": [{"id": 7, "name": "n", "required": False, "type": "int"}]},
            },
        ],
    }
)
IDS = {"n": 1, "x": 2, "t": 3, "ns": 4, "u": 5, "s.n": 7}
STATISTICS = {"low": "lower_bound", "high": "upper_bound", "values": "value_count", "nulls": "null_value_count"}


def may(where: Expression | str, **columns: list[Any]) -> list[bool] | None:
    """low, high, values, nulls, nan_value_count: of each file, all of ten rows."""
    bound = bind(parse(where) if isinstance(where, str) else where, SCHEMA)
    assert isinstance(bound, BoundPredicate)
    count = len(next(iter(columns.values())))
    arrays = {"record_count": pa.array([10] * count)}
    for name, found in columns.items():
        of = pa.binary() if name in ("low", "high") else pa.int64()
        arrays[f"{STATISTICS.get(name, name)}.{bound.field_id}"] = pa.array(found, of)
    answers = range_test(bound)(pa.RecordBatch.from_pydict(arrays))
    return None if answers is None else answers.to_pylist()


def longs(*numbers: int | None) -> list[bytes | None]:
    return [None if each is None else struct.pack("<q", each) for each in numbers]


def floats(*numbers: float | None) -> list[bytes | None]:
    return [None if each is None else struct.pack("<f", each) for each in numbers]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("n = 5", [True, True, False, False, True]),
        ("n <> 5", [True, False, True, True, True]),
        ("n < 5", [True, False, False, True, True]),
        ("n <= 5", [True, True, False, True, True]),
        ("n > 9", [False, False, True, False, True]),
        ("n >= 9", [True, False, True, False, True]),
        ("n in (4, 5, 12)", [True, True, True, False, True]),
        ("n in (-9, 4, 5, 30, 40)", [True, True, False, False, True]),
        ("n not in (4, 5)", [True, False, True, True, True]),
        ("n is not null", None),
    ],
)
def test_each_operator_by_bounds(where: str, expected: list[bool] | None) -> None:
    assert may(where, low=longs(1, 5, 10, -3, None), high=longs(9, 5, 20, 2, None)) == expected


def test_a_file_of_one_value_has_nothing_else_unless_it_has_nans() -> None:
    lows, highs = floats(5, 5, 5, 5, None), floats(5, 5, 6, 5, 5)
    assert may("x <> 5", low=lows, high=highs) is None
    found = may("x not in (1, 5)", low=lows, high=highs, nan_value_count=[0, 1, 0, None, 0])
    assert found == [False, True, True, True, True]
    nulls: dict[str, list[Any]] = {"values": [10], "nulls": [9]}
    assert may("t <> 'a'", low=[b"a"], high=[b"a"], **nulls) == [False]


def test_many_values_are_found_between_bounds() -> None:
    where = col("n").is_in(range(0, 2000, 10))
    lows, highs = longs(-5, 1, 5, 1990, 1991, 10, None, 11), longs(-1, 9, 12, 1999, 3000, 10, 4, None)
    assert may(where, low=lows, high=highs) == [False, False, True, True, False, True, True, True]
    assert may(where, low=lows) == [True, True, True, True, False, True, True, True]
    assert may(where, high=longs(-1, 0, None)) == [False, True, True]
    assert may(where, low=longs(-5, -7), high=longs(-1, -2)) == [False, False]


def test_files_with_nothing_but_nulls_match_is_null_alone() -> None:
    counts: dict[str, list[Any]] = {"values": [10, 10, None], "nulls": [10, 9, 10]}
    for where in ("n = 5", "n <> 5", "n is not null", "n not in (1, 2)", "t like 'a%'", "t not like 'a%'", "x is nan"):
        assert may(where, **counts) == [False, True, True]
    assert may("n is null", values=[10, 10, 10], nulls=[10, 0, None]) == [True, False, True]


def test_rows_of_null_structs_may_be_left_out_of_counts() -> None:
    assert may("s.n is null", values=[10, 8, None], nulls=[0, 0, 0]) == [False, True, True]
    assert may("s.n is null", nulls=[0, 0]) is None


def test_a_bound_that_is_nan_makes_the_other_one_worthless() -> None:
    lows, highs = floats(math.nan, 1.0, 1.0), floats(2.0, math.nan, 2.0)
    assert may("x = 5", low=lows, high=highs) == [True, True, False]
    assert may("x > 5", low=lows, high=highs) == [True, True, False]
    assert may("x < 0", low=lows, high=highs) == [True, True, False]


def test_files_of_nothing_but_nans_match_no_number() -> None:
    counts: dict[str, list[Any]] = {"values": [10, 10, 0], "nan_value_count": [10, 9, 0]}
    assert may("x < 5", **counts) == [False, True, True]
    assert may("x is not nan", **counts) == [False, True, True]
    assert may("x <> 5", **counts) is None


def test_no_counted_nan_proves_that_there_is_none_beside_other_metrics_only() -> None:
    found = may("x is nan", values=[10, 10, None], nan_value_count=[0, 1, 0])
    assert found == [False, True, True]
    assert may("x is nan", nan_value_count=[0]) is None


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("t like 'ab%'", [True, True, False, False, True, True]),
        ("t not like 'ab%'", [False, True, True, True, True, True]),
        ("t like '%'", [True] * 6),
        ("t not like '%'", [False, False, False, False, True, True]),
    ],
)
def test_prefixes_of_truncated_bounds(where: str, expected: list[bool]) -> None:
    lows = [b"ab", b"a", b"ac", b"\xf0\x9f\x98\x80", b"ab", None]
    highs = [b"abc", b"b", b"b", b"\xf0\x9f\x98\x81", None, b"abz"]
    assert may(where, low=lows, high=highs) == expected


def test_a_text_cut_within_a_character_is_no_bound() -> None:
    assert may("t = 'z'", low=[b"a", b"a"], high=[b"b", b"b\xff"]) == [False, True]
    assert may("t = 'A'", low=[b"a", b"a\xff"], high=[b"b", b"b"]) == [False, True]


def test_bounds_of_a_wrong_length_prove_nothing() -> None:
    assert may("n = 50", low=longs(1, 1), high=[b"123", *longs(1)]) == [True, False]


def test_bounds_from_before_a_promotion_serve() -> None:
    assert may("n > 5", high=[struct.pack("<i", 4), struct.pack("<i", 6), *longs(5, 7)]) == [False, True, False, True]


def test_bounds_are_none_of_what_a_hash_makes() -> None:
    low, high = longs(5, 5), longs(5, 5)
    for where in ("bucket(4, n) = 1", "bucket(4, n) <> 1", "bucket(4, n) in (0, 1, 2, 3, 4, 5)"):
        assert may(where, low=low, high=high, values=[10, 10], nulls=[0, 10]) == [True, False]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("truncate(10, n) < 10", [True, True, False, True]),
        ("truncate(10, n) = 20", [False, True, True, True]),
        ("truncate(10, n) <> 0", [False, True, True, True]),
        ("truncate(10, n) in (-10, 40, 50, 60, 70)", [False, False, True, True]),
    ],
)
def test_bounds_are_transformed_where_that_keeps_their_order(where: str, expected: list[bool]) -> None:
    assert may(where, low=longs(0, 9, 10, None), high=longs(9, 20, 41, None)) == expected


def test_prefixes_of_truncated_texts() -> None:
    low, high = [b"abc", b"ac", None], [b"abd", b"b", b"b"]
    assert may("truncate(2, t) like 'ab%'", low=low, high=high) == [True, False, True]
    assert may("truncate(2, t) not like 'ab%'", low=low, high=high) == [False, True, True]


def test_uuids_are_ruled_out_by_counts_alone() -> None:
    low = high = [b"\x00" * 16, b"\x00" * 16]
    where = "u = '00000000-0000-0000-0000-000000000001'"
    assert may(where, low=low, high=high) is None
    assert may(where, low=low, high=high, values=[10, 10], nulls=[10, 0]) == [False, True]


def test_what_arrow_cannot_hold_is_judged_file_by_file() -> None:
    late, early = col("ns") < "9999-01-01T00:00:00", col("ns") > "9999-01-01T00:00:00"
    assert may(late, low=longs(5, None), high=longs(6, None)) == [True, True]
    assert may(early, low=longs(5, None), high=longs(6, None)) == [False, True]
    assert may(col("ns") < "1980-01-01", low=[struct.pack("<i", 2**31 - 1), struct.pack("<i", 1)]) == [False, True]
    assert may(col("t") < "\ud800", low=[b"a", "\U0001f600".encode()]) == [True, False]
    assert may(~col("t").starts_with("\ud800"), low=[b"a"], high=[b"a"]) == [True]
