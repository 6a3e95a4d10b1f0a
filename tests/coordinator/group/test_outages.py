"""A metastore that is away before anything was sent: the group waits for it, as long as its callers do."""

import threading

import pytest

from iceberg_hms.clock import LONGEST_AWAY_SECONDS
from iceberg_hms.coordinator.group.outages import REMEMBERED_MAX, Outages
from iceberg_hms.coordinator.ports import Refused, TableName, Unanswered
from iceberg_hms.errors import (
    CommitStateUnknown,
    CompareAndSwapUnproven,
    LockNotAcquired,
    MetastoreRefused,
    MetastoreUnavailable,
    ProvedFailure,
    RequirementFailed,
)
from tests.coordinator.harness import NAME, Harness, append, set_properties
from tests.polling import eventually

GONE = MetastoreUnavailable("no server answers")


@pytest.fixture
def harness():
    made = Harness()
    made.create()
    return made


@pytest.mark.parametrize("where", ["load", "lock", "reload", "swap"])
def test_a_commit_that_was_not_sent_lands_once_the_metastore_is_back(harness, where, monkeypatch, caplog):
    swap, calls = harness.pointer.swap, []
    match where:
        case "load":
            harness.pointer.load_errors += [GONE] * 5
        case "lock":
            harness.lock.errors += [GONE] * 5
        case "reload":
            acquire = harness.lock.acquire

            def acquire_and_fail(*arguments, **options):
                held = acquire(*arguments, **options)
                if len(calls) < 5:
                    calls.append("load")
                    harness.pointer.load_errors.append(GONE)
                return held

            harness.lock.acquire = acquire_and_fail
        case "swap":

            def not_sent(*arguments, **options):
                calls.append("swap")
                if len(calls) < 5:
                    raise GONE
                return swap(*arguments, **options)

            harness.pointer.swap = not_sent
    files = harness.metadata_files()
    report = harness.commit(append("file:/a"))
    assert harness.data_files() == ["file:/a"]
    assert harness.metadata_files() == {*files, report.metadata_location}, "failed tries leave nothing behind"
    assert not harness.lock.queues.entries(NAME)
    held = [message for message in caplog.messages if "are held" in message]
    assert len(held) == 1, "once, however often it was tried"


def test_the_waits_between_tries_grow_and_are_bounded(harness):
    harness.pointer.load_errors += [GONE] * 12
    harness.commit(append("file:/a"))
    waits = harness.runtime.slept[-12:]
    assert waits[0] <= 0.05
    assert waits[-1] >= LONGEST_AWAY_SECONDS / 2
    assert max(waits) <= LONGEST_AWAY_SECONDS


def test_a_commit_whose_time_is_over_has_failed_for_the_outage(harness):
    away(harness)
    with pytest.raises(MetastoreUnavailable, match=r"was away for \d+ s.*not sent: no server answers") as failure:
        harness.commit(append("file:/a"), wait_seconds=3.0)
    assert isinstance(failure.value, ProvedFailure)
    assert sum(harness.runtime.slept) >= 2.5
    harness.pointer.load = type(harness.pointer).load.__get__(harness.pointer)
    harness.commit(append("file:/b"))
    assert harness.data_files() == ["file:/b"]


def test_a_caller_that_leaves_meanwhile_learns_of_the_outage_without_another_look(harness):
    reached, go = threading.Event(), threading.Event()
    calls = []

    def load(name):
        calls.append(name)
        if len(calls) > 1:
            reached.set()
            assert go.wait(30)
        raise GONE

    load_as_ever, harness.pointer.load = harness.pointer.load, load
    first = harness.coordinator.submit(NAME, append("file:/a"), wait_seconds=30)
    assert reached.wait(30)
    behind = harness.coordinator.submit(NAME, append("file:/b"), wait_seconds=30)
    other = harness.coordinator.submit(TableName("db", "in-line"), append("file:/c"), wait_seconds=30)
    for commit in (first, behind):
        assert commit.withdraw()
        with pytest.raises(MetastoreUnavailable) as failure:
            commit.result()
        assert isinstance(failure.value, ProvedFailure)
    assert len([name for name in calls if name == NAME]) == 2
    other.withdraw()
    harness.pointer.load = load_as_ever
    go.set()
    harness.runtime.join()
    assert harness.data_files() == []


def test_a_commit_that_may_have_been_sent_before_is_unknown_when_its_second_send_is_held(harness):
    """The first send's swap is not answered; nobody may say "failed" of the second."""
    change = append("file:/a", snapshot_id=42)
    swap = harness.pointer.swap

    def unanswered(*arguments, **options):
        away(harness)
        return Unanswered(GONE, atomic=True)

    harness.pointer.swap = unanswered
    with pytest.raises(CommitStateUnknown):
        harness.commit(change, wait_seconds=3.0)
    harness.pointer.swap = swap
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/a", snapshot_id=42), wait_seconds=3.0)


def test_a_commit_that_was_sent_twice_while_held_lands_once(harness):
    away(harness)
    both = [harness.coordinator.submit(NAME, append("file:/a", snapshot_id=42), wait_seconds=30) for _ in range(2)]
    load = type(harness.pointer).load.__get__(harness.pointer)
    harness.pointer.load = load
    reports = [commit.wait() for commit in both]
    harness.runtime.join()
    assert {report.snapshot_ids for report in reports} == {(42,)}
    assert harness.data_files() == ["file:/a"]


