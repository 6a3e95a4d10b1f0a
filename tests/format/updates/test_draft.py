"""The working copy of apply."""

from __future__ import annotations

import copy

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.draft import LAST_ADDED, MetadataDraft
from tests.format import documents
from tests.format.documents import FIRST, NOW_MS, OLD_V1, SECOND, UPDATED_MS, V2


def test_objects_are_copied_before_they_are_changed() -> None:
    base = documents.metadata()
    before = copy.deepcopy(base.raw)
    draft = MetadataDraft(base, 2, NOW_MS)
    assert draft.raw["snapshots"] is base.raw["snapshots"]
    draft.mutable_object("properties")["a"] = "b"
    draft.put_ref("b", {"snapshot-id": FIRST, "type": "branch"})
    assert base.raw == before
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
    draft.put_ref("t", {"snapshot-id": 1925, "type": "tag"})
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
    assert draft.remove_snapshots([5]) == []
    assert not draft.removed_snapshots
    assert draft.remove_snapshots([FIRST, 5]) == [FIRST]
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


def test_a_list_is_written_at_the_end_and_its_entries_are_handed_on() -> None:
    base = documents.metadata()
    draft = MetadataDraft(base, 2, NOW_MS)
    assert draft.current_schema is base.schema, "not parsed again"
    new = base.schemas[0].with_id(5)
    draft.schemas.add(new)
    made = draft.finish()
    assert [raw["schema-id"] for raw in made.raw["schemas"]] == [0, 1, 5]
    assert made.schemas == (*base.schemas, new)
    assert made.schemas[2] is new
    assert made.raw["sort-orders"] is base.raw["sort-orders"]


def test_the_current_schema_may_be_missing() -> None:
    draft = MetadataDraft(documents.metadata(), 2, NOW_MS)
    draft.rewrite("schemas", draft.base.schemas[:1] if draft.base else [])
    with pytest.raises(InvalidInput, match="schema must be added first"):
        _ = draft.current_schema
    draft.rewrite("partition-specs", [])
    with pytest.raises(InvalidInput, match="spec must be added first"):
        _ = draft.default_spec


def test_a_list_is_untouched_until_an_entry_is_added_or_removed() -> None:
    draft = MetadataDraft(documents.metadata(), 2, NOW_MS)
    draft.schemas.remove(9)
    assert draft.are_untouched(["schemas", "sort-orders"])
    draft.schemas.remove(0)
    assert not draft.are_untouched(["schemas", "sort-orders"])
    assert draft.are_untouched(["sort-orders"])
    assert draft.has_entries("schemas")
    draft.schemas.remove(1)
    assert not draft.has_entries("schemas")


def test_refs_are_found_by_the_snapshot_that_they_name() -> None:
    draft = MetadataDraft(documents.metadata(), 2, NOW_MS)
    assert draft.refs_to(SECOND) == ["main"]
    draft.put_ref("b", {"snapshot-id": SECOND, "type": "branch"})
    draft.put_ref("main", {"snapshot-id": FIRST, "type": "branch"})
    assert draft.refs_to(SECOND) == ["b"]
    assert "main" in draft.refs_to(FIRST)
    assert draft.remove_ref("b")
    assert not draft.remove_ref("b")
    assert draft.refs_to(SECOND) == []


def test_a_snapshot_may_be_added_after_others_were_removed() -> None:
    draft = MetadataDraft(documents.metadata(), 2, NOW_MS)
    draft.remove_snapshots([FIRST])
    draft.add_snapshot({"snapshot-id": 7, "timestamp-ms": NOW_MS})
    assert [row["snapshot-id"] for row in draft.finish().snapshot_rows] == [SECOND, 7]
