"""Filters on the columns of a schema."""

from __future__ import annotations

import math
from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import Expression, col, parse
from iceberg_hms.expressions.binding import BoundPredicate, bind, matches
from iceberg_hms.expressions.expression import Operator
from iceberg_hms.format.schema.schema import Schema

SCHEMA = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "int"},
            {"id": 2, "name": "Level", "required": False, "type": "string"},
            {"id": 3, "name": "ratio", "required": False, "type": "double"},
            {
                "id": 4,
                "name": "place",
                "required": False,
                "type": {"type": "struct", "fields": [{"id": 5, "name": "lat", "required": True, "type": "double"}]},
            },
            {
                "id": 6,
                "name": "tags",
                "required": False,
                "type": {"type": "list", "element-id": 7, "element-required": False, "element": "string"},
            },
        ],
    }
)


def test_a_name_becomes_the_field_s_id_and_path() -> None:
    found = bind(col("place.lat") > 1, SCHEMA)
    assert isinstance(found, BoundPredicate)
    assert (found.operator, found.field_id, found.path, found.values) == (
        Operator.GT,
        5,
        ("place", "lat"),
        (1.0,),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (col("id").is_null(), False),
        (col("id").is_not_null(), True),
        (col("id") < 2**40, True),
        (col("id") > 2**40, False),
        (col("id") != 2**40, True),
        (col("id").is_in([2**40]), False),
        (col("id").not_in([2**40]), True),
        (col("id").is_in([]), False),
        ((col("id") < 2**40) & (col("id") == 2**40), False),
        ((col("id") == 1) | (col("id") < 2**40), True),
    ],
)
def test_what_is_so_for_all_rows_needs_no_row(given: Expression, expected: bool) -> None:
    assert bind(given, SCHEMA) is expected


def test_a_set_of_one_is_a_comparison_and_numbers_out_of_range_fall_out() -> None:
    assert bind(col("id").is_in([1, 2**40]), SCHEMA) == bind(col("id") == 1, SCHEMA)
    assert bind(col("id").not_in([1, 2**40]), SCHEMA) == bind(col("id") != 1, SCHEMA)


def test_a_field_of_an_optional_struct_may_be_null() -> None:
    assert isinstance(bind(col("place.lat").is_null(), SCHEMA), BoundPredicate)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (col("nope") == 1, "there is no column nope; the table has id, Level, ratio, place, tags"),
        (col("level") == "x", "there is no column level"),
        (col("tags.element") == "x", "within a list or a map"),
        (col("place") == 1, "no order"),
        (col("id").is_nan(), "has no NaN"),
        (col("id").starts_with("x"), "start with nothing"),
        (col("id") == "x", "column id of type int"),
    ],
)
def test_what_does_not_fit_the_schema_is_named(given: Expression, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        bind(given, SCHEMA)


def test_names_may_be_found_whatever_their_case() -> None:
    assert bind(col("LEVEL") == "x", SCHEMA, case_sensitive=False) == bind(col("Level") == "x", SCHEMA)
    twice = Schema.parse(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "a", "required": False, "type": "int"},
                {"id": 2, "name": "A", "required": False, "type": "int"},
            ],
        }
    )
    with pytest.raises(InvalidInput, match="several columns match a: A, a"):
        bind(col("a") == 1, twice, case_sensitive=False)


NAN = float("nan")


@pytest.mark.parametrize(
    ("given", "row", "expected"),
    [
        (col("id") == 1, {"id": 1}, True),
        (col("Level") != "x", {"Level": None}, False),
        (~(col("Level") == "x"), {"Level": None}, False),
        (col("Level").not_in(["x", "y"]), {"Level": None}, False),
        (col("Level").is_null(), {}, True),
        (col("ratio") < 1, {"ratio": NAN}, False),
        (col("ratio") >= 1, {"ratio": NAN}, False),
        (col("ratio") != 1, {"ratio": NAN}, True),
        (col("ratio").is_nan(), {"ratio": NAN}, True),
        (~col("ratio").is_nan(), {"ratio": None}, False),
        (col("place.lat") > 1, {"place": {"lat": 2.0}}, True),
        (col("place.lat").is_null(), {"place": None}, True),
        (col("Level").starts_with("ER"), {"Level": "ERROR"}, True),
        (~col("Level").starts_with("ER"), {"Level": "WARN"}, True),
        ((col("id") == 1) | (col("id") == 2), {"id": 2}, True),
        ((col("id") == 1) & (col("Level") == "x"), {"id": 1, "Level": "y"}, False),
    ],
)
def test_a_row_matches_as_in_sql(given: Expression, row: dict[str, Any], expected: bool) -> None:
    assert matches(bind(given, SCHEMA), row) is expected


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("x < 1e300", [-math.inf, 0.0]),
        ("x <= 1e300", [-math.inf, 0.0]),
        ("x > 1e300", [math.inf]),
        ("x >= 1e300", [math.inf]),
        ("x = 1e300", []),
        ("x <> 1e300", [-math.inf, 0.0, math.inf, math.nan]),
        ("x < -1e300", [-math.inf]),
        ("x >= -1e300", [0.0, math.inf]),
    ],
)
def test_infinity_lies_beyond_what_a_float_does_not_hold(text: str, matching: list[float]) -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "float"}]})
    bound = bind(parse(text), schema)
    found = [value for value in (-math.inf, 0.0, math.inf, math.nan, None) if matches(bound, {"x": value})]
    assert repr(found) == repr(matching)


def test_a_long_chain_is_no_deep_filter_and_a_deep_one_is_refused() -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "n", "required": False, "type": "int"}]})
    chain: Expression = col("n") == 0
    for number in range(1, 5_000):
        chain = chain | (col("n") == number)
    assert matches(bind(chain, schema), {"n": 4_999})
    assert not matches(bind(~chain, schema), {"n": 4_999})
    deep: Expression = col("n") == 0
    for number in range(150):
        deep = (deep | (col("n") == number)) & col("n").is_not_null()
    with pytest.raises(InvalidInput, match="nested more than 200 deep"):
        bind(deep, schema)
