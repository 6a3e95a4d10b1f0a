"""Filters on the columns of a schema."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import Expression, col, parse
from iceberg_hms.expressions.binding import BoundPredicate, bind
from iceberg_hms.expressions.expression import Operator, Predicate
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Bucket, Truncate, UnknownTransform, Void
from iceberg_hms.format.schema.types import parse_type
from tests.expressions.rows import matches

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
    ("where", "expected"),
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
def test_what_is_so_for_all_rows_needs_no_row(where: Expression, expected: bool) -> None:
    assert bind(where, SCHEMA) is expected


def test_a_set_of_one_is_a_comparison_and_numbers_out_of_range_fall_out() -> None:
    assert bind(col("id").is_in([1, 2**40]), SCHEMA) == bind(col("id") == 1, SCHEMA)
    assert bind(col("id").not_in([1, 2**40]), SCHEMA) == bind(col("id") != 1, SCHEMA)


def test_a_field_of_an_optional_struct_may_be_null() -> None:
    assert isinstance(bind(col("place.lat").is_null(), SCHEMA), BoundPredicate)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (col("nope") == 1, "there is no column nope; the table has id, Level, ratio, place, tags"),
        (col("level") == "x", "there is no column level"),
        (col("tags.element") == "x", "within a list or a map"),
        (col("place") == 1, "no order"),
        (col("id").is_nan(), "has no NaN"),
        (col("id").starts_with("x"), "start with nothing"),
        (col("id") == "x", "column id of type int"),
        (parse("day(id) = 1"), "column id of type int cannot be filtered by its transform 'day'"),
        (parse("bucket(4, ratio) is null"), "column ratio of type double cannot be filtered by its transform 'bucket"),
        (Predicate(Operator.IS_NULL, "id", (), Void()), "by its transform 'void'"),
        (Predicate(Operator.EQ, "id", ("x",), UnknownTransform("hyperspace[3]")), "by its transform 'hyperspace"),
        (parse("bucket(4, id) = 'x'"), "column id of type int"),
        (parse("bucket(4, id) is nan"), "has no NaN"),
    ],
)
def test_what_does_not_fit_the_schema_is_named(where: Expression, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        bind(where, SCHEMA)


def test_a_transformed_column_is_compared_with_results_of_the_transform() -> None:
    found = bind(parse("truncate(2, Level) in ('a', 'b')"), SCHEMA)
    of = parse_type("string")
    assert found == BoundPredicate(Operator.IN, 2, of, ("Level",), frozenset("ab"), Truncate(2), of)
    found = bind(parse("bucket(4, Level) = 1"), SCHEMA)
    assert found == BoundPredicate(Operator.EQ, 2, parse_type("int"), ("Level",), (1,), Bucket(4), of)
    assert bind(parse("identity(id) = 1"), SCHEMA) == bind(parse("id = 1"), SCHEMA)
    assert bind(parse("bucket(4, id) < 1e20"), SCHEMA) is True


def test_days_are_dates_and_their_numbers() -> None:
    time = {"id": 1, "name": "t", "required": False, "type": "timestamp"}
    schema = Schema.parse({"type": "struct", "fields": [time]})
    assert bind(parse("day(t) = 18718"), schema) == bind(parse("day(t) = date '2021-04-01'"), schema)
    assert bind(parse("month(t) in (615)"), schema) == bind(parse("month(t) = 615"), schema)
    with pytest.raises(InvalidInput, match="column t of type int"):
        bind(parse("month(t) = date '2021-04-01'"), schema)


def test_a_transform_of_null_is_null() -> None:
    assert bind(parse("bucket(4, Level) is null"), SCHEMA) == bind(parse("Level is null"), SCHEMA)
    assert bind(parse("bucket(4, Level) is not null"), SCHEMA) == bind(parse("Level is not null"), SCHEMA)
    assert bind(parse("bucket(4, id) is null"), SCHEMA) is False


def test_names_may_be_found_whatever_their_case() -> None:
    assert bind(col("LEVEL") == "x", SCHEMA, case_sensitive=False) == bind(col("Level") == "x", SCHEMA)
    twice = Schema.parse(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "bB", "required": False, "type": "int"},
                {"id": 2, "name": "BB", "required": False, "type": "int"},
            ],
        }
    )
    with pytest.raises(InvalidInput, match="name Bb is ambiguous: BB, bB"):
        bind(col("Bb") == 1, twice, case_sensitive=False)
    assert bind(col("BB") == 1, twice, case_sensitive=False) == bind(col("BB") == 1, twice)


NAN = float("nan")


@pytest.mark.parametrize(
    ("where", "row", "expected"),
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
def test_a_row_matches_as_in_sql(where: Expression, row: dict[str, Any], expected: bool) -> None:
    assert matches(bind(where, SCHEMA), row) is expected


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


NUMBERS = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": at, "name": f"c{at}", "required": False, "type": kind}
            for at, kind in enumerate(("int", "long", "decimal(2,1)", "decimal(2,2)", "decimal(38,0)"), 1)
        ],
    }
)


@st.composite
def numbers_and_filters(draw: st.DrawFn) -> tuple[str, Any, Operator, list[Any]]:
    """A column, a value as it stores them or null, and a comparison with one number or several."""
    column = draw(st.sampled_from(["c1", "c2", "c3", "c4", "c5"]))
    limits = {"c1": (-(2**31), 2**31 - 1), "c2": (-(2**63), 2**63 - 1), "c5": (1 - 10**38, 10**38 - 1)}
    low, high = limits.get(column, (-99, 99))
    whole = draw(st.integers(max(low, -30), min(high, 30)) | st.sampled_from([low, high]))
    scale = {"c3": 1, "c4": 2}.get(column, 0)
    value = whole if column in ("c1", "c2") else values.from_unscaled(whole, scale)
    near = st.integers(-250, 250).map(lambda digits: Decimal(value) + Decimal(digits).scaleb(-2))
    literal = near | near.map(float) | near.map(int) | st.just(value) | st.sampled_from([math.inf, -math.inf, 10**40])
    operators = [each for each in Operator if not each.is_unary and not each.value.endswith("starts-with")]
    operator = draw(st.sampled_from(operators))
    return (
        column,
        draw(st.just(value) | st.none()),
        operator,
        draw(st.lists(literal, max_size=3) if operator.is_set else st.lists(literal, min_size=1, max_size=1)),
    )


@given(numbers_and_filters())
@settings(max_examples=500)
def test_a_number_is_compared_as_mathematics_has_it(drawn: tuple[str, Any, Operator, list[Any]]) -> None:
    column, value, operator, literals = drawn
    exact = [Decimal(repr(each) if isinstance(each, float) else each) for each in literals]
    expected = (
        value is not None
        and {
            Operator.LT: lambda: value < exact[0],
            Operator.LT_EQ: lambda: value <= exact[0],
            Operator.GT: lambda: value > exact[0],
            Operator.GT_EQ: lambda: value >= exact[0],
            Operator.EQ: lambda: value == exact[0],
            Operator.NOT_EQ: lambda: value != exact[0],
            Operator.IN: lambda: value in exact,
            Operator.NOT_IN: lambda: value not in exact,
        }[operator]()
    )
    predicate = Predicate(operator, column, tuple(literals))
    assert matches(bind(predicate, NUMBERS), {column: value}) is expected
    assert matches(bind(~predicate, NUMBERS), {column: value}) is (value is not None and not expected)
    assert matches(bind(parse(str(predicate)), NUMBERS), {column: value}) is expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("c3 < 1.005", "c3 <= 1.0"),
        ("c3 <= 1.005", "c3 <= 1.0"),
        ("c3 > 1.005", "c3 >= 1.1"),
        ("c3 = 1.005", "false"),
        ("c3 in (1.005, 2)", "c3 = 2.0"),
        ("c3 <> 1.005", "c3 is not null"),
        ("c3 not in (1.005, 3.14)", "c3 is not null"),
        ("c3 < 1e9", "c3 is not null"),
        ("c3 > -9.85", "c3 >= -9.8"),
        ("c3 > -9.95", "c3 is not null"),
        ("c1 = 1.0", "c1 = 1"),
        ("c1 < 1.5", "c1 <= 1"),
        ("not c1 < 1.5", "c1 >= 2"),
        ("c1 > 2147483646.5", "c1 >= 2147483647"),
        ("c1 >= 2147483647.5", "false"),
    ],
)
def test_digits_that_a_column_does_not_have_round_to_its_next_value(text: str, same: str) -> None:
    assert bind(parse(text), NUMBERS) == bind(parse(same), NUMBERS)


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
