"""A store that hangs holds its table no longer than somebody waits for the commit."""

import logging
import threading

import pytest

from iceberg_hms.coordinator.group import group_lock
from iceberg_hms.coordinator.group.group_lock import GroupLock
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.outcome import Unknown
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.errors import CommitFailed, CommitStateUnknown, LockNotAcquired
from tests.coordinator.harness import NAME, append, set_properties


class HungStore:
    """The next write of a metadata file waits until the store comes back; all others go through."""

    def __init__(self, harness, method="write"):
        self.hangs, self.back = threading.Event(), threading.Event()
        work = getattr(harness.files, method)

        def wait(*args, **kwargs):
            setattr(harness.files, method, work)
            self.hangs.set()
            assert self.back.wait(30)
            return work(*args, **kwargs)

        setattr(harness.files, method, wait)


class Released(logging.Handler):
    """Counts the locks that were released since nobody was left."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def emit(self, record):
        self.count += "so its lock is released" in record.getMessage()


@pytest.fixture
def released():
    handler = Released()
    group_lock.logger.addHandler(handler)
    yield handler
    group_lock.logger.removeHandler(handler)


def sent(harness):
    """The metadata locations that swaps carry from now on."""
    locations, swap = [], harness.pointer.swap

    def watched(base, location, *args, **kwargs):
        locations.append(location)
        return swap(base, location, *args, **kwargs)

    harness.pointer.swap = watched
    return locations


@pytest.mark.parametrize("lease_seconds", [300.0, 15.0], ids=["ordinary lease", "short lease"])
def test_another_writer_gets_the_table_and_the_holder_sends_nothing(harness, released, lease_seconds):
    harness.lock.short_lease_seconds = lease_seconds
    another, swaps, store = harness.another(), sent(harness), HungStore(harness)
    before = harness.metadata_files()
    with pytest.raises(LockNotAcquired, match="did not get its turn"):
        harness.coordinator.commit(NAME, append("file:/hung"), wait_seconds=0.05)
    assert store.hangs.is_set()
    report = another.commit(NAME, append("file:/other"), wait_seconds=20)
    assert swaps == [report.metadata_location]
    store.back.set()
    harness.runtime.join()
    assert swaps == [report.metadata_location]
    assert harness.data_files() == ["file:/other"]
    assert harness.metadata_files() == {*before, report.metadata_location}, "what was written for nobody is deleted"
    assert not harness.lock.queues.entries(NAME)
    assert harness.commit(append("file:/next")).group_size == 1


def test_a_group_that_somebody_waits_for_keeps_its_lock(harness, released):
    store = HungStore(harness)
    stays = harness.coordinator.submit(NAME, append("file:/stays"), wait_seconds=30)
    assert store.hangs.wait(30)
    leaves = harness.coordinator.submit(NAME, append("file:/leaves"), wait_seconds=30)
    assert leaves.withdraw()
    store.back.set()
    stays.wait()
    harness.runtime.join()
    assert released.count == 0
    assert harness.data_files() == ["file:/stays"]


def test_later_commits_say_what_holds_them_up(harness):
    store = HungStore(harness)
    for number in range(2):
        with pytest.raises(LockNotAcquired) as late:
            harness.coordinator.commit(NAME, append(f"file:/{number}"), wait_seconds=0.05)
    assert "a group of db.t has been under way for 0 s, and nobody waits for it any more" in str(late.value)
    assert "look whether the store" in str(late.value)
    store.back.set()
    harness.runtime.join()
    kept = harness.coordinator.submit(NAME, append("file:/2"), wait_seconds=30)
    assert kept.wait().group_size == 1


class Lock:
    def __init__(self):
        self.released = threading.Event()
        self.release = self.released.set


@pytest.fixture
def members(harness):
    return harness.members(set_properties(a="1"), set_properties(a="2"))


def test_the_last_caller_that_leaves_releases_the_lock(harness, members, released):
    guard, lock = GroupLock(harness.runtime, NAME, members, []), Lock()
    guard.took(lock)
    assert members[0].withdraw()
    assert released.count == 0
    assert members[1].withdraw()
    assert lock.released.wait(30)
    assert members[1].withdraw()
    assert released.count == 1


def test_one_who_has_an_answer_waits_no_more(harness, members):
    guard, lock = GroupLock(harness.runtime, NAME, members, []), Lock()
    guard.took(lock)
    members[0].settle(Unknown(CommitStateUnknown("perhaps")))
    assert members[1].withdraw()
    assert lock.released.wait(30)


def test_a_lock_that_comes_when_all_have_left_is_released_at_once(harness, members):
    guard, lock = GroupLock(harness.runtime, NAME, members, []), Lock()
    for member in members:
        assert member.withdraw()
    guard.took(lock)
    assert lock.released.wait(30)


def test_the_lock_stays_while_a_swap_without_callers_is_under_way(harness, members, released):
    """a part of the group was sent and is overdue | the callers of the other part leave"""
    swap = SentSwap(NAME, "file:/base")
    guard, lock = GroupLock(harness.runtime, NAME, members, [swap]), Lock()
    guard.took(lock)
    assert members[0].take(swap)
    members[0].settle(Unknown(CommitStateUnknown("overdue")))
    assert members[1].withdraw()
    assert released.count == 0
    swap.status = CommitStatus.FAILURE
    guard.took(lock)
    assert lock.released.wait(30)


def test_without_a_thread_the_lock_stays(harness, members, caplog):
    def none(*_, **__):
        raise CommitFailed("no thread")

    harness.runtime.spawn = none
    guard = GroupLock(harness.runtime, NAME, members, [])
    guard.took(Lock())
    assert all(member.withdraw() for member in members)
    assert "releasing the lock of db.t, which nobody waits for failed" in caplog.text
