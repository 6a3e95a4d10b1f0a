"""Tables that wait for their locks delay no other table, and keep nothing in memory that is on disk."""

import logging
import threading
import tracemalloc
from dataclasses import replace

import pytest

from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.scheduling.table_workers import TableWorkers
from iceberg_hms.errors import LockNotAcquired, StorageError
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from iceberg_hms.runtime import GATHER_THREADS
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.harness import NAME, SCHEMA, Harness, append, set_properties

FOREIGN = "foreign"


class ForgetfulFiles(MemoryFiles):
    """Keeps no content that is written once it `forgets`. written: released once for each file."""

    forgets = False

    def __init__(self):
        super().__init__()
        self.written = threading.Semaphore(0)

    def write(self, location, data):
        super().write(location, b"" if self.forgets else data)
        self.written.release()

    def until_written(self, count):
        for _ in range(count):
            assert self.written.acquire(timeout=30)


class Tables:
    """Many tables of one coordinator, some of them locked by a writer that is not ours."""

    def __init__(self, count, **settings):
        self.harness = Harness(**settings)
        self.files = self.harness.files = ForgetfulFiles()
        self.waiting = threading.Semaphore(0)
        acquire = self.harness.lock.acquire

        def noted(name, **kwargs):
            if self.harness.lock.queues.entries(name):
                self.waiting.release()
            return acquire(name, **kwargs)

        self.harness.lock.acquire = noted
        self.coordinator = Coordinator(replace(self.harness.ports, files=self.files), self.harness.settings)
        self.names = [TableName("db", f"t{number}") for number in range(count)]
        for name in self.names:
            location = f"file:/wh/db/{name.name}"
            uuid, now = SYSTEM_CLOCK.uuid(), SYSTEM_CLOCK.now_ms()
            metadata = new_table_metadata(SCHEMA, None, None, location, {}, uuid=uuid, now_ms=now)
            self.coordinator.operations.create(
                name, from_request([{"type": "assert-create"}], create_updates(metadata))
            )

    def lock(self, names):
        for name in names:
            self.harness.lock.queues.enqueue(name, FOREIGN)

    def unlock(self, names):
        for name in names:
            self.harness.lock.queues.reap(name)

    def submit(self, name, change, wait_seconds=60):
        return self.coordinator.submit(name, change, wait_seconds=wait_seconds)

    def until_waiting(self, count):
        for _ in range(count):
            assert self.waiting.acquire(timeout=30)


def test_tables_that_wait_for_their_locks_leave_the_others_their_threads():
    tables = Tables(4 * GATHER_THREADS)
    *contended, free = tables.names
    tables.lock(contended)
    members = [tables.submit(name, append(f"file:/{name.name}")) for name in contended]
    tables.until_waiting(len(contended))
    # As the list and the metadata file of one commit are written.
    both = threading.Barrier(2, timeout=10)
    tables.harness.runtime.gather([both.wait, both.wait])
    assert tables.coordinator.commit(free, append("file:/free"), wait_seconds=5).group_size == 1
    tables.unlock(contended)
    assert [member.wait().group_size for member in members] == [1] * len(contended)
    tables.harness.runtime.join()


def test_a_commit_that_waits_for_its_lock_keeps_no_written_bytes_in_memory():
    size, count = 1_000_000, 6
    tables = Tables(count, metadata_cache_max_bytes=0)
    tables.lock(tables.names)
    # One is here before, for what the first one takes of modules and threads.
    changes = [set_properties(large=chr(65 + number) * size) for number in range(count)]
    tables.files.forgets = True
    first = tables.submit(tables.names[0], changes[0])
    tables.until_waiting(1)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        members = [tables.submit(name, change) for name, change in zip(tables.names[1:], changes[1:], strict=True)]
        tables.until_waiting(count - 1)
        # The metadata file of each table, and that of its commit.
        tables.files.until_written(2 * count)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for member in (first, *members):
        assert member.withdraw()
    tables.unlock(tables.names)
    tables.harness.runtime.join()
    assert held - before < (count - 1) * size / 4


