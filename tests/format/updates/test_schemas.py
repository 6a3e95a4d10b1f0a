"""add-schema, set-current-schema, remove-schemas."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.updates.apply import apply
from tests.format import documents
from tests.format.documents import COLUMNS, NOW_MS, V2

NEW = {"id": 4, "name": "w", "required": False, "type": "string"}


def add(*columns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"action": "add-schema", "schema": {"type": "struct", "schema-id": 0, "fields": list(columns)}, **more}


def set_current(schema_id: int) -> dict[str, Any]:
    return {"action": "set-current-schema", "schema-id": schema_id}


def test_a_new_schema_gets_the_next_id_and_raises_last_column_id() -> None:
    after = apply(documents.metadata(), [add(*COLUMNS, NEW), set_current(-1)], now_ms=NOW_MS)
    assert [schema.schema_id for schema in after.schemas] == [0, 1, 2]
    assert after.current_schema_id == 2
    assert after.last_column_id == 4
    assert after.schema.find("w") is not None
    assert after.raw["schemas"][:2] == V2["schemas"]


def test_an_existing_equal_schema_is_reused() -> None:
    base = documents.metadata()
    after = apply(base, [add(*COLUMNS), set_current(-1)], now_ms=NOW_MS)
    assert after.current_schema_id == 2
    same = {**V2["schemas"][1], "schema-id": 50}
    back = apply(after, [{"action": "add-schema", "schema": same}, set_current(-1)], now_ms=NOW_MS)
    assert back.current_schema_id == 1
    assert len(back.schemas) == 3


def test_last_column_id_never_falls_whatever_the_request_says() -> None:
    wide = documents.metadata(last_column_id=30)
    assert apply(wide, [add(*COLUMNS, **{"last-column-id": 3})], now_ms=NOW_MS).last_column_id == 30
    nested = {**NEW, "type": {"type": "list", "element-id": 31, "element-required": True, "element": "int"}}
    assert apply(wide, [add(*COLUMNS, nested)], now_ms=NOW_MS).last_column_id == 31


def test_minus_one_is_the_last_of_several() -> None:
    more = {"id": 5, "name": "v", "required": False, "type": "int"}
    after = apply(documents.metadata(), [add(*COLUMNS, NEW), add(*COLUMNS, NEW, more), set_current(-1)], now_ms=NOW_MS)
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
        apply(documents.metadata(version), [add(*COLUMNS, column)], now_ms=NOW_MS)


def test_types_of_v3_are_accepted_in_v3() -> None:
    column = {**NEW, "type": "timestamp_ns", "initial-default": "2020-01-01T00:00:00.000000000"}
    after = apply(documents.metadata(3), [add(*COLUMNS, column)], now_ms=NOW_MS)
    assert after.raw["schemas"][-1]["fields"][-1] == column


def test_unused_schemas_are_removed_and_the_current_one_stays() -> None:
    def remove(*ids: int) -> list[dict[str, Any]]:
        return [{"action": "remove-schemas", "schema-ids": list(ids)}]

    base = documents.metadata()
    assert [schema.schema_id for schema in apply(base, remove(0, 9), now_ms=NOW_MS).schemas] == [1]
    assert apply(base, remove(9), now_ms=NOW_MS) is base
    with pytest.raises(InvalidInput, match="Cannot remove the current schema"):
        apply(base, remove(0, 1), now_ms=NOW_MS)
