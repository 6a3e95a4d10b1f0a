"""Unanswered swaps and operations that only their lock protects: what callers get, and what becomes of the lock."""

from __future__ import annotations

import threading

import pytest

from iceberg_hms.coordinator.ports import Refused, Sending, Swapped, TableName, Unanswered
from iceberg_hms.errors import CommitStateUnknown, LockNotAcquired, MetastoreRefused, MetastoreUnavailable, NoSuchTable
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.harness import NAME, append, set_properties
from tests.coordinator.resends import MINE, add, sent, with_files

OTHER = TableName("db", "u")
GONE = Unanswered(MetastoreUnavailable("gone"), waited_seconds=600.0)


class SlowMetastore:
    """The next call of a method says that it is overdue, waits for `go`, and then answers `answer`; the true
    answer if that is None."""

    def __init__(self, harness, method, answer=None):
        self.waits, self.go = threading.Event(), threading.Event()
        move = getattr(harness.pointer, method)

        def wait(*args, **options):
            setattr(harness.pointer, method, move)
            args[-1].overdue()
            self.waits.set()
            assert self.go.wait(30)
            return answer or move(*args, **options)

        setattr(harness.pointer, method, wait)


def held(harness):
    return len(harness.lock.queues.entries(NAME))


def told(harness):
    return [event["event"] for event in harness.events]


def commit(harness, change, wait_seconds=30.0):
    return harness.coordinator.commit(NAME, change, wait_seconds=wait_seconds)


def test_callers_get_unknown_while_the_lock_is_kept_and_the_outcome_is_published(harness):
    slow = SlowMetastore(harness, "swap")
    with pytest.raises(CommitStateUnknown, match="has not answered yet"):
        commit(harness, append("file:/a", snapshot_id=42))
    assert held(harness) == 1
    assert told(harness) == ["committed", "overdue"]
    slow.go.set()
    harness.runtime.join()
    assert held(harness) == 0
    assert told(harness) == ["committed", "overdue", "committed"]
    assert harness.data_files() == ["file:/a"]
    assert harness.commit(append("file:/a", snapshot_id=42)).already_committed


def test_the_next_commit_waits_for_an_overdue_swap_and_builds_on_it(harness):
    slow = SlowMetastore(harness, "swap")
    with pytest.raises(CommitStateUnknown):
        commit(harness, append("file:/a"))
    with pytest.raises(LockNotAcquired, match="did not get its turn"):
        commit(harness, append("file:/b"), wait_seconds=0.05)
    threading.Timer(0.05, slow.go.set).start()
    harness.commit(append("file:/c"))
    assert harness.data_files() == ["file:/a", "file:/c"]


