"""When a table's lock is kept for a client that a writer outside beat, and for how long: the lock alone, in the queue,
and with two processes."""

import threading

import pytest

from iceberg_hms.coordinator.scheduling.kept_lock import KeptLock
from iceberg_hms.errors import LockNotAcquired, LockUnavailable, RequirementFailed
from iceberg_hms.testing.memory_lock import MemoryTableLock
from tests.changes.writers import Writer, request
from tests.coordinator.harness import NAME, Harness, append, set_properties


class Table(Harness):
    """A table whose clock a test sets."""

    def __init__(self, lease=15.0, **settings):
        super().__init__(**settings)
        self.time = 100.0
        self.runtime.now = lambda: self.time
        self.lock = MemoryTableLock(runtime=self.runtime)
        self.lock.short_lease_seconds = lease
        self.replace_ports(lock=self.lock)
        self.kept = KeptLock(self.ports, self.settings, NAME)

    def entries(self):
        return len(self.lock.queues.entries(NAME))


@pytest.fixture
def table():
    return Table()


def test_losers_need_the_lock_once_a_writer_outside_beat_one_lately(table):
    assert not table.kept.is_wanted(table.time)
    assert not table.kept.note_beaten(), "it may never happen again"
    table.time += 29
    assert table.kept.is_wanted(table.time)
    assert table.kept.note_beaten()
    table.time += 31
    assert not table.kept.is_wanted(table.time)
    assert not table.kept.note_beaten()


@pytest.mark.parametrize("off", [{"retry_priority_max_wait_ms": 0}, {"lock_short_lease_ms": 0}])
def test_a_setting_turns_it_off(off):
    table = Table(**off)
    assert [table.kept.note_beaten(), table.kept.note_beaten()] == [False, False]


def test_the_lock_is_kept_until_a_group_takes_it(table):
    table.kept.acquire()
    assert table.kept.remaining_seconds(table.time) == 2.0
    table.time += 0.5
    assert table.kept.remaining_seconds(table.time) == 1.5
    held = table.kept.take()
    held.ensure_held()
    assert table.kept.take() is None
    assert table.kept.remaining_seconds(table.time) == 0.0
    assert table.events == [{"event": "lock-kept", "table": NAME, "seconds": 0.5}]
    assert table.entries() == 1


def test_it_is_kept_no_longer_than_others_would_wait(table):
    table.kept.acquire()
    table.time += 2
    assert table.kept.remaining_seconds(table.time) == 0.0


def test_the_next_loser_waits_until_the_share_of_the_time_allows_it(table):
    table.kept.note_beaten()
    table.kept.acquire()
    table.time += 1
    table.kept.take().release()
    assert table.kept.ready_in(table.time) == 1.0
    table.time += 1
    assert table.kept.ready_in(table.time) == 0.0
    table.kept.acquire()
    table.kept.give_back(table.kept.detach())
    table.time += 31
    assert table.kept.ready_in(table.time) == 0.0, "nobody needs it any more"


def test_a_lock_with_a_long_lease_is_not_kept_nor_asked_for_again_soon():
    table = Table(lease=16.0)
    table.kept.acquire()
    assert (table.kept.take(), table.entries()) == (None, 0)
    table.time += 299
    assert [table.kept.note_beaten(), table.kept.note_beaten()] == [False, False]
    table.time += 1
    assert table.kept.note_beaten()


@pytest.mark.parametrize("part", ["exclusive", "require_cas"])
def test_a_lock_that_a_killed_process_could_leave_for_long_or_that_locks_nothing_is_not_kept(table, part):
    acquire = table.lock.acquire

    def other(name, **of_request):
        held = acquire(name, **of_request)
        setattr(held, part, False)
        return held

    table.lock.acquire = other
    table.kept.acquire()
    assert (table.kept.take(), table.entries()) == (None, 0)


@pytest.mark.parametrize("error", [LockNotAcquired("late"), LockUnavailable("broken")])
def test_without_the_lock_everything_goes_on(table, error):
    table.lock.errors.append(error)
    table.kept.acquire()
    assert table.kept.take() is None


def test_a_lock_that_is_given_back_is_released_and_calls_no_listener_under_a_mutex(table):
    table.kept.acquire()
    detached = table.kept.detach()
    assert table.events == []
    table.kept.give_back(detached)
    assert [event["event"] for event in table.events] == ["lock-kept"]
    assert table.entries() == 0
    table.kept.give_back(None)


def test_a_listener_that_fails_keeps_no_lock_from_its_group(table):
    def fail(event):
        raise ValueError("a listener")

    table.publish = fail
    table.kept.acquire()
    assert table.kept.take() is not None


