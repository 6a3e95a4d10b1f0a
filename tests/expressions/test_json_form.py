"""Filters in the REST protocol's JSON."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import ALWAYS_FALSE, ALWAYS_TRUE, Expression, col
from iceberg_hms.expressions.binding import bind
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
        ({"type": "eq", "term": {"type": "transform", "transform": "day", "term": "id"}, "value": 1}, "transformed"),
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
        to_json(object() == ID)


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
