"""Filters in the REST protocol's JSON."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import ALWAYS_FALSE, ALWAYS_TRUE, Expression, col, parse
from iceberg_hms.expressions.binding import bind
from iceberg_hms.expressions.expression import Operator, Predicate
from iceberg_hms.expressions.json_form import from_json, to_json
from iceberg_hms.format.schema.schema import Schema

ID = col("id")
EQ = {"type": "eq", "term": "id", "value": 1}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (EQ, ID == 1),
        (True, ALWAYS_TRUE),
        ({"type": "false"}, ALWAYS_FALSE),
        ({"type": "is-null", "term": {"type": "reference", "term": "id"}}, ID.is_null()),
        ({"type": "in", "term": "id", "values": [1, 2]}, ID.is_in([1, 2])),
        ({"type": "and", "left": EQ, "right": {"type": "lt_eq", "term": "id", "value": 2}}, (ID == 1) & (ID <= 2)),
        ({"type": "not-eq", "term": "id", "value": 1}, ID.is_null() | (ID != 1)),
        ({"type": "not", "child": EQ}, ID.is_null() | (ID != 1)),
        ({"type": "not", "child": {"type": "not-eq", "term": "id", "value": 1}}, ID == 1),
        (
            {"type": "not", "child": {"type": "or", "left": EQ, "right": {"type": "is-null", "term": "id"}}},
            (ID.is_null() | (ID != 1)) & ID.is_not_null(),
        ),
        ({"type": "not", "child": {"type": "lt", "term": "id", "value": 1}}, ID >= 1),
        ({"type": "not", "child": {"type": "true"}}, ALWAYS_FALSE),
        ({"type": "eq", "term": "id", "value": {"type": "literal", "value": 1}}, ID == 1),
    ],
)
def test_the_protocol_s_forms_are_read(raw: Any, expected: Expression) -> None:
    assert from_json(raw) == expected


@pytest.mark.parametrize(
    "expression",
    [ID == 1, ID.is_null(), (ID < 1) | (ID > 2.5), ID.is_in([1, 2]) & col("a").starts_with("x"), ALWAYS_TRUE],
)
def test_a_filter_survives_the_way_to_json_and_back(expression: Expression) -> None:
    assert from_json(to_json(expression)) == expression


def test_a_text_beside_a_binary_column_is_hexadecimal_in_the_protocol() -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "b", "required": False, "type": "binary"}]})
    expression = (col("b") == b"\xca\xfe") | col("b").is_in([b"\x00", b"\x01"])
    assert bind(from_json(to_json(expression)), schema) == bind(expression, schema)


BUCKET = {"type": "transform", "transform": "bucket[4]", "term": "id"}


def test_a_transformed_column_is_read_and_written_as_java_s_clients_do() -> None:
    raw = {"type": "eq", "term": BUCKET, "value": 1}
    assert from_json(raw) == parse("bucket(4, id) = 1")
    assert to_json(from_json(raw)) == raw
    nested = {**BUCKET, "term": {"type": "reference", "term": "id"}}
    assert from_json({"type": "eq", "term": nested, "value": 1}) == parse("bucket(4, id) = 1")


def test_a_transform_of_null_is_null() -> None:
    raw = {"type": "not-eq", "term": BUCKET, "value": 1}
    found = from_json(raw)
    assert found == parse("bucket(4, id) is null or bucket(4, id) <> 1")
    assert from_json(to_json(found)) == (
        parse("bucket(4, id) is null")
        | (parse("bucket(4, id) is not null") & parse("bucket(4, id) is null or bucket(4, id) <> 1"))
    )
    assert from_json({"type": "not", "child": {"type": "eq", "term": BUCKET, "value": 1}}) == found


@pytest.mark.parametrize(
    ("kind", "value", "same"),
    [
        ("date", 18718, "x = date '2021-04-01'"),
        ("timestamp", 1617271200000000, "x = timestamp '2021-04-01 10:00:00'"),
        ("timestamptz", 1617271200000000, "x = timestamp '2021-04-01 10:00:00+00:00'"),
        ("timestamp_ns", 1617271200000000, "x = timestamp '2021-04-01 10:00:00'"),
        ("time", 3720000000, "x = time '01:02:00'"),
        ("timestamptz", "2021-04-01T10:00:00", "x = timestamp '2021-04-01 10:00:00+00:00'"),
        ("double", "1.5", "x = 1.5"),
        ("float", "1.5", "x = 1.5"),
        ("long", "5", "x = 5"),
        ("int", "5.0", "x = 5"),
        ("boolean", "true", "x = true"),
        ("decimal(6,2)", "1.5", "x = 1.50"),
        ("string", "1.5", "x = '1.5'"),
    ],
)
def test_values_as_stock_clients_spell_them(kind: str, value: Any, same: str) -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": kind}]})
    assert bind(from_json({"type": "eq", "term": "x", "value": value}), schema) == bind(parse(same), schema)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("double", "nan"),
        ("double", "abc"),
        ("long", "1" * 101),
        ("boolean", "yes"),
        ("timestamp", "2021-04-01T10:00:00Z"),
        ("date", True),
        ("uuid", 5),
    ],
)
def test_values_that_no_client_means_are_refused(kind: str, value: Any) -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": kind}]})
    with pytest.raises(InvalidInput, match="is no value for column x"):
        bind(from_json({"type": "eq", "term": "x", "value": value}), schema)


def test_numbers_of_the_protocol_beyond_a_type_lie_beside_its_values() -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "date"}]})
    assert bind(from_json({"type": "eq", "term": "x", "value": 2**40}), schema) is False
    assert bind(from_json({"type": "lt", "term": "x", "value": 2**40}), schema) == bind(parse("x is not null"), schema)


def test_days_are_no_numbers_for_people() -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "date"}]})
    with pytest.raises(InvalidInput, match="is no value for column x"):
        bind(parse("x = 18718"), schema)


def test_what_excludes_null_in_sql_says_so_in_the_protocol() -> None:
    assert to_json(ID != 1) == {
        "type": "and",
        "left": {"type": "not-null", "term": "id"},
        "right": {"type": "not-eq", "term": "id", "value": 1},
    }


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (Decimal("1.50"), "1.50"),
        (b"\x00\xff", "00FF"),
        (datetime.date(2021, 4, 1), "2021-04-01"),
        (datetime.datetime(2021, 4, 1, 10, tzinfo=datetime.UTC), "2021-04-01T10:00:00+00:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_values_have_the_protocol_s_text(value: Any, form: str) -> None:
    assert to_json(value == ID)["value"] == form


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (7, "filter"),
        ({"type": "like", "term": "id", "value": "x"}, "unknown filter type"),
        ({"type": "eq", "term": "id"}, "a filter's value"),
        ({"type": "eq", "term": "id", "value": None}, "a filter's value"),
        ({"type": "eq", "term": 7, "value": 1}, "a filter's term"),
        ({"type": "in", "term": "id"}, "values"),
        ({"type": "and", "left": EQ}, "filter"),
        ({"type": "eq", "term": {"type": "transform", "term": "id"}, "value": 1}, "transform"),
        ({"type": "eq", "term": {"type": "transform", "transform": "day", "term": 7}, "value": 1}, "a filter's term"),
        ({"type": "eq", "term": {"type": "transform", "transform": "bucket[0]", "term": "id"}, "value": 1}, "> 0"),
    ],
)
def test_what_is_no_filter_is_refused(raw: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        from_json(raw)


def test_a_filter_that_is_nested_too_deep_is_refused() -> None:
    raw: Any = EQ
    for _ in range(300):
        raw = {"type": "not", "child": raw}
    with pytest.raises(InvalidInput, match="nested more than 200 deep"):
        from_json(raw)


def test_an_object_has_no_form_in_json() -> None:
    with pytest.raises(InvalidInput, match="no form in JSON"):
        to_json(Predicate(Operator.EQ, "id", (object(),)))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "is-null", "child": {"type": "reference", "name": "a"}}, col("a").is_null()),
        ({"type": "eq", "left": "a", "right": {"type": "literal", "value": 5, "data-type": "int"}}, col("a") == 5),
        (
            {"type": "in", "child": "a", "values": {"type": "literals", "values": [1, 2], "data-type": "int"}},
            col("a").is_in([1, 2]),
        ),
    ],
)
def test_the_spelling_that_the_protocol_prefers_is_read(form: Any, expected: Expression) -> None:
    assert from_json(form) == expected


def test_a_chain_may_be_as_long_as_a_client_makes_it() -> None:
    chain: Any = {"type": "eq", "term": "a", "value": 0}
    for number in range(1, 5_000):
        chain = {"type": "or", "left": chain, "right": {"type": "eq", "term": "a", "value": number}}
    assert to_json(from_json(chain)) == to_json(from_json(to_json(from_json(chain))))
