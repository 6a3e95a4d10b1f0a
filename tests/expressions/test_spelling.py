"""The text of a filter is read as the same filter."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import ALWAYS_FALSE, ALWAYS_TRUE, Expression, col, parse
from iceberg_hms.expressions.binding import Bound, bind
from iceberg_hms.expressions.expression import And, Operator, Or, Predicate
from iceberg_hms.expressions.spelling import KEYWORDS, TYPED, read_pattern
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Bucket, Day, Hour, IdentityTransform, Transform, Truncate

TYPES = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal(20, 4)",
    "string",
    "uuid",
    "fixed[2]",
    "binary",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
    "timestamptz_ns",
)
TEXT = st.text(max_size=12) | st.text("'\"`%_\\. xX1%e\nÄ€", max_size=12)
NAMES = st.sampled_from(
    sorted(KEYWORDS | TYPED.keys() | {"level", "Level", "İd", "x", "a b", "null_", "1st"})
) | TEXT.filter(bool)
ZONES = st.none() | st.just(datetime.UTC) | st.just(datetime.timezone(datetime.timedelta(hours=-7, minutes=-30)))
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
    TEXT,
    st.binary(max_size=4),
    st.dates(),
    st.times(),
    st.datetimes(timezones=ZONES),
    st.datetimes(timezones=ZONES).map(datetime.datetime.isoformat),
    st.dates().map(datetime.date.isoformat),
    st.uuids(),
)


def predicates(name: str) -> st.SearchStrategy[Expression]:
    column = col(name)
    one = [
        lambda value: column == value,
        lambda value: column != value,
        lambda value: column < value,
        lambda value: column <= value,
        lambda value: column > value,
        lambda value: column >= value,
    ]
    lists = st.lists(VALUES, max_size=3)
    plain = st.one_of(
        st.sampled_from([column.is_null(), column.is_not_null(), column.is_nan(), ~column.is_nan()]),
        st.builds(lambda make, value: make(value), st.sampled_from(one), VALUES),
        lists.map(column.is_in),
        lists.map(column.not_in),
        TEXT.map(column.starts_with),
        TEXT.map(lambda text: ~column.starts_with(text)),
    )
    transforms = st.sampled_from([None, None, IdentityTransform(), Bucket(4), Truncate(2), Day(), Hour()])
    return st.builds(_transformed, plain, transforms)


def _transformed(found: Predicate, transform: Transform | None) -> Expression:
    # The text of an empty list names no column.
    return replace(found, transform=transform) if found.values or found.operator.is_unary else found


def combined(leaves: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def two(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.builds(lambda a, b: a & b, inner, inner) | st.builds(lambda a, b: a | b, inner, inner)

    return st.recursive(leaves | st.sampled_from([ALWAYS_TRUE, ALWAYS_FALSE]), two, max_leaves=6)


def outcome(expression: Expression, schema: Schema) -> Bound | str:
    """The filter on a schema's columns, or that it does not fit them."""
    try:
        return bind(expression, schema)
    except InvalidInput:
        return "refused"


@given(data=st.data(), name=NAMES, of=st.sampled_from(TYPES), nested=st.booleans())
def test_a_filter_and_its_text_mean_the_same_of_every_type(data: Any, name: str, of: str, nested: bool) -> None:
    field = {"id": 1, "name": name, "required": False, "type": of}
    if nested:
        inner = {"type": "struct", "fields": [field]}
        field = {"id": 2, "name": name, "required": False, "type": inner}
    schema = Schema.parse({"type": "struct", "fields": [field]})
    expression = data.draw(predicates(f"{name}.{name}" if nested else name))
    assert outcome(parse(str(expression)), schema) == outcome(expression, schema)


@given(expression=NAMES.flatmap(lambda name: combined(predicates(name))))
def test_a_text_that_was_made_of_a_filter_is_made_of_what_it_is_read_as(expression: Expression) -> None:
    once = parse(str(expression))
    assert str(parse(str(once))) == str(once)


SIMPLE = Schema.parse(
    {"type": "struct", "fields": [{"id": id_, "name": f"c{id_}", "required": False, "type": "int"} for id_ in (1, 2)]}
)


@given(expression=combined(st.builds(lambda id_, value: col(f"c{id_}") < value, st.integers(1, 2), st.integers(0, 9))))
def test_and_and_or_keep_their_operands(expression: Expression) -> None:
    assert bind(parse(str(expression)), SIMPLE) == bind(expression, SIMPLE)


def test_long_chains_and_deep_nests_are_read_again() -> None:
    leaf: Expression = col("c1") == 1
    chain = leaf
    for _ in range(5_000):
        chain = Or(leaf, chain)
    assert bind(parse(str(chain)), SIMPLE) == bind(chain, SIMPLE)
    nest = leaf
    for _ in range(100):
        nest = And(leaf, Or(leaf, nest))
    assert bind(parse(str(nest)), SIMPLE) == bind(nest, SIMPLE)
    with pytest.raises(InvalidInput, match="nested more than 200 deep"):
        parse(str(Or(leaf, nest)))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("id") == 1, "id = 1"),
        (col("place.lat") > -0.5, "place.lat > -0.5e0"),
        (col("price") <= Decimal("1.50"), "price <= 1.50"),
        (col("price") <= Decimal(5), "price <= 5."),
        (col("level") != "it's", "level <> 'it''s'"),
        (col("or").is_null(), '"or" is null'),
        (col('a "b".c').is_nan(), '"a ""b"".c" is nan'),
        (col("level").starts_with("50%_\\"), "level like '50\\%\\_\\\\%'"),
        (~col("level").starts_with("a"), "level not like 'a%'"),
        (col("id").not_in([1, 2]), "id not in (1, 2)"),
        (col("id").is_in([]), "false"),
        (col("id").not_in([]), "id is not null"),
        (col("key") == b"\x00\xff", "key = X'00ff'"),
        (col("flag") == False, "flag = false"),  # noqa: E712
        (col("ratio") < float("inf"), "ratio < 1e999"),
        (col("day") == datetime.date(2021, 4, 1), "day = date '2021-04-01'"),
        (col("at") == datetime.time(1, 2), "at = time '01:02:00'"),
        (
            col("seen") >= datetime.datetime(2021, 4, 1, tzinfo=datetime.UTC),
            "seen >= timestamp '2021-04-01 00:00:00+00:00'",
        ),
        (col("key") == uuid.UUID(int=1), "key = uuid '00000000-0000-0000-0000-000000000001'"),
        (Predicate(Operator.EQ, "id", (object,)), "id = <class 'object'>"),
        (Predicate(Operator.STARTS_WITH, "id", (1,)), "id like 1"),
    ],
    ids=str,
)
def test_a_filter_is_shown_as_it_is_written(expression: Expression, text: str) -> None:
    assert str(expression) == text


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ab%", ("ab", True)),
        ("ab", ("ab", False)),
        ("%", ("", True)),
        ("a\\%", ("a%", False)),
        ("a\\_\\\\%", ("a_\\", True)),
        ("a%b", None),
        ("a_", None),
        ("a\\b", None),
        ("a\\", None),
    ],
)
def test_a_pattern_is_a_text_or_a_beginning(pattern: str, expected: tuple[str, bool] | None) -> None:
    assert read_pattern(pattern) == expected
