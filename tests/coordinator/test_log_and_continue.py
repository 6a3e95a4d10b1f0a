"""An exception that no port names harms no caller, and stops no later commit to the table.

Each test lets one port raise, at one of the places that a queue's worker passes between two groups.
"""

import asyncio
import dataclasses
import logging
import threading

import pytest

from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.coordinator.log_and_continue import log_and_continue
from iceberg_hms.coordinator.ports import Refused
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.errors import (
    CommitFailed,
    CommitStateUnknown,
    LockNotAcquired,
    MetastoreRefused,
    QueueFull,
    RequirementFailed,
)
from tests.coordinator.harness import NAME, Harness, append, set_properties
from tests.coordinator.test_coordinator import Gate, StagedChange, queued_behind_a_gate, rest_delete


def raising(error, times=None):
    """Wrap a function so that its first `times` calls raise; all of them if that is None."""
    left = [times]

    def raises(*_, **__):
        raise error

    def wrapped(then):
        def function(*args, **kwargs):
            if left[0] is None or left[0] > 0:
                left[0] = left[0] and left[0] - 1
                return raises()
            return then(*args, **kwargs)

        return function

    return wrapped


def committed(harness):
    return [event["report"].snapshot_ids for event in harness.events if event["event"] == "committed"]


def still_commits(harness):
    return harness.commit(append("file:/last"), wait_seconds=5.0).group_size == 1


def test_a_failure_is_logged_with_what_to_do_and_an_interrupt_is_none(caplog):
    with log_and_continue("the sweep of db.t", "nothing"):
        raise ValueError("broken")
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.ERROR, "the sweep of db.t failed, and the queue goes on; what to do: nothing")
    ]
    assert "ValueError: broken" in caplog.text
    with pytest.raises(KeyboardInterrupt), log_and_continue("x", "y"):
        raise KeyboardInterrupt


def test_files_that_cannot_be_deleted(harness):
    harness.files.delete = raising(ValueError("what no port names"))(None)
    harness.pointer.before_moves.append(lambda: harness.foreign_commit(moved="yes"))
    harness.commit(append("file:/a", snapshot_id=1))
    assert committed(harness)[-1:] == [(1,)], "what the commit came to is published all the same"
    assert still_commits(harness)


def test_events_that_cannot_be_published(harness):
    publish = harness.publish

    def none_of_the_second(event):
        if event["report"].snapshot_ids == (2,):
            raise MemoryError
        publish(event)

    harness.publish = none_of_the_second
    changes = [append(f"file:/{number}", snapshot_id=number) for number in (1, 2, 3)]
    gate = Gate(harness)
    coordinator = harness.coordinator
    members = [coordinator.submit(NAME, changes[0], wait_seconds=30)]
    assert gate.reached.wait(30)
    members += [coordinator.submit(NAME, change, wait_seconds=30) for change in changes[1:]]
    gate.open.set()
    assert [member.wait().group_size for member in members] == [1, 2, 2]
    harness.runtime.join()
    assert committed(harness)[-2:] == [(1,), (3,)]
    assert still_commits(harness)


def test_a_listener_of_one_caller_that_raises_keeps_no_other_from_its_answer(harness):
    gate = Gate(harness)
    first = harness.coordinator.submit(NAME, append("file:/0"), wait_seconds=30)
    assert gate.reached.wait(30)
    members = [harness.coordinator.submit(NAME, append(f"file:/{n}"), wait_seconds=30) for n in (1, 2)]
    members[0].when_settled(raising(MemoryError())(None))
    heard = []
    members[1].when_settled(lambda: heard.append(members[1].result().group_size))
    gate.open.set()
    first.wait()
    harness.runtime.join()
    assert heard == [2]
    assert members[0].result().group_size == 2
    assert still_commits(harness)


