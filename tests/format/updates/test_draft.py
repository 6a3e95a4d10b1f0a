"""The working copy of apply."""

from __future__ import annotations

import copy

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.draft import LAST_ADDED, MetadataDraft
from tests.format import documents
from tests.format.documents import FIRST, NOW_MS, OLD_V1, SECOND, UPDATED_MS, V2


def test_lists_and_objects_are_copied_before_they_are_changed() -> None:
    base = documents.metadata()
    before = copy.deepcopy(base.raw)
    draft = MetadataDraft(base, 2, NOW_MS)
    assert draft.raw["snapshots"] is base.raw["snapshots"]
    draft.mutable_list("snapshots").append("x")
    draft.mutable_list("snapshots").append("y")
    draft.mutable_object("properties")["a"] = "b"
    draft.mutable_refs()["b"] = {"snapshot-id": FIRST, "type": "branch"}
    assert base.raw == before
    assert draft.raw["snapshots"][-2:] == ["x", "y"]
    assert draft.raw["properties"] == {**V2["properties"], "a": "b"}
    assert set(draft.refs) == {"main", "test", "b"}


def test_setting_the_same_value_is_no_change() -> None:
    draft = MetadataDraft(documents.metadata(), 2, NOW_MS)
    draft.put("location", documents.LOCATION)
    assert not draft.changed
    draft.put("location", "s3://new")
    assert draft.changed


def test_an_implied_main_becomes_explicit_with_the_first_ref() -> None:
    base = documents.metadata(1, current_snapshot_id=1925)
    draft = MetadataDraft(base, 1, NOW_MS)
    assert set(draft.refs) == {"main"}
    draft.mutable_refs()["t"] = {"snapshot-id": 1925, "type": "tag"}
    assert set(draft.raw["refs"]) == {"main", "t"}
    assert "refs" not in base.raw


def test_an_old_v1_file_gets_its_lists() -> None:
    draft = MetadataDraft(TableMetadata.parse(OLD_V1), 1, NOW_MS)
    assert draft.raw["schemas"] == [{**OLD_V1["schema"], "schema-id": 0}]
    assert draft.raw["partition-specs"] == [{"fields": documents.FIELDS, "spec-id": 0}]
    assert draft.raw["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert (draft.raw["current-schema-id"], draft.raw["default-spec-id"], draft.raw["last-partition-id"]) == (
        0,
        0,
        1000,
    )
    assert not draft.changed


def test_removed_snapshots_leave_the_index_too() -> None:
    base = documents.metadata()
    draft = MetadataDraft(base, 2, NOW_MS)
    assert not draft.remove_snapshots({5})
    assert not draft.removed_snapshots
    assert draft.remove_snapshots({FIRST, 5})
    assert list(draft.snapshots_by_id) == [SECOND]
    assert set(base.raw_snapshots_by_id) == {FIRST, SECOND}
    assert set(draft.finish().raw_snapshots_by_id) == {SECOND}


@pytest.mark.parametrize(("version", "none"), [(1, -1), (2, -1), (3, None)])
def test_no_current_snapshot_is_written_as_java_writes_it(version: int, none: int | None) -> None:
    draft = MetadataDraft(documents.metadata(version), version, NOW_MS)
    draft.set_current_snapshot(None)
    assert draft.raw["current-snapshot-id"] == none
    assert draft.current_snapshot_id is None


def test_minus_one_stands_for_the_last_added_id() -> None:
    draft = MetadataDraft(documents.metadata(), 2, NOW_MS)
    assert draft.resolve_id("schemas", 4, "schema") == 4
    with pytest.raises(InvalidInput, match="Cannot set last added schema: no schema has been added"):
        draft.resolve_id("schemas", LAST_ADDED, "schema")
    draft.last_added["schemas"] = 7
    assert draft.resolve_id("schemas", LAST_ADDED, "schema") == 7


@pytest.mark.parametrize(("now_ms", "updated_ms"), [(NOW_MS, NOW_MS), (5, UPDATED_MS)])
def test_the_time_of_the_update_is_never_before_the_base(now_ms: int, updated_ms: int) -> None:
    assert MetadataDraft(documents.metadata(), 2, now_ms).updated_ms == updated_ms


def test_a_list_that_changed_is_parsed_again() -> None:
    draft = MetadataDraft(documents.metadata(), 2, NOW_MS)
    assert draft.current_schema.schema_id == 1
    draft.mutable_list("schemas").append({**V2["schemas"][0], "schema-id": 5})
    assert [schema.schema_id for schema in draft.schemas] == [0, 1, 5]
    draft.replace_list("schemas", V2["schemas"][:1])
    assert [schema.schema_id for schema in draft.schemas] == [0]
    with pytest.raises(InvalidInput, match="schema must be added first"):
        _ = draft.current_schema
