"""Branches and tags: what each change does, and which commits in between it lives with."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.snapshots.ref_change import Retention, SeenRef
from iceberg_hms.changes.operations.snapshots.refs import (
    FAST_FORWARD,
    CreateRef,
    FastForward,
    RemoveRef,
    RenameBranch,
    ReplaceRef,
    SetRetention,
)
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.snapshot import Ref
from tests.changes.operations.histories import committed, heads, history, tag
from tests.changes.tables import UUID, branch

#: 1 <- 2 <- 3 <- 4, and 1 <- 5.
PARENTS = {1: None, 2: 1, 3: 2, 4: 3, 5: 1}
KEPT = {"min-snapshots-to-keep": 3, "max-snapshot-age-ms": 4_000, "max-ref-age-ms": 5_000}


def base_of(version=2, **refs):
    return history(PARENTS, {"main": 4, "audit": branch(5, **KEPT), "eod": tag(2), **refs}, version)


def create(name, target=None, kind="branch", **retention):
    return CreateRef(name=name, kind=kind, target=target, retention=Retention(**retention), table_uuid=UUID)


def replace(name, target, seen, kind="branch", **retention):
    seen = None if seen is None else SeenRef(name, seen)
    return ReplaceRef(name=name, kind=kind, target=target, seen=seen, retention=Retention(**retention), table_uuid=UUID)


def remove(name, seen, kind="branch"):
    return RemoveRef(name=name, kind=kind, seen=None if seen is None else SeenRef(name, seen), table_uuid=UUID)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_new_ref_is_at_the_snapshot_of_main_unless_another_is_named(version, kind):
    base = base_of(version)
    assert committed(base, create("new", kind=kind)).ref("new") == Ref(4, kind)
    assert committed(base, create("new", 5, kind)).ref("new") == Ref(5, kind)
    assert committed(base, create("new", SeenRef("eod", 2), kind)).ref("new") == Ref(2, kind)


def test_a_new_ref_leaves_the_current_snapshot_and_the_log_alone():
    base = base_of()
    new = committed(base, create("new", 1))
    assert (new.current_snapshot_id, list(new.snapshot_log)) == (4, list(base.snapshot_log))


def test_a_new_ref_takes_its_settings():
    new = committed(base_of(), create("new", min_snapshots_to_keep=1, max_snapshot_age_ms=2, max_ref_age_ms=3))
    assert new.ref("new") == Ref(4, "branch", 1, 2, 3)
    assert committed(base_of(), create("new", kind="tag", max_ref_age_ms=3)).ref("new") == Ref(4, "tag", None, None, 3)


def test_a_new_ref_follows_main_as_it_is_when_it_is_committed():
    assert heads(committed(base_of(main=3), create("new")))["new"] == 3


@pytest.mark.parametrize("name", ["main", "audit", "eod"])
@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_name_that_a_branch_or_tag_has_is_refused(name, kind):
    if (name, kind) == ("main", "tag"):
        with pytest.raises(InvalidInput, match="no tag can have that name"):
            create(name, 1, kind)
    else:
        with pytest.raises(RequirementFailed, match=f"{name} already exists"):
            committed(base_of(), create(name, 1, kind))


def test_a_ref_to_an_expired_snapshot_is_refused_by_its_id():
    with pytest.raises(RequirementFailed, match="snapshot 9 is not in the table"):
        committed(base_of(), create("new", 9))


def test_a_tag_of_an_empty_table_is_refused():
    with pytest.raises(RequirementFailed, match="main does not exist"):
        committed(history({}, {}), create("new", kind="tag"))


def test_main_can_be_made_where_a_table_has_only_staged_snapshots():
    new = committed(history({1: None}, {}), create("main", 1))
    assert (new.current_snapshot_id, new.snapshot_log[-1]["snapshot-id"]) == (1, 1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_replaced_branch_moves_anywhere_and_keeps_its_settings(version):
    new = committed(base_of(version), replace("audit", 3, seen=5))
    assert new.ref("audit") == Ref(3, "branch", 3, 4_000, 5_000)
    assert committed(base_of(version), replace("audit", SeenRef("eod", 2), seen=5)).ref("audit").snapshot_id == 2


def test_a_replaced_branch_takes_the_settings_that_are_given():
    assert committed(base_of(), replace("audit", 3, 5, max_snapshot_age_ms=9)).ref("audit") == Ref(
        3, "branch", 3, 9, 5_000
    )


def test_a_replaced_tag_moves_anywhere():
    assert committed(base_of(), replace("eod", 5, 2, "tag", max_ref_age_ms=9)).ref("eod") == Ref(
        5, "tag", None, None, 9
    )


def test_replacing_main_makes_the_snapshot_current_and_logs_it():
    new = committed(base_of(), replace("main", 5, seen=4), now_ms=60_000)
    assert new.current_snapshot_id == 5
    assert new.snapshot_log[-1] == {"timestamp-ms": 60_000, "snapshot-id": 5}


def test_a_branch_that_has_commits_which_the_caller_has_not_seen_is_not_replaced():
    with pytest.raises(RequirementFailed, match=r"branch main has moved .* snapshots 4, 3"):
        committed(base_of(), replace("main", 1, seen=2))


def test_a_branch_is_replaced_with_such_commits_if_the_caller_says_so():
    assert heads(committed(base_of(), replace("main", 1, seen=None)))["main"] == 1


def test_a_ref_that_is_not_there_is_not_replaced():
    with pytest.raises(RequirementFailed, match="branch gone does not exist"):
        committed(base_of(), replace("gone", 1, seen=None))
    with pytest.raises(InvalidInput, match="eod is a tag, not a branch"):
        committed(base_of(), replace("eod", 1, seen=2))
    with pytest.raises(RequirementFailed, match="snapshot 9 is not in the table"):
        committed(base_of(), replace("audit", 9, seen=5))


def test_a_ref_is_removed_and_its_snapshots_stay():
    base = base_of()
    new = committed(base, remove("audit", 5))
    assert heads(new) == {"main": 4, "eod": 2}
    assert heads(committed(base, remove("eod", 2, "tag"))) == {"main": 4, "audit": 5}
    assert list(new.snapshots) == list(base.snapshots)


def test_a_ref_is_not_removed_with_what_its_caller_has_not_seen():
    with pytest.raises(
        RequirementFailed, match="audit has moved since the table was read, to snapshot 5, with snapshot 5"
    ):
        committed(base_of(), remove("audit", 1))
    assert "audit" not in heads(committed(base_of(), remove("audit", None)))


def test_a_ref_of_the_other_kind_and_a_missing_one_are_not_removed():
    with pytest.raises(InvalidInput, match="audit is a branch, not a tag"):
        committed(base_of(), remove("audit", 5, "tag"))
    with pytest.raises(RequirementFailed, match="tag gone does not exist"):
        committed(base_of(), remove("gone", None, "tag"))


def test_main_is_neither_removed_nor_renamed():
    with pytest.raises(InvalidInput, match="main cannot be removed"):
        remove("main", 4)
    with pytest.raises(InvalidInput, match="main cannot be renamed"):
        RenameBranch(name="main", new_name="old", table_uuid=UUID)


def test_a_renamed_branch_keeps_its_place_and_settings():
    new = committed(base_of(), RenameBranch(name="audit", new_name="checked", table_uuid=UUID))
    assert "audit" not in new.refs
    assert new.ref("checked") == Ref(5, "branch", 3, 4_000, 5_000)


def test_a_branch_is_renamed_wherever_it_is():
    new = committed(base_of(audit=3), RenameBranch(name="audit", new_name="checked", table_uuid=UUID))
    assert heads(new)["checked"] == 3


@pytest.mark.parametrize(
    ("name", "new_name", "error", "message"),
    [
        ("gone", "new", RequirementFailed, "branch gone does not exist"),
        ("audit", "eod", RequirementFailed, "tag eod already exists"),
        ("audit", "audit", RequirementFailed, "branch audit already exists"),
        ("eod", "new", InvalidInput, "eod is a tag, not a branch"),
    ],
)
def test_a_branch_is_not_renamed(name, new_name, error, message):
    with pytest.raises(error, match=message):
        committed(base_of(), RenameBranch(name=name, new_name=new_name, table_uuid=UUID))


def test_two_callers_who_change_different_settings_both_succeed():
    def setting(**retention):
        return SetRetention(name="main", retention=Retention(**retention), table_uuid=UUID)

    base = committed(base_of(), setting(min_snapshots_to_keep=7))
    assert committed(base, setting(max_snapshot_age_ms=8)).ref("main") == Ref(4, "branch", 7, 8)


def test_settings_need_a_ref_of_the_kind_and_a_value():
    with pytest.raises(InvalidInput, match="no setting of branch audit was given"):
        SetRetention(name="audit", retention=Retention(), table_uuid=UUID)
    with pytest.raises(RequirementFailed, match="branch gone does not exist"):
        committed(base_of(), SetRetention(name="gone", retention=Retention(1), table_uuid=UUID))
    with pytest.raises(InvalidInput, match="eod is a tag, not a branch"):
        committed(base_of(), SetRetention(name="eod", retention=Retention(1), table_uuid=UUID))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_branch_is_forwarded_to_a_descendant_and_keeps_its_settings(version):
    base = base_of(version, audit=branch(2, **KEPT))
    new = committed(base, FastForward(branch="audit", to=SeenRef("main", 4), table_uuid=UUID))
    assert new.ref("audit") == Ref(4, "branch", 3, 4_000, 5_000)


def test_a_branch_that_moved_is_forwarded_if_it_is_still_behind():
    change = FastForward(branch="audit", to=SeenRef("main", 4), table_uuid=UUID)
    assert heads(committed(base_of(audit=3), change))["audit"] == 4
    assert heads(committed(base_of(audit=4), change))["audit"] == 4


def test_a_missing_branch_is_made():
    assert heads(committed(base_of(), FastForward(branch="new", to=SeenRef("eod", 2), table_uuid=UUID)))["new"] == 2


def test_a_branch_with_commits_of_its_own_is_not_forwarded():
    with pytest.raises(
        RequirementFailed, match=r"audit does not descend from main: its history lacks snapshots 4, 3, 2"
    ) as caught:
        committed(base_of(), FastForward(branch="main", to=SeenRef("audit", 5), table_uuid=UUID))
    assert (caught.value.name, caught.value.rests_on) == (FAST_FORWARD, {2, 3, 4})


def test_a_branch_is_not_forwarded_to_commits_that_its_caller_has_not_seen():
    with pytest.raises(RequirementFailed, match=r"branch main has moved .* with snapshot 4"):
        committed(base_of(audit=2), FastForward(branch="audit", to=SeenRef("main", 3), table_uuid=UUID))


def test_a_tag_is_not_forwarded():
    with pytest.raises(InvalidInput, match="eod is a tag, not a branch"):
        committed(base_of(), FastForward(branch="eod", to=SeenRef("main", 4), table_uuid=UUID))