def test_a_lock_that_cannot_be_given_back(harness):
    acquire = harness.lock.acquire

    def stubborn(name, **kwargs):
        held = acquire(name, **kwargs)
        release = held.release
        held.release = lambda: (release(), raising(ValueError("what no port names"))(None)())
        return held

    harness.lock.acquire = stubborn
    results = queued_behind_a_gate(harness, append("file:/0"), [append("file:/1"), append("file:/2")])
    assert [result.group_size for result in results] == [1, 2, 2]
    assert still_commits(harness)


@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
def test_a_wait_for_a_commit_with_priority_that_fails(times):
    """a commit is refused | others wait for it; there is no memory for the event on which they wait"""
    harness = Harness(retry_priority_max_wait_ms=60_000)
    harness.create()
    harness.commit(append("file:/0"))
    seen = harness.metadata().current_snapshot
    harness.commit(append("file:/1"))
    with pytest.raises(RequirementFailed):
        harness.commit(rest_delete(7, seen))
    # The first event is the caller's own.
    made, event = [], harness.runtime.event
    cannot = raising(MemoryError(), times)(event)
    harness.runtime.event = lambda: made.append(1) or (event() if len(made) == 1 else cannot())
    if times:
        assert harness.commit(append("file:/2"), wait_seconds=5.0).group_size == 1
        assert harness.data_files() == ["file:/0", "file:/1", "file:/2"]
    else:
        harness.commit(append("file:/2"), wait_seconds=5.0)
    harness.runtime.event = event
    assert still_commits(harness)


class Unreadable:
    """An identity that cannot be read."""

    @property
    def snapshot_ids(self):
        raise MemoryError


def test_a_worker_that_cannot_go_on_refuses_every_waiting_commit(harness):
    """No commit can be taken from the queue, not even without retry priority."""
    gate = Gate(harness)
    first = harness.coordinator.submit(NAME, append("file:/0"), wait_seconds=30)
    assert gate.reached.wait(30)
    waiting = [harness.coordinator.submit(NAME, append(f"file:/{number}"), wait_seconds=30) for number in (1, 2)]
    waiting[0].identity = Unreadable()
    gate.open.set()
    assert first.wait().group_size == 1
    harness.runtime.join()
    for member in waiting:
        with pytest.raises(QueueFull, match="MemoryError") as refused:
            member.wait()
        assert refused.value.proved_failed
    assert still_commits(harness)


def test_a_retry_priority_wait_that_cannot_be_published():
    harness = Harness(retry_priority_max_wait_ms=30)
    harness.create()
    harness.commit(append("file:/0"))
    seen = harness.metadata().current_snapshot
    harness.commit(append("file:/1"))
    with pytest.raises(RequirementFailed):
        harness.commit(rest_delete(7, seen))
    publish = harness.publish

    def no_waits(event):
        if event["event"] == "retry-priority-wait":
            raise ValueError("what no port names")
        publish(event)

    harness.publish = no_waits
    assert harness.commit(append("file:/2"), wait_seconds=5.0).group_size == 1
    assert still_commits(harness)


def test_a_failed_sweep_of_replaced_lists_does_not_skip_the_check_for_foreign_writers(monkeypatch):
    """a rebased snapshot gets another list, and the metastore says what no port names when its own is to be deleted"""
    harness = Harness(replaced_list_age_ms=1, foreign_writer_check_interval_ms=1)
    harness.create()
    replaced, swept, asked = "file:/wh/db/t/metadata/replaced.avro", [], []

    class Rebased:
        def __init__(self, inner):
            self.inner = inner
            self.identity = inner.identity
            self.check = inner.check

        def stage(self, base, manifests):
            return dataclasses.replace(self.inner.stage(base, manifests), replaced=[replaced])

    def find_by_folder(*_, **__):
        swept.append(replaced)
        raise ValueError("what no port names")

    monkeypatch.setattr(harness.pointer, "find_by_folder", find_by_folder)
    harness.replace_ports(foreign_writer_waits=lambda name: bool(asked.append(name)))
    harness.commit(Rebased(append("file:/0")))
    harness.runtime.skipped += 1.0
    asked.clear()
    harness.commit(append("file:/2"))
    assert swept == [replaced]
    assert asked == [NAME]
    assert still_commits(harness)


