"""Moving main: back, to any snapshot, and forward again."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.snapshots.ref_change import SeenRef
from iceberg_hms.changes.operations.snapshots.rollback import (
    ANCESTOR,
    OLDER_SNAPSHOT,
    RollBack,
    RollBackToTimestamp,
    SetCurrentSnapshot,
)
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.metadata.snapshot import Ref
from tests.changes.operations.histories import committed, history, tag
from tests.changes.tables import UUID, branch

#: 1 <- 2 <- 3 <- 4, and 1 <- 5. Snapshot 3 was made at 3,000 ms.
PARENTS = {1: None, 2: 1, 3: 2, 4: 3, 5: 1}


def base_of(main=4, version=2):
    return history(PARENTS, {"main": main, "eod": tag(2)}, version)


def at(seen):
    return None if seen is None else SeenRef("main", seen)


def to_snapshot(id_, seen=4):
    return RollBack(snapshot_id=id_, seen=at(seen), table_uuid=UUID)


def to_time(timestamp_ms, seen=4):
    return RollBackToTimestamp(timestamp_ms=timestamp_ms, seen=at(seen), table_uuid=UUID)


def current(target, seen=4):
    return SetCurrentSnapshot(target=target, seen=at(seen), table_uuid=UUID)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_main_goes_back_to_an_ancestor_and_the_log_says_when(version):
    base = base_of(version=version)
    new = committed(base, to_snapshot(2), now_ms=60_000)
    assert (new.current_snapshot_id, new.ref("main")) == (2, Ref(2))
    assert list(new.snapshot_log) == [*base.snapshot_log, {"timestamp-ms": 60_000, "snapshot-id": 2}]
    assert list(new.snapshots) == list(base.snapshots)
    assert new.last_sequence_number == base.last_sequence_number


def test_main_keeps_its_settings():
    base = history(PARENTS, {"main": branch(4, **{"min-snapshots-to-keep": 3})})
    assert committed(base, to_snapshot(2)).ref("main") == Ref(2, "branch", 3)


def test_a_rollback_to_where_main_is_changes_nothing():
    base = base_of()
    assert committed(base, to_snapshot(4)) is base


def test_a_snapshot_outside_of_the_history_of_main_is_refused():
    with pytest.raises(RequirementFailed, match="snapshot 5 is not in the history of main, which is at 4") as caught:
        committed(base_of(), to_snapshot(5))
    assert caught.value.name == ANCESTOR
    with pytest.raises(RequirementFailed, match="snapshot 9 is not in the table"):
        committed(base_of(), to_snapshot(9))


@pytest.mark.parametrize("change", [to_snapshot(1, seen=2), to_time(1_500, seen=2), current(1, seen=2)])
def test_commits_that_the_caller_has_not_seen_are_not_lost(change):
    with pytest.raises(RequirementFailed, match=r"branch main has moved .* with snapshots 4, 3"):
        committed(base_of(), change)


@pytest.mark.parametrize("change", [to_snapshot(1, seen=None), to_time(1_500, seen=None), current(1, seen=None)])
def test_they_go_too_if_the_caller_says_so(change):
    assert committed(base_of(), change).current_snapshot_id == 1


def test_a_rollback_behind_another_one_is_refused():
    with pytest.raises(
        RequirementFailed, match="branch main has moved since the table was read, to snapshot 3"
    ) as caught:
        committed(base_of(main=3), to_snapshot(2))
    assert caught.value.rests_on == {3}


@pytest.mark.parametrize(("timestamp_ms", "found"), [(1_001, 1), (3_000, 2), (3_001, 3), (99_999, 4)])
def test_main_goes_back_to_its_latest_ancestor_before_a_time(timestamp_ms, found):
    assert committed(base_of(), to_time(timestamp_ms)).current_snapshot_id == found


def test_the_time_is_that_of_ancestors_alone():
    # 5 is the latest before 5,500, but 4 is the one in main's history.
    assert committed(base_of(), to_time(5_500)).current_snapshot_id == 4


def test_ancestors_may_have_timestamps_out_of_order():
    base = history({1: None, 6: 1, 4: 6}, {"main": 4})
    assert committed(base, to_time(5_000)).current_snapshot_id == 4
    assert committed(base, to_time(4_000)).current_snapshot_id == 1
    assert committed(base, to_time(7_000)).current_snapshot_id == 6


def test_a_time_before_all_ancestors_is_refused():
    with pytest.raises(RequirementFailed, match="no snapshot older than 1000") as caught:
        committed(base_of(), to_time(1_000))
    assert (caught.value.name, caught.value.found) == (OLDER_SNAPSHOT, 1_000)


def test_main_goes_to_any_snapshot_and_forward_again():
    back = committed(base_of(), to_snapshot(1))
    assert committed(back, current(4, seen=1)).current_snapshot_id == 4
    assert committed(base_of(), current(5)).current_snapshot_id == 5
    assert committed(base_of(), current(SeenRef("eod", 2))).current_snapshot_id == 2


def test_main_does_not_go_to_a_snapshot_or_ref_that_is_not_there():
    with pytest.raises(RequirementFailed, match="snapshot 9 is not in the table"):
        committed(base_of(), current(9))
    with pytest.raises(RequirementFailed, match="tag eod has moved"):
        committed(base_of(), current(SeenRef("eod", 1)))


def test_a_table_without_current_snapshot_has_nothing_to_go_back_from_but_may_get_one():
    base = history({1: None}, {})
    for change in (to_snapshot(1, None), to_time(9_999, None)):
        with pytest.raises(RequirementFailed, match="main does not exist"):
            committed(base, change)
    assert committed(base, current(1, seen=None)).current_snapshot_id == 1
    assert (
        committed(base, SetCurrentSnapshot(target=1, seen=SeenRef("main", None), table_uuid=UUID)).current_snapshot_id
        == 1
    )
