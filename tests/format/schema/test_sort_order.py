"""Sort orders."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import UNSORTED, SortField, SortOrder
from iceberg_hms.format.schema.transforms import UnknownTransform, parse_transform

SCHEMA = Schema.parse(
    {
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "long"},
            {"id": 2, "name": "s", "required": True, "type": {"type": "struct", "fields": []}},
        ]
    }
)


def field(source_id: int = 1, **more: Any) -> dict[str, Any]:
    raw = {"transform": "identity", "source-id": source_id, "direction": "asc", "null-order": "nulls-first"}
    return {**raw, **{key.replace("_", "-"): value for key, value in more.items()}}


def test_an_order_has_the_values_of_its_json() -> None:
    raw = {"order-id": 3, "fields": [field(transform="bucket[4]", direction="DESC")], "tomorrow": 1}
    order = SortOrder.parse(raw)
    assert order.raw == raw
    assert order.order_id == 3
    assert order.fields == (SortField(1, parse_transform("bucket[4]"), "desc", "nulls-first"),)
    assert order.with_id(4).raw == {**raw, "order-id": 4}
    assert str(order.fields[0]) == "bucket[4](1) desc nulls-first"


def test_orders_are_compared_without_their_id() -> None:
    order = SortOrder.parse({"order-id": 1, "fields": [field()]})
    assert order.content == order.with_id(2).content
    assert order != order.with_id(2)
    assert order.content != SortOrder.parse({"order-id": 1, "fields": [field(null_order="nulls-last")]}).content
    assert order.content != UNSORTED.content


def test_the_order_without_fields_has_id_0() -> None:
    assert UNSORTED.is_unsorted
    assert UNSORTED.raw == {"order-id": 0, "fields": []}
    assert SortOrder.of([], order_id=5).order_id == 0
    with pytest.raises(InvalidInput, match="reserved for unsorted"):
        SortOrder.parse({"order-id": 0, "fields": [field()]})


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (field(9), "Cannot find source column"),
        (field(2), "non-primitive"),
        (field(transform="day"), "Invalid source type long"),
    ],
)
def test_an_order_that_does_not_fit_the_schema_is_refused(bad: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        SortOrder.parse({"order-id": 1, "fields": [bad]}).check_compatible(SCHEMA)
    SortOrder.parse({"order-id": 1, "fields": [field()]}).check_compatible(SCHEMA)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        {"fields": [None]},
        {"order-id": "1", "fields": []},
        {"order-id": 1, "fields": [field(direction="up")]},
        {"order-id": 1, "fields": [field(null_order="first")]},
        {"order-id": 1, "fields": [{**field(), "direction": None}]},
    ],
)
def test_json_that_is_not_a_sort_order_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidInput):
        SortOrder.parse(raw)


def test_a_transform_of_several_columns_is_unknown() -> None:
    raw = {**field(transform="truncate[4]"), "source-ids": [1, 2]}
    del raw["source-id"]
    (found,) = SortOrder.parse({"order-id": 1, "fields": [raw]}).fields
    assert found.transform == UnknownTransform("truncate[4]")
    assert (found.source_id, found.more_source_ids) == (1, (2,))
    assert found.to_json() == raw
    assert str(found) == "truncate[4](1, 2) asc nulls-first"


def test_orders_of_other_columns_are_not_the_same() -> None:
    one, other = (
        SortOrder.parse({"order-id": 1, "fields": [{**field(transform="zorder"), "source-ids": ids}]})
        for ids in ([1, 2], [1, 3])
    )
    assert one.content != other.content


def test_an_order_is_made_of_fields() -> None:
    made = SortOrder.of([SortField(1, parse_transform("identity"), "asc", "nulls-last")], order_id=2)
    assert made == SortOrder.parse(made.raw)
    assert made.order_id == 2