def test_a_wait_for_returning_callers_that_fails_stops_no_commit(harness):
    waited = []

    class Broken(type(harness.runtime.event())):
        def wait(self, timeout=None):
            waited.append(timeout)
            if timeout == harness.settings.batching_window_ms / 1000:
                raise MemoryError
            return super().wait(timeout)

    harness.runtime.event = Broken
    results = queued_behind_a_gate(harness, append("file:/0"), [append(f"file:/{n}") for n in (1, 2, 3)])
    assert [result.group_size for result in results] == [1, 3, 3, 3]
    harness.runtime.join()
    assert harness.settings.batching_window_ms / 1000 in waited
    assert still_commits(harness)


def test_a_pause_for_a_foreign_writer_in_which_the_table_cannot_be_loaded(harness):
    def broken(name):
        raise ValueError("what no port names")

    load = harness.pointer.load

    def waits(name):
        harness.pointer.load = broken
        return True

    harness.replace_ports(foreign_writer_waits=waits)
    harness.commit(append("file:/0"))
    harness.pointer.load = load
    assert still_commits(harness)


def test_older_files_that_cannot_be_read_leave_that_change_unknown_and_the_rest_is_tidied():
    harness = Harness(metadata_cache_max_bytes=0)
    harness.create()

    def broken(*_):
        raise ValueError("what no port names")

    harness.commit(append("file:/0"))
    seen = harness.metadata().current_snapshot
    harness.commit(append("file:/1"))
    # Its number is old enough for its snapshot to have been there and to have expired.
    for number in range(3):
        harness.commit(append(f"file:/more-{number}"))
    metadata = harness.metadata()
    expired = [each.snapshot_id for each in metadata.snapshots if each.snapshot_id != metadata.current_snapshot_id]
    harness.commit(from_request([], [{"action": "remove-snapshots", "snapshot-ids": expired}]))
    read, current = harness.files.read, harness.location()
    harness.files.read = lambda location, *_: read(location) if location == current else broken()
    with pytest.raises(CommitStateUnknown, match="what no port names"):
        harness.commit(rest_delete(7, seen), wait_seconds=5.0)
    harness.files.read = read
    assert still_commits(harness)


def test_a_lock_without_a_thread_for_its_heartbeats_is_not_acquired(harness):
    harness.lock.errors.append(RuntimeError("can't start new thread"))
    with pytest.raises(LockNotAcquired, match="can't start new thread"):
        harness.commit(append("file:/0"))
    assert still_commits(harness)


@pytest.mark.parametrize("change", [set_properties(a="1"), append("file:/a")], ids=["properties", "append"])
def test_a_defect_after_a_swap_was_sent_is_never_a_failure(harness, change):
    swap, now = harness.pointer.swap, harness.runtime.now

    def then_the_clock_fails(*args, **kwargs):
        answer = swap(*args, **kwargs)
        assert not isinstance(answer, Refused)
        worker, fails = threading.current_thread(), raising(MemoryError(), times=2)(now)
        # The caller asks for the time as well.
        harness.runtime.now = lambda: fails() if threading.current_thread() is worker else now()
        return answer

    harness.pointer.swap = then_the_clock_fails
    with pytest.raises(CommitStateUnknown) as unknown:
        harness.commit(change, wait_seconds=5.0)
    assert not unknown.value.proved_failed
    harness.pointer.swap = swap
    assert "a" in harness.metadata().properties or harness.data_files() == ["file:/a"]
    assert still_commits(harness)


