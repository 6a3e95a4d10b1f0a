"""What all operations that add a snapshot have in common; seen through an append."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.snapshot_operation import BranchState
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.files.test_append import NOW, append, committed, data_file
from tests.changes.tables import branch, table, with_main


def test_a_snapshot_that_is_only_staged_moves_no_ref() -> None:
    manifests = MemoryManifestStore().open()
    base = committed(table(), append([data_file("a")], 100), manifests)
    change = append([data_file("b")], 101, stage_only=True, summary={"wap.id": "audit-1"})
    assert change.identity.ref is None
    new = committed(base, change, manifests)
    assert new.refs["main"].snapshot_id == 100
    staged = new.snapshot_by_id(101)
    assert staged is not None
    assert (staged.parent_snapshot_id, staged.summary["wap.id"]) == (100, "audit-1")
    assert [each["snapshot-id"] for each in new.snapshot_log] == [100]


def test_a_branch_that_the_table_lacks_starts_at_main() -> None:
    manifests = MemoryManifestStore().open()
    base = committed(table(), append([data_file("a")], 100), manifests)
    state = BranchState.read(base, "audit", manifests)
    assert state.ref is None
    assert state.parent == base.current_snapshot
    assert state.manifests == tuple(manifests.list(base.current_snapshot))  # type: ignore[arg-type]


def test_a_table_that_is_gone_and_a_tag_are_refused() -> None:
    change = append([data_file("a")], 100, branch="release")
    for refuses in (change.check, lambda base: change.stage(base, MemoryManifestStore().open())):
        with pytest.raises(RequirementFailed, match="table does not exist"):
            refuses(None)
    tagged = with_main(7, refs={"main": branch(7), "release": {"snapshot-id": 7, "type": "tag"}})
    with pytest.raises(InvalidInput, match="release is a tag, not a branch"):
        change.check(tagged)


def test_an_operation_for_whatever_table_has_the_name_asserts_no_uuid() -> None:
    change = append([data_file("a")], 100, table_uuid=None)
    manifests = MemoryManifestStore().open()
    base = table(table_uuid="1df58d5c-2e1f-4f1c-8a59-4a3ed7a1c62a")
    assert committed(base, change, manifests).current_snapshot is not None


def test_the_clock_of_a_snapshot_does_not_go_back_behind_the_table() -> None:
    manifests = MemoryManifestStore().open()
    late = append([data_file("a")], 100, now_ms=lambda: 5)
    new = apply(table(), late.stage(table(), manifests).updates, now_ms=NOW)
    assert new.current_snapshot is not None
    assert new.current_snapshot.timestamp_ms == 1_000