def test_a_change_that_is_refused_beside_an_overdue_swap_is_answered_at_once(harness):
    slow = SlowMetastore(harness, "swap")
    wrong = set_properties({"type": "assert-table-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}, a="b")
    members = harness.members(append("file:/a"), wrong)
    group = threading.Thread(target=harness.group, args=members)
    group.start()
    assert slow.waits.wait(30)
    with pytest.raises(CommitStateUnknown):
        members[0].wait()
    with pytest.raises(Exception, match="UUID") as caught:
        members[1].wait()
    assert caught.value.proved_failed
    slow.go.set()
    group.join()


def test_an_overdue_swap_that_is_refused_is_not_sent_again_without_its_caller(harness):
    slow = SlowMetastore(harness, "swap", Refused(True, MetastoreRefused("The table has been modified")))
    with pytest.raises(CommitStateUnknown):
        commit(harness, append("file:/a"))
    slow.go.set()
    harness.runtime.join()
    assert held(harness) == 0
    assert harness.data_files() == []
    assert [call for call, _ in harness.pointer.calls].count("swap") == 0, "it was made by the slow metastore alone"


def test_a_lock_whose_swap_may_still_be_made_is_not_released(harness):
    slow = SlowMetastore(harness, "swap", GONE)
    files = harness.metadata_files()
    with pytest.raises(CommitStateUnknown):
        commit(harness, append("file:/a"))
    slow.go.set()
    harness.runtime.join()
    assert held(harness) == 1
    assert told(harness) == ["committed", "overdue", "lock-left-to-expire"]
    assert harness.metadata_files() > files, "nothing is deleted that the swap names"


def test_nothing_more_is_sent_for_a_lease_even_if_the_lock_is_gone(harness):
    slow = SlowMetastore(harness, "swap", GONE)
    with pytest.raises(CommitStateUnknown):
        commit(harness, append("file:/a"))
    slow.go.set()
    harness.runtime.join()
    harness.lock.queues.reap(NAME)
    swaps = len(harness.pointer.calls)
    with pytest.raises(LockNotAcquired, match="nothing was sent"):
        harness.commit(append("file:/b"), wait_seconds=0.05)
    assert [call for call, _ in harness.pointer.calls[swaps:] if call != "load"] == []
    harness.runtime.skipped += harness.lock.short_lease_seconds
    harness.commit(append("file:/c"), wait_seconds=5)
    assert harness.data_files() == ["file:/c"]


MOVES = {
    "rename": lambda moves, _: moves.rename(NAME, OTHER, wait_seconds=1),
    "drop": lambda moves, _: moves.drop(NAME, wait_seconds=1),
    "swap": lambda moves, location: moves.register(NAME, location, overwrite=True, wait_seconds=1),
}


@pytest.mark.parametrize("method", MOVES)
def test_the_caller_of_an_overdue_operation_leaves_and_the_operation_goes_on_under_its_lock(harness, method):
    slow = SlowMetastore(harness, method)
    before = dict(harness.pointer.rows)
    with pytest.raises(CommitStateUnknown, match="has not answered yet"):
        MOVES[method](harness.coordinator.operations, harness.location())
    assert held(harness) == 1
    slow.go.set()
    harness.runtime.join()
    assert held(harness) == 0
    assert harness.pointer.rows != before


@pytest.mark.parametrize("method", MOVES)
def test_the_locks_of_an_operation_that_may_still_be_made_are_left_to_expire(harness, method):
    slow = SlowMetastore(harness, method, GONE)
    with pytest.raises(CommitStateUnknown):
        MOVES[method](harness.coordinator.operations, harness.location())
    slow.go.set()
    harness.runtime.join()
    assert held(harness) == 1
    assert told(harness) == ["committed", "overdue", "lock-left-to-expire"]
    if method == "rename":
        assert len(harness.lock.queues.entries(OTHER)) == 1


def test_no_rename_undoes_later_ones_when_it_arrives_late(harness):
    """rename t to u: under way | u back to t would be acknowledged, and undone when the first arrives"""
    harness.pointer.answers.append(ScriptedAnswer.DELAYED)
    with pytest.raises(CommitStateUnknown):
        harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    with pytest.raises(LockNotAcquired):
        harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)


def test_an_operation_that_is_answered_in_time_returns_to_its_caller(harness):
    assert harness.pointer.rename(harness.pointer.load(NAME), OTHER, Sending()) == Swapped()
    harness.coordinator.operations.rename(OTHER, NAME, wait_seconds=1)
    base = harness.coordinator.operations.drop(NAME, wait_seconds=1)
    assert base is not None
    assert told(harness) == ["committed"]


def test_an_operation_is_made_without_a_thread_of_its_own_if_there_is_none(harness):
    """the interpreter is shutting down, or the process has as many as it may"""

    def spawn(*_, **__):
        raise RuntimeError("can't start new thread")

    harness.runtime.spawn = spawn
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    assert harness.pointer.load(OTHER)
    with pytest.raises(NoSuchTable):
        harness.coordinator.operations.drop(NAME, wait_seconds=1)
    assert harness.coordinator.operations.drop(OTHER, wait_seconds=1) is not None


@pytest.mark.parametrize("overdue", [True, False])
def test_a_list_that_ours_replaced_stays_for_a_client_that_heard_unknown(harness, overdue):
    base = with_files(harness, "a")
    mine = sent(harness, base, "plain")
    add(harness, 2, "b")
    [commit] = harness.members(mine)
    begun = harness.begin_group(commit)
    slow = SlowMetastore(harness, "swap") if overdue else None
    group = threading.Thread(target=begun.commit)
    group.start()
    if slow is not None:
        with pytest.raises(CommitStateUnknown):
            commit.wait()
        slow.go.set()
    group.join()
    assert bool(begun.landed[0].replaced_lists) is not overdue
    assert harness.metadata().snapshot_by_id(MINE)
