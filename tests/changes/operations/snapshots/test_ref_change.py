"""What changes of refs assume: the table, the place of a ref, a snapshot."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.snapshots.ref_change import (
    SNAPSHOT_EXISTS,
    Retention,
    SeenRef,
    check_name,
    commits_since,
    existing_ref,
    existing_snapshot,
    is_ancestor,
    named,
    refuse_existing,
    resolve,
)
from iceberg_hms.changes.operations.snapshots.rollback import SetCurrentSnapshot
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID, ASSERT_TABLE_UUID
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.snapshot import Ref
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.histories import history, tag
from tests.changes.tables import UUID

#: 1 <- 2 <- 3 <- 4, and 1 <- 5.
PARENTS = {1: None, 2: 1, 3: 2, 4: 3, 5: 1}
BASE = history(PARENTS, {"main": 4, "audit": 5, "eod": tag(2)})


@pytest.mark.parametrize("of", ["check", "stage"])
@pytest.mark.parametrize("base", [None, BASE], ids=["no table", "another table"])
def test_a_change_is_refused_where_the_table_is_gone_or_another_one(of, base):
    change = SetCurrentSnapshot(target=1, seen=None, table_uuid="00000000-0000-0000-0000-000000000000")
    call = change.check if of == "check" else lambda metadata: change.stage(metadata, MemoryManifestStore().open())
    with pytest.raises(RequirementFailed) as caught:
        call(base)
    assert caught.value.name == ASSERT_TABLE_UUID


def test_a_change_of_a_table_without_uuid_needs_the_table_all_the_same():
    change = SetCurrentSnapshot(target=1, seen=None, table_uuid=None)
    change.check(BASE)
    with pytest.raises(RequirementFailed, match="table does not exist"):
        change.check(None)


def test_a_change_of_refs_adds_no_snapshot_and_names_its_caller():
    identity = SetCurrentSnapshot(target=1, seen=None, table_uuid=UUID, caller="ann").identity
    assert (identity.snapshot_ids, identity.ref, identity.caller) == ((), None, "ann")


def test_a_ref_that_did_not_move_is_where_it_was_seen():
    SeenRef.of(BASE, "main").check(BASE)
    SeenRef.of(BASE, "missing").check(BASE)
    SeenRef.of(BASE, "audit").check(history(PARENTS, {"main": 2, "audit": 5}))


def test_a_moved_branch_is_refused_with_the_commits_that_its_caller_has_not_seen():
    seen = SeenRef.of(history(PARENTS, {"main": 2}), "main")
    with pytest.raises(RequirementFailed, match=r"branch main has moved .* with snapshots 4, 3") as caught:
        seen.check(BASE)
    assert (caught.value.name, caught.value.expected, caught.value.found) == (ASSERT_REF_SNAPSHOT_ID, 2, 4)
    assert caught.value.rests_on == {3, 4}


def test_a_branch_that_moved_to_another_history_is_refused_with_its_snapshot():
    with pytest.raises(
        RequirementFailed, match=r"branch audit has moved since the table was read, to snapshot 5\b"
    ) as caught:
        SeenRef("audit", 3).check(BASE)
    assert caught.value.rests_on == {5}


def test_a_ref_that_was_made_or_removed_since_is_refused():
    with pytest.raises(
        RequirementFailed, match="tag eod was created since the table was read, at snapshot 2"
    ) as caught:
        SeenRef("eod", None).check(BASE)
    assert caught.value.rests_on == {2}
    with pytest.raises(RequirementFailed, match="branch or tag gone was removed since the table was read") as caught:
        SeenRef("gone", 2).check(BASE)
    assert (caught.value.expected, caught.value.found) == (2, None)


@pytest.mark.parametrize("name", ["", "  ", None, 7])
def test_a_ref_without_a_name_is_bad_input(name):
    with pytest.raises(InvalidInput, match="a branch needs a name"):
        check_name(name)


def test_only_a_branch_may_be_called_main():
    check_name("main")
    with pytest.raises(InvalidInput, match="no tag can have that name"):
        check_name("main", "tag")


@pytest.mark.parametrize("setting", ["min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"])
@pytest.mark.parametrize("value", [0, -1])
def test_retention_is_positive(setting, value):
    with pytest.raises(InvalidInput, match="must be greater than 0"):
        Retention(**{setting: value}).check("audit", "branch")


@pytest.mark.parametrize("setting", ["min_snapshots_to_keep", "max_snapshot_age_ms"])
def test_a_tag_has_no_settings_of_branches(setting):
    with pytest.raises(InvalidInput, match="tags do not support"):
        Retention(**{setting: 1}).check("eod", "tag")
    Retention(max_ref_age_ms=1).check("eod", "tag")


def test_main_has_no_maximum_age():
    Retention(1, 1).check("main", "branch")
    with pytest.raises(InvalidInput, match="main never expires"):
        Retention(max_ref_age_ms=1).check("main", "branch")


def test_settings_that_are_not_given_stay():
    ref = Ref(5, "branch", 1, 2, 3)
    assert Retention().over(ref) == ref
    assert Retention(7, 8, 9).over(ref) == Ref(5, "branch", 7, 8, 9)
    assert Retention(max_snapshot_age_ms=8).over(ref) == Ref(5, "branch", 1, 8, 3)


def test_a_ref_is_found_by_name_and_kind():
    assert existing_ref(BASE, "eod") == existing_ref(BASE, "eod", "tag") == Ref(2, "tag")
    with pytest.raises(InvalidInput, match="eod is a tag, not a branch"):
        existing_ref(BASE, "eod", "branch")
    with pytest.raises(RequirementFailed, match="branch gone does not exist") as caught:
        existing_ref(BASE, "gone", "branch")
    assert "audit, eod, main" in str(caught.value.next_step)


def test_a_name_that_is_taken_is_refused():
    refuse_existing(BASE, "new")
    with pytest.raises(RequirementFailed, match="tag eod already exists, at snapshot 2") as caught:
        refuse_existing(BASE, "eod")
    assert caught.value.rests_on == {2}


def test_a_snapshot_that_the_table_lacks_is_refused_by_name():
    assert existing_snapshot(BASE, 5).snapshot_id == 5
    with pytest.raises(RequirementFailed, match="snapshot 9 is not in the table: it has expired") as caught:
        existing_snapshot(BASE, 9)
    assert (caught.value.name, caught.value.expected) == (SNAPSHOT_EXISTS, 9)


def test_a_target_is_a_snapshot_or_a_ref_where_it_was_seen():
    assert (resolve(BASE, 3), resolve(BASE, SeenRef("audit", 5))) == (3, 5)
    for target, message in ((9, "snapshot 9"), (SeenRef("audit", 1), "moved"), (SeenRef("no", None), "does not exist")):
        with pytest.raises(RequirementFailed, match=message):
            resolve(BASE, target)


def test_ancestors_are_followed_as_far_as_the_table_has_them():
    assert is_ancestor(BASE, 1, 4)
    assert is_ancestor(BASE, 4, 4)
    assert not is_ancestor(BASE, 5, 4)
    assert not is_ancestor(BASE, 1, None)
    assert not is_ancestor(history({1: None, 3: 2, 4: 3}, {"main": 4}), 1, 4)
    assert (commits_since(BASE, 4, 1), commits_since(BASE, 4, 4), commits_since(BASE, 4, 5)) == ([4, 3, 2], [], [])


def test_an_error_names_a_few_snapshots():
    assert named([7]) == "snapshot 7"
    assert named([7, 8]) == "snapshots 7, 8"
    assert named([1, 2, 3, 4, 5, 6, 7]) == "snapshots 1, 2, 3, 4, 5 and 2 more"