class RefusedOnce:
    """A change that the table refuses before another writer moves it, and not afterwards."""

    def __init__(self, change):
        self.change, self.identity, self.checks = change, change.identity, 0

    def check(self, base):
        self.checks += 1
        if self.checks == 1:
            raise RequirementFailed("assert-created", "it is not there yet")
        return self.change.check(base)

    def stage(self, base, manifests):
        return self.change.stage(base, manifests)


def test_each_commit_of_a_held_group_is_judged_on_the_table_as_it_is_afterwards(harness):
    """One is refused while the lock is asked for, and nobody has heard of that when the group is held."""
    acquire, held = harness.lock.acquire, []

    def acquire_and_fail(*arguments, **options):
        held.append(acquire(*arguments, **options))
        harness.pointer.load_errors += [GONE] * (len(held) == 1)
        return held[-1]

    harness.lock.acquire = acquire_and_fail
    commits = harness.members(append("file:/a"), RefusedOnce(set_properties(a="b")))
    harness.group(*commits)
    assert [commit.result().group_size for commit in commits] == [2, 2]
    assert harness.metadata().properties["a"] == "b"


def test_a_group_of_which_something_was_sent_is_not_begun_again(harness):
    """Refused twice, it is sent in halves. The first lands, and the metastore is away before the second is sent."""
    swap, sent = harness.pointer.swap, []

    def refuse_then_go_away(*arguments, **options):
        sent.append(arguments)
        if len(sent) < 3:
            return Refused(False, MetastoreRefused("a value is too long"))
        answer = swap(*arguments, **options)
        away(harness)
        return answer

    harness.pointer.swap = refuse_then_go_away
    harness.pointer.accepts_writes = lambda name: True
    began = harness.runtime.now()
    commits = harness.members(set_properties(a="b"), set_properties(c="d"))
    harness.group(*commits)
    assert len(sent) == 3
    assert harness.runtime.now() - began < 20.0
    assert commits[0].result().group_size == 1
    with pytest.raises(MetastoreUnavailable):
        commits[1].result()


@pytest.mark.parametrize("then", ["it waits for the lock", "the outage is long ago"])
def test_a_commit_that_times_out_after_an_outage_does_so_for_its_own_reason(harness, then):
    reached, go = threading.Event(), threading.Event()
    load = harness.pointer.load

    def wait_in_load(name):
        if not reached.is_set():
            reached.set()
            assert go.wait(30)
        return load(name)

    if then == "it waits for the lock":
        held = harness.lock.acquire(NAME, wait_seconds=0, request="foreign")
        harness.pointer.load_errors.append(GONE)
    else:
        away(harness)
        with pytest.raises(MetastoreUnavailable):
            harness.commit(append("file:/a"), wait_seconds=1.0)
        harness.runtime.skipped += 6.0
        harness.pointer.load = wait_in_load
    commit = harness.coordinator.submit(NAME, append("file:/b"), wait_seconds=3_600)
    if then == "it waits for the lock":
        assert eventually(lambda: len(harness.lock.queues.entries(NAME)) == 2)
    else:
        assert reached.wait(30)
    try:
        assert commit.withdraw()
        with pytest.raises(LockNotAcquired):
            commit.result()
    finally:
        go.set()
        if then == "it waits for the lock":
            held.release()
        harness.runtime.join()


@pytest.mark.parametrize("error", [CompareAndSwapUnproven("not proven"), LockNotAcquired("late")])
def test_what_does_not_pass_is_not_waited_for(harness, error):
    harness.lock.errors.append(error)
    with pytest.raises(type(error)):
        harness.commit(append("file:/a"))


def test_nothing_is_held_once_the_coordinator_is_closed(harness):
    away(harness)
    commit = harness.coordinator.submit(NAME, append("file:/a"), wait_seconds=3_600)
    harness.coordinator.close()
    harness.runtime.join()
    with pytest.raises(MetastoreUnavailable):
        commit.result()
    assert harness.runtime.now() - commit.started < 600


def test_an_outage_is_forgotten_when_the_table_was_found_and_soon_after_its_last_group(harness):
    outages, (commit,) = Outages(harness.runtime), harness.members(append("file:/a"))
    other = TableName("db", "other")
    hold = outages.begin(NAME)
    hold.wait(GONE, [commit])
    assert outages.away(NAME, has_turn=True) is GONE
    assert outages.away(other, has_turn=True) is None
    assert outages.away(other, has_turn=False) is GONE, "it may wait for the thread of the table that is held"
    hold.found()
    assert outages.away(NAME, has_turn=True) is None
    hold.wait(GONE, [commit])
    hold.ended()
    assert outages.away(NAME, has_turn=True) is not None
    harness.runtime.skipped += 6.0
    assert outages.away(NAME, has_turn=True) is None
    assert outages.away(other, has_turn=False) is None


def test_the_outages_that_are_remembered_are_bounded(harness):
    outages = Outages(harness.runtime)
    for number in range(REMEMBERED_MAX + 1):
        outages.note(TableName("db", f"t{number}"), GONE, float("inf"))
    assert outages.away(TableName("db", "t0"), has_turn=True) is None
    assert outages.away(TableName("db", "t1"), has_turn=True) is GONE


def away(harness):
    """No load is answered from now on."""

    def load(name):
        raise GONE

    harness.pointer.load = load
