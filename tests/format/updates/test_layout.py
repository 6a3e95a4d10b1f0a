"""Schemas, partition specs and sort orders in apply."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.format.updates.draft import MetadataDraft
from iceberg_hms.format.updates.layout import SCHEMAS
from tests.format import documents
from tests.format.documents import COLUMNS, NOW_MS, V2

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


def draft() -> MetadataDraft:
    """Of a table with the schemas 0 and 1, and 1 current."""
    return MetadataDraft(documents.metadata(), 2, NOW_MS)


def test_an_entry_is_chosen() -> None:
    changed = draft()
    SCHEMAS.choose(changed, {"schema-id": 0})
    assert (changed.raw["current-schema-id"], changed.changed) == (0, True)


def test_choosing_what_is_chosen_changes_nothing() -> None:
    same = draft()
    SCHEMAS.choose(same, {"schema-id": 1})
    assert not same.changed


def test_an_unknown_entry_is_not_chosen() -> None:
    refused = draft()
    with pytest.raises(InvalidInput, match="Cannot set current schema to unknown schema: 7"):
        SCHEMAS.choose(refused, {"schema-id": 7})
    assert not refused.changed


def test_entries_are_removed_and_unknown_ids_ignored() -> None:
    changed = draft()
    SCHEMAS.remove(changed, {"schema-ids": [0, 9]})
    assert [schema.schema_id for schema in changed.schemas] == [1]
    assert changed.changed
    same = draft()
    SCHEMAS.remove(same, {"schema-ids": [9]})
    assert not same.changed


def test_the_chosen_entry_is_not_removed() -> None:
    refused = draft()
    with pytest.raises(InvalidInput, match="Cannot remove the current schema"):
        SCHEMAS.remove(refused, {"schema-ids": [0, 1]})
    assert not refused.changed


NEW = {"id": 4, "name": "w", "required": False, "type": "string"}


def add_schema(*columns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"action": "add-schema", "schema": {"type": "struct", "schema-id": 0, "fields": list(columns)}, **more}


def set_current(schema_id: int) -> dict[str, Any]:
    return {"action": "set-current-schema", "schema-id": schema_id}


def test_a_new_schema_gets_the_next_id_and_raises_last_column_id() -> None:
    after = apply(documents.metadata(), [add_schema(*COLUMNS, NEW), set_current(-1)], now_ms=NOW_MS)
    assert [schema.schema_id for schema in after.schemas] == [0, 1, 2]
    assert after.current_schema_id == 2
    assert after.last_column_id == 4
    assert after.schema.find("w") is not None
    assert after.raw["schemas"][:2] == V2["schemas"]


def test_an_existing_equal_schema_is_reused() -> None:
    base = documents.metadata()
    after = apply(base, [add_schema(*COLUMNS), set_current(-1)], now_ms=NOW_MS)
    assert after.current_schema_id == 2
    same = {**V2["schemas"][1], "schema-id": 50}
    back = apply(after, [{"action": "add-schema", "schema": same}, set_current(-1)], now_ms=NOW_MS)
    assert back.current_schema_id == 1
    assert len(back.schemas) == 3


def test_last_column_id_never_falls_whatever_the_request_says() -> None:
    wide = documents.metadata(last_column_id=30)
    assert apply(wide, [add_schema(*COLUMNS, **{"last-column-id": 3})], now_ms=NOW_MS).last_column_id == 30
    nested = {**NEW, "type": {"type": "list", "element-id": 31, "element-required": True, "element": "int"}}
    assert apply(wide, [add_schema(*COLUMNS, nested)], now_ms=NOW_MS).last_column_id == 31


def test_minus_one_is_the_last_of_several() -> None:
    more = {"id": 5, "name": "v", "required": False, "type": "int"}
    after = apply(
        documents.metadata(),
        [add_schema(*COLUMNS, NEW), add_schema(*COLUMNS, NEW, more), set_current(-1)],
        now_ms=NOW_MS,
    )
    assert after.current_schema_id == 3
    with pytest.raises(InvalidInput, match="no schema has been added"):
        apply(documents.metadata(), [set_current(-1)], now_ms=NOW_MS)


@pytest.mark.parametrize("schema_id", [7, -2])
def test_an_unknown_schema_cannot_be_current(schema_id: int) -> None:
    with pytest.raises(InvalidInput, match=f"unknown schema: {schema_id}"):
        apply(documents.metadata(), [set_current(schema_id)], now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("version", "column", "why"),
    [
        (2, {**NEW, "type": "variant"}, "w: variant is not supported until v3"),
        (2, {**NEW, "initial-default": "x"}, "defaults are not supported until v3"),
        (3, {**NEW, "name": "x"}, "multiple fields for name x"),
        (3, {**NEW, "id": 1}, "same id 1"),
        (3, {**NEW, "type": "int32"}, "Cannot parse type"),
    ],
)
def test_an_invalid_schema_is_refused(version: int, column: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        apply(documents.metadata(version), [add_schema(*COLUMNS, column)], now_ms=NOW_MS)


def test_types_of_v3_are_accepted_in_v3() -> None:
    column = {**NEW, "type": "timestamp_ns", "initial-default": "2020-01-01T00:00:00.000000001"}
    after = apply(documents.metadata(3), [add_schema(*COLUMNS, column)], now_ms=NOW_MS)
    assert after.raw["schemas"][-1]["fields"][-1] == column


def test_unused_schemas_are_removed_and_the_current_one_stays() -> None:
    def remove(*ids: int) -> list[dict[str, Any]]:
        return [{"action": "remove-schemas", "schema-ids": list(ids)}]

    base = documents.metadata()
    assert [schema.schema_id for schema in apply(base, remove(0, 9), now_ms=NOW_MS).schemas] == [1]
    assert apply(base, remove(9), now_ms=NOW_MS) is base
    with pytest.raises(InvalidInput, match="Cannot remove the current schema"):
        apply(base, remove(0, 1), now_ms=NOW_MS)
