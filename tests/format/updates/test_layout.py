"""Partition specs and sort orders in apply."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from tests.format import documents
from tests.format.documents import NOW_MS, V2

DEFAULT = {"action": "set-default-spec", "spec-id": -1}


def field(source_id: int, transform: str, name: str, field_id: int | None = None) -> dict[str, Any]:
    raw = {"source-id": source_id, "transform": transform, "name": name}
    return raw if field_id is None else {**raw, "field-id": field_id}


def add(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"action": "add-spec", "spec": {"spec-id": 40, "fields": list(fields)}}


def run(base: TableMetadata, *updates: dict[str, Any]) -> TableMetadata:
    return apply(base, updates, now_ms=NOW_MS)


def ids(metadata: TableMetadata) -> list[int]:
    return [item.field_id for item in metadata.spec.fields]


def test_a_new_spec_gets_the_next_id_and_its_fields_do_too() -> None:
    after = run(documents.metadata(), add(field(2, "bucket[4]", "b"), field(3, "identity", "z")), DEFAULT)
    assert (after.default_spec_id, ids(after), after.last_partition_id) == (1, [1001, 1002], 1002)


def test_explicit_field_ids_are_kept() -> None:
    after = run(documents.metadata(), add(field(2, "bucket[4]", "b", 1005), field(3, "identity", "z")), DEFAULT)
    assert (ids(after), after.last_partition_id) == ([1005, 1006], 1006)


def test_a_field_without_id_gets_the_id_of_an_equal_field_of_another_spec() -> None:
    after = run(documents.metadata(), add(field(2, "bucket[4]", "b"), field(1, "identity", "renamed")), DEFAULT)
    assert (ids(after), after.last_partition_id) == ([1001, 1000], 1001)
    twice = run(documents.metadata(), add(field(1, "identity", "a"), field(1, "identity", "b")), DEFAULT)
    assert ids(twice) == [1000, 1001]


def test_last_partition_id_never_falls() -> None:
    base = documents.metadata(last_partition_id=1700)
    assert run(base, add(), DEFAULT).last_partition_id == 1700
    assert ids(run(base, add(field(2, "void", "v")), DEFAULT)) == [1701]


def test_an_existing_equivalent_spec_is_reused() -> None:
    base = run(documents.metadata(), add(field(2, "bucket[4]", "b")), DEFAULT)
    back = run(base, add(field(1, "identity", "x")), DEFAULT)
    assert (back.default_spec_id, len(back.specs)) == (0, 2)
    assert back.raw["partition-specs"] is base.raw["partition-specs"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([field(9, "identity", "a")], "Cannot find source column"),
        ([field(1, "day", "a")], "Invalid source type long for transform: day"),
        ([field(1, "bukcet[4]", "a")], r"Unknown transform: bukcet\[4\]"),
        ([{**field(1, "bucket[4]", "a"), "source-ids": [1, 2]}], r"Unknown transform: bucket\[4\] of several columns"),
        ([field(1, "bucket[0]", "a")], "bucket"),
        ([field(2, "bucket[2]", "a"), field(3, "bucket[2]", "a")], "more than once: a"),
        ([field(2, "bucket[2]", "")], "empty partition name"),
        ([field(2, "bucket[2]", "z")], "sourced from different field in schema: z"),
        ([field(2, "bucket[2]", "b", 1000)], "1000 belongs to another field already"),
        ([field(2, "bucket[2]", "b", 1001), field(3, "bucket[2]", "c", 1001)], "must be unique"),
    ],
)
def test_an_invalid_spec_is_refused(fields: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        run(documents.metadata(), add(*fields))


def test_v1_needs_sequential_ids() -> None:
    base = documents.metadata(1)
    after = run(base, add(field(1, "void", "x", 1000), field(2, "bucket[4]", "b", 1001)), DEFAULT)
    assert (ids(after), after.last_partition_id) == ([1000, 1001], 1001)
    with pytest.raises(InvalidInput, match="sequential IDs that are required in v1"):
        run(base, add(field(2, "bucket[4]", "b", 1001)))


def test_ids_that_v1_used_twice_may_be_reused_after_an_upgrade() -> None:
    v1 = run(documents.metadata(1), add(field(1, "void", "x", 1000), field(2, "bucket[4]", "b", 1001)), DEFAULT)
    v2 = run(v1, {"action": "upgrade-format-version", "format-version": 2})
    after = run(v2, add(field(1, "void", "gone", 1000)), DEFAULT)
    assert ids(after) == [1000]


def test_the_default_must_be_there() -> None:
    for bad in (7, -2):
        with pytest.raises(InvalidInput, match=f"unknown spec: {bad}"):
            run(documents.metadata(), {"action": "set-default-spec", "spec-id": bad})
    with pytest.raises(InvalidInput, match="no spec has been added"):
        run(documents.metadata(), DEFAULT)
    with pytest.raises(InvalidInput, match="unknown sort order: 7"):
        run(documents.metadata(), {"action": "set-default-sort-order", "sort-order-id": 7})
    with pytest.raises(InvalidInput, match="no sort order has been added"):
        run(documents.metadata(), {"action": "set-default-sort-order", "sort-order-id": -1})


def test_unused_specs_are_removed_and_the_default_stays() -> None:
    base = run(documents.metadata(), add(field(2, "bucket[4]", "b")), DEFAULT)
    remove = {"action": "remove-partition-specs", "spec-ids": [0, 9]}
    after = run(base, remove)
    assert [spec.spec_id for spec in after.specs] == [1]
    assert run(after, remove) is after
    with pytest.raises(InvalidInput, match="Cannot remove the default partition spec"):
        run(base, {"action": "remove-partition-specs", "spec-ids": [1]})


def order(*fields: dict[str, Any], order_id: int = 1) -> dict[str, Any]:
    return {"action": "add-sort-order", "sort-order": {"order-id": order_id, "fields": list(fields)}}


def by(source_id: int, transform: str = "identity") -> dict[str, Any]:
    return {"transform": transform, "source-id": source_id, "direction": "asc", "null-order": "nulls-first"}


def test_a_new_order_gets_the_next_id() -> None:
    default = {"action": "set-default-sort-order", "sort-order-id": -1}
    after = run(documents.metadata(), order(by(1)), default)
    assert (after.default_sort_order_id, [item.order_id for item in after.sort_orders]) == (4, [3, 4])
    again = run(after, order(*V2["sort-orders"][0]["fields"], order_id=9), default)
    assert (again.default_sort_order_id, len(again.sort_orders)) == (3, 2)
    unsorted = run(after, order(order_id=0), default)
    assert (unsorted.default_sort_order_id, unsorted.sort_order.is_unsorted) == (0, True)


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (order(by(9)), "Cannot find source column"),
        (order(by(1, "hour")), "Invalid source type"),
        (order(by(1, "zorder")), "Unknown transform: zorder$"),
        (order({**by(1), "source-ids": [1, 2]}), "Unknown transform: identity of several columns"),
        (order(by(1), order_id=0), "reserved for unsorted"),
        (order(order_id=5), "Unsorted order ID must be 0"),
    ],
)
def test_an_invalid_order_is_refused(update: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        run(documents.metadata(), update)
