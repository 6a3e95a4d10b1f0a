"""Several changes as one, staged one on the other."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.cherry_pick import CherryPick
from iceberg_hms.changes.operations.refs import RemoveRef
from iceberg_hms.changes.operations.transaction import TransactionChange
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.pickable import PickableTable
from tests.changes.operations.test_append import NOW, append, committed, data_file
from tests.changes.tables import UUID, table


def test_it_is_known_by_all_its_snapshots_and_the_branch_of_the_last() -> None:
    change = TransactionChange(
        [append([data_file("a")], 100, caller="ann"), append([data_file("b")], 101, branch="audit")], lambda: NOW
    )
    assert (change.identity.snapshot_ids, change.identity.ref, change.identity.caller) == ((100, 101), "audit", "ann")


def test_one_that_moves_refs_itself_is_known_by_its_snapshots_wherever_they_are() -> None:
    remove = RemoveRef(name="audit", seen=None, table_uuid=UUID)
    change = TransactionChange([append([data_file("a")], 100, branch="audit"), remove], lambda: NOW)
    assert (change.identity.snapshot_ids, change.identity.ref) == ((100,), None)
    assert TransactionChange([remove], lambda: NOW).identity.snapshot_ids == ()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_step_is_staged_on_what_those_before_it_left(version: int) -> None:
    manifests = MemoryManifestStore().open()
    base = committed(table(version), append([data_file("old")], 99), manifests)
    change = TransactionChange([append([data_file("a")], 100), append([data_file("b")], 101)], lambda: NOW)
    staged = change.stage(base, manifests)
    new = apply(base, staged.updates, now_ms=NOW)
    assert [each.parent_id for each in new.snapshots] == [None, 99, 100]
    assert new.refs["main"].snapshot_id == 101
    head = new.current_snapshot
    assert head is not None
    assert head.summary["total-data-files"] == "3"
    assert len(staged.files) == 4, "a manifest and a list for each step"


def test_a_step_that_fails_on_a_new_base_fails_all() -> None:
    manifests = MemoryManifestStore().open()
    change = TransactionChange([append([data_file("a")], 100), append([data_file("b")], 101)], lambda: NOW)
    moved = committed(table(), append([data_file("b")], 99), manifests)
    change.check(moved)
    with pytest.raises(RequirementFailed, match="main has 1 of the files already"):
        change.stage(moved, manifests)


def test_it_checks_its_table() -> None:
    change = TransactionChange([append([], 100)], lambda: NOW)
    with pytest.raises(RequirementFailed, match="UUID does not match"):
        change.check(table(table_uuid="1df58d5c-2e1f-4f1c-8a59-4a3ed7a1c62a"))


def test_nothing_to_do_is_refused() -> None:
    with pytest.raises(InvalidInput, match="without a step"):
        TransactionChange([], lambda: NOW)


def test_a_step_that_only_moves_a_ref_on_this_base_adds_no_snapshot() -> None:
    made = PickableTable()
    made.append(1, "a")
    made.stage(2, "b")
    change = TransactionChange([CherryPick(made.new(100), 2), append([], 101)], lambda: NOW)
    assert change.identity.snapshot_ids == (100, 101)
    assert change.stage(made.metadata, made.manifests).snapshot_ids == (101,)
    made.append(3, "c")
    assert change.stage(made.metadata, made.manifests).snapshot_ids == (100, 101)