class Contest(Harness):
    """A server with clients, and a writer outside that appends through a process of its own."""

    def __init__(self):
        super().__init__()
        self.create(**{"iceberg-hms.rebase-appends": "none"})
        self.lock.short_lease_seconds = 15.0
        self.outside = self.another()
        self.numbers = iter(range(1_000))

    def land_outside(self, wait_seconds=30.0):
        self.outside.commit(NAME, append(f"outside-{next(self.numbers)}"), wait_seconds=wait_seconds)

    def send(self, base, id_):
        """A client sends a snapshot that it made on that state, and does not wait for the worker's end."""
        change = request(base, Writer(self.manifests).fast_append(base, id_, f"client-{id_}"))
        return self.coordinator.commit(NAME, change, wait_seconds=30.0)

    def lose(self, id_):
        """A client reads, the writer outside is faster, and the server refuses the client."""
        base = self.metadata()
        self.land_outside()
        with pytest.raises(RequirementFailed):
            self.send(base, id_)

    def kept(self):
        return [event["seconds"] for event in self.events if event["event"] == "lock-kept"]

    def is_locked(self):
        return bool(self.lock.queues.entries(NAME))


@pytest.fixture
def contest():
    made = Contest()
    yield made
    made.runtime.join()
    assert not made.is_locked(), "a lock was left"


def test_a_client_that_was_beaten_twice_has_the_lock_when_it_comes_back(contest):
    """the client loses twice | the writer outside asks for the lock | the client reads, and sends its commit again"""
    contest.lose(1)
    assert contest.kept() == []
    contest.lose(1)
    behind = threading.Thread(target=contest.land_outside)
    behind.start()
    while len(contest.lock.queues.entries(NAME)) < 2:
        contest.runtime.read_clocks()
    contest.send(contest.metadata(), 1)
    behind.join(30)
    [first, second] = contest.metadata().snapshots[-2:]
    assert first.snapshot_id == 1, "the writer outside waited"
    assert second.parent_snapshot_id == 1
    assert len(contest.kept()) == 1


def test_no_lock_is_kept_for_a_client_that_another_one_of_this_process_beat(contest):
    for _ in range(3):
        base = contest.metadata()
        contest.send(base, next(contest.numbers) + 100)
        with pytest.raises(RequirementFailed):
            contest.send(base, 1)
    contest.runtime.join()
    assert contest.kept() == []


def test_the_lock_is_released_when_the_client_does_not_come_back(contest):
    contest.lose(1)
    contest.lose(1)
    with pytest.raises(LockNotAcquired):
        contest.land_outside(0.0)
    contest.runtime.join()
    contest.land_outside()
    [seconds] = contest.kept()
    assert 1.9 <= seconds < 10.0


def test_another_clients_commit_waits_for_the_one_that_is_awaited_and_goes_on_under_its_lock(contest):
    contest.lose(1)
    contest.lose(1)
    acquired = contest.lock.acquired
    contest.coordinator.commit(NAME, set_properties(a="b"), wait_seconds=30.0)
    assert contest.lock.acquired <= acquired + 1
    assert contest.metadata().properties["a"] == "b"


def test_a_kept_lock_that_was_lost_is_taken_again(contest):
    contest.lose(1)
    contest.lose(1)
    contest.lock.queues.reap(NAME)
    contest.land_outside()
    contest.send(contest.metadata(), 1)
    assert contest.metadata().current_snapshot.snapshot_id == 1


def test_of_several_losers_each_has_the_lock_in_turn(contest):
    """three clients lose, all at once, again and again | each lands at its first try after an answer under the lock"""
    contest.lose(50)
    tries = {}

    def client(id_):
        base = contest.metadata()
        ready.wait(30)
        for attempt in range(1, 6):
            try:
                contest.send(base, id_)
            except RequirementFailed:
                base = contest.version().metadata
            else:
                tries[id_] = attempt
                return

    ready = threading.Barrier(4)
    clients = [threading.Thread(target=client, args=(id_,)) for id_ in (1, 2, 3)]
    for each in clients:
        each.start()
    contest.land_outside()
    ready.wait(30)
    stop = threading.Event()

    def outside():
        while not stop.is_set():
            contest.land_outside()

    busy = threading.Thread(target=outside)
    busy.start()
    for each in clients:
        each.join(60)
    stop.set()
    busy.join(30)
    assert sorted(tries) == [1, 2, 3]
    assert max(tries.values()) <= 3, tries