def test_more_tables_than_threads_are_served_in_turn(caplog):
    """one thread | the first table is never without a commit | the others are committed to all the same"""
    caplog.set_level(logging.WARNING)
    tables = Tables(3, commit_threads=1, batching_window_ms=0)
    busy, *others = tables.names
    tables.lock([busy])
    members = [tables.submit(busy, append("file:/busy-0"))]
    tables.until_waiting(1)
    order = []
    for name in [*others, busy, *others]:
        members.append(tables.submit(name, append(f"file:/{name.name}-{len(members)}")))
        members[-1].when_settled(lambda name=name: order.append(name))
    tables.unlock([busy])
    assert [member.wait().group_size for member in members] == [1, 2, 2, 1, 2, 2]
    tables.harness.runtime.join()
    assert list(dict.fromkeys(order)) == [*others, busy]
    assert tables.harness.runtime.threads[1:] == [], "one thread has served them all"
    assert "commit.threads" in caplog.text


def test_a_caller_that_waits_for_a_thread_times_out():
    tables = Tables(2, commit_threads=1)
    contended, other = tables.names
    tables.lock([contended])
    first = tables.submit(contended, append("file:/0"))
    tables.until_waiting(1)
    with pytest.raises(LockNotAcquired, match="did not get its turn"):
        tables.coordinator.commit(other, append("file:/1"), wait_seconds=0.01)
    tables.unlock([contended])
    first.wait()
    assert tables.coordinator.commit(other, append("file:/2"), wait_seconds=30).group_size == 1
    tables.harness.runtime.join()


class Scripted:
    """A runtime whose threads run when the test runs them, or cannot start."""

    def __init__(self):
        self.spawned, self.time, self.error = [], 0.0, None

    def spawn(self, name, function, *, background=False):
        assert not background
        if self.error:
            raise self.error
        self.spawned.append(function)

    def now(self):
        return self.time

    mutex = staticmethod(threading.Lock)


def test_threads_are_bounded_and_end_without_work():
    runtime, done = Scripted(), []
    workers = TableWorkers(runtime, 2)
    left = dict.fromkeys("abc", 2)

    def step(name):
        done.append(name)
        left[name] -= 1
        return left[name] > 0

    for name in "abc":
        workers.start(name, lambda name=name: step(name), lambda error: None)
    assert len(runtime.spawned) == 2
    runtime.spawned[0]()
    assert done == ["a", "c", "a", "c"]
    runtime.spawned[1]()
    assert done == ["a", "c", "a", "c", "b", "b"]
    workers.start("d", lambda: bool(done.append("d")), lambda error: None)
    assert len(runtime.spawned) == 3


def test_tables_in_line_are_refused_if_no_thread_can_start():
    runtime, told = Scripted(), []
    workers = TableWorkers(runtime, 1)

    def fails(name, function, *, background=False):
        # Another table comes while the first one's thread is being made.
        workers.start("late", lambda: False, told.append)
        raise RuntimeError("can't start new thread")

    runtime.spawn = fails
    with pytest.raises(RuntimeError, match="new thread"):
        workers.start("a", lambda: False, told.append)
    assert [str(error) for error in told] == ["can't start new thread"]
    del runtime.spawn
    workers.start("b", lambda: False, told.append)
    assert len(runtime.spawned) == 1


def test_a_full_line_is_logged_once_a_minute(caplog):
    runtime = Scripted()
    workers = TableWorkers(runtime, 1)
    for number in range(4):
        runtime.time = number * 30.0
        workers.start(f"t{number}", lambda: False, lambda error: None)
    warned = [record.message for record in caplog.records]
    assert len(warned) == 2
    assert "1 tables are committed to" in warned[0]
    assert "`commit.threads`" in warned[0]


def test_a_change_that_fails_to_build_is_answered_while_its_group_waits_for_the_lock():
    harness = Harness()
    harness.create()
    foreign = harness.lock.queues.enqueue(NAME, FOREIGN)
    acquire, write, asked = harness.lock.acquire, harness.files.write, threading.Event()

    def noted(*args, **options):
        asked.set()
        return acquire(*args, **options)

    def fails(*_):
        assert asked.wait(10)
        raise StorageError("disk full")

    harness.lock.acquire, harness.files.write = noted, fails
    member = harness.coordinator.submit(NAME, append("file:/a"), wait_seconds=600.0)
    heard = threading.Event()
    member.when_settled(heard.set)
    in_time = heard.wait(10)
    assert foreign in harness.lock.queues.entries(NAME)
    harness.lock.queues.remove(foreign.id)
    harness.files.write = write
    harness.runtime.join()
    assert in_time
    with pytest.raises(StorageError, match="disk full") as caught:
        member.result()
    assert caught.value.proved_failed
    assert not harness.lock.queues.entries(NAME), "the lock that nobody needs any more is given back"
    harness.commit(append("file:/b"))
    assert harness.data_files() == ["file:/b"]