def test_a_change_without_a_thread_is_refused_and_not_begun(harness):
    spawn = harness.runtime.spawn
    late = []

    def cannot(name, function, **kwargs):
        late.append(harness.coordinator.submit(NAME, append("file:/late"), wait_seconds=30))
        raise RuntimeError("can't start new thread")

    harness.runtime.spawn = cannot
    with pytest.raises(QueueFull, match="can't start new thread"):
        harness.commit(append("file:/a"))
    with pytest.raises(QueueFull, match="can't start new thread"):
        late[0].wait()
    harness.runtime.spawn = spawn
    assert still_commits(harness)


def test_metadata_that_cannot_be_kept_in_memory_leaves_no_file_behind(harness, monkeypatch):
    monkeypatch.setattr(MetadataCache, "put", raising(MemoryError(), times=1)(MetadataCache.put))
    before = harness.metadata_files()
    with pytest.raises(MemoryError):
        harness.commit(append("file:/a"))
    assert harness.metadata_files() == before
    assert still_commits(harness)


def test_refusals_of_a_metastore_pass_as_they_are(harness):
    harness.lock.errors.append(MetastoreRefused("no"))
    with pytest.raises(MetastoreRefused, match="no"):
        harness.commit(append("file:/0"))


#: What ends a thread or a task, and is no Exception.
ENDS = [SystemExit, asyncio.CancelledError, GeneratorExit]


@pytest.mark.parametrize("end", ENDS)
def test_a_listener_that_ends_its_thread_ends_no_queue(harness, end):
    """Of events, and of a caller's own answer."""
    harness.publish = raising(end("a listener"))(None)
    gate = Gate(harness)
    first = harness.coordinator.submit(NAME, append("file:/0"), wait_seconds=30)
    assert gate.reached.wait(30)
    members = [harness.coordinator.submit(NAME, append(f"file:/{n}"), wait_seconds=30) for n in (1, 2)]
    members[0].when_settled(raising(end("a caller"))(None))
    gate.open.set()
    assert [member.wait().group_size for member in (first, *members)] == [1, 2, 2]
    assert still_commits(harness)


@pytest.mark.parametrize("end", ENDS)
def test_a_change_that_ends_its_thread_is_refused_with_its_group_and_the_queue_goes_on(harness, end):
    """Nothing that carries them was sent. The lock that was taken meanwhile is given back."""
    first = StagedChange(append("file:/1"), raising(end("a change"))(None))
    results = queued_behind_a_gate(harness, append("file:/0"), [append("file:/2"), first, append("file:/3")])
    assert results[0].group_size == 1
    assert [type(each) for each in results[1:]] == [CommitFailed] * 3
    assert end.__name__ in str(results[1])
    assert still_commits(harness)
    assert harness.data_files() == ["file:/0", "file:/last"]


@pytest.mark.parametrize("end", ENDS)
def test_an_end_after_a_swap_was_sent_is_unknown_and_the_queue_goes_on(harness, end):
    swap = harness.pointer.swap

    def then_it_ends(*args, **kwargs):
        swap(*args, **kwargs)
        harness.pointer.swap = swap
        raise end("a driver")

    harness.pointer.swap = then_it_ends
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/0"), wait_seconds=5.0)
    assert still_commits(harness)
    assert harness.data_files() == ["file:/0", "file:/last"]


def test_an_end_between_two_groups_refuses_those_that_wait(harness, monkeypatch):
    gate = Gate(harness)
    first = harness.coordinator.submit(NAME, append("file:/0"), wait_seconds=30)
    assert gate.reached.wait(30)
    waiting = harness.coordinator.submit(NAME, append("file:/1"), wait_seconds=30)
    with monkeypatch.context() as patched:
        next_group = "iceberg_hms.coordinator.scheduling.commit_queue.CommitQueue.next_group"
        patched.setattr(next_group, raising(SystemExit())(None))
        gate.open.set()
        assert first.wait().group_size == 1
        with pytest.raises(QueueFull, match="SystemExit"):
            waiting.wait()
        harness.runtime.join()
    assert still_commits(harness)
