"""Which lock a table takes, over fakes of the metastore and of both locks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import EXCLUSIVE, LOCK_MARK, HeldLock, LockUse, TableName
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable, MetastoreUnavailable
from iceberg_hms.locking.chosen_lock import BROKEN_AFTER, BROKEN_SECONDS, ChosenTableLock
from iceberg_hms.locking.lock_modes import LockMode, LockModes
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts import table_lock
from iceberg_hms.testing.contracts.table_lock import Guard
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from iceberg_hms.testing.memory_lock import MemoryTableLock
from iceberg_hms.testing.memory_metastore import LockQueues
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

NAME = TableName("db", "t")
FREE = TableName("db", "nobody")
METADATA = table_metadata("memory:/t")


class Clock(SystemClock):
    """The real one, which a test or a sleep sets forward at once."""

    def __init__(self) -> None:
        self.late = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late

    def sleep(self, seconds: float) -> None:
        if seconds > 0.1:
            self.late += seconds
        else:
            super().sleep(seconds)


class Lock(MemoryTableLock):
    """log: its name each time that a writer takes it. broken: its API fails. happens: called once each, while a
    writer waits."""

    def __init__(self, name: str, log: list[str], queues: LockQueues | None, runtime: ThreadRuntime) -> None:
        super().__init__(queues, runtime=runtime)
        self.name = name
        self.log = log
        self.broken = False
        self.suspended = False
        self.happens: list[Callable[[], None]] = []

    def acquire(self, name: TableName, *, wait_seconds: float, request: str, use: LockUse = LockUse.BLIND) -> Any:
        if self.broken:
            self.log.append(f"{self.name} fails")
            raise LockUnavailable("Internal error processing lock")
        held = super().acquire(name, wait_seconds=wait_seconds, request=request, use=use)
        self.log.append(self.name)
        if self.happens:
            self.happens.pop(0)()
        return InSession(held, self)


class InSession:
    """A held lock whose session a test suspends."""

    def __init__(self, held: HeldLock, lock: Lock) -> None:
        self._held = held
        self._lock = lock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)

    def ensure_held(self, *, blind: bool = False) -> None:
        if self._lock.suspended:
            raise LockLost("the session is SUSPENDED")
        self._held.ensure_held(blind=blind)


class World:
    """A metastore with a table, a ZooKeeper, and the locks of one process on them."""

    def __init__(self, setting: str = "hms", *, zookeeper: bool = True, other: World | None = None) -> None:
        self.clock = other.clock if other else Clock()
        self.runtime = ThreadRuntime(self.clock)
        self.pointer = other.pointer if other else MemoryTablePointer({"db", "other"})
        self.log: list[str] = []
        self.leftover = 0.0
        self.silent = False
        self.hms = Lock("hms", self.log, other.hms.queues if other else None, self.runtime)
        queues = other.zookeeper.queues if other else None
        self.zookeeper = Lock("zookeeper", self.log, queues, self.runtime)
        self.locks = ChosenTableLock(
            self.pointer,
            self.hms,
            self.zookeeper if zookeeper else None,
            LockModes(self.runtime, setting=setting),
            self.runtime,
            lock_api_works=self.lock_api_works,
            granted_lock_seconds=lambda _namespace: self.leftover,
        )
        if other is None:
            self.pointer.create(NAME, "memory:/t/0", METADATA, None)

    def lock_api_works(self) -> bool:
        self.log.append("asked")
        if self.silent:
            raise MetastoreUnavailable("no answer")
        return not self.hms.broken

    def mark(self, key: str, value: str, name: TableName = NAME) -> None:
        row = self.pointer.rows[name]
        self.pointer.rows[name] = replace(row, parameters={**row.parameters, key: value})

    def acquire(self, name: TableName = NAME, wait_seconds: float = 10.0) -> Any:
        return self.locks.acquire(name, wait_seconds=wait_seconds, request="r-1")

    @property
    def held(self) -> tuple[bool, bool]:
        """Whether the metastore's lock and ZooKeeper's are held by anybody."""
        return bool(self.hms.queues.entries(NAME)), bool(self.zookeeper.queues.entries(NAME))


def marked(**options: Any) -> World:
    world = World(**options)
    world.mark(LOCK_MARK, "zookeeper")
    return world


@pytest.mark.parametrize("check", table_lock.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("mark", ["hms", "zookeeper", None])
def test_whatever_lock_is_taken_it_keeps_the_contract(check: table_lock.Check, mark: str | None) -> None:
    first = World()
    second = World(other=first)
    if mark is not None:
        first.mark(LOCK_MARK, mark)
    name = NAME if mark is not None else FREE
    check(Guard(first.locks, second.locks, ThreadRuntime(), name))
    assert first.held == (False, False)


def test_an_unmarked_table_takes_the_metastore_s_lock_alone_and_asks_nothing_more() -> None:
    world = World()
    held = world.acquire()
    assert world.log == ["hms"]
    held.release()
    assert world.held == (False, False)


def test_an_unmarked_table_is_refused_with_what_to_do_when_that_lock_is_broken() -> None:
    for setting in ("hms", "zookeeper"):
        world = World(setting)
        world.hms.broken = True
        with pytest.raises(LockUnavailable, match=r"iceberg-hms locks use zookeeper db\.t"):
            world.acquire()
        assert world.held == (False, False)


def test_a_marked_table_takes_zookeeper_s_lock_first_and_then_the_metastore_s() -> None:
    world = marked()
    held = world.acquire()
    assert world.log == ["asked", "zookeeper", "hms"]
    assert world.held == (True, True)
    held.release()
    assert world.held == (False, False)
    world.acquire().release()
    assert world.log[3:] == ["zookeeper", "hms"]


def test_a_broken_lock_api_is_asked_twice_and_not_again_for_a_time() -> None:
    world = marked()
    world.hms.broken = True
    for _ in range(3):
        world.acquire().release()
    assert world.log == ["asked"] * BROKEN_AFTER + ["zookeeper"] * 3
    world.clock.late += BROKEN_SECONDS
    world.hms.broken = False
    world.log.clear()
    world.acquire().release()
    assert world.log == ["asked", "zookeeper", "hms"]


def test_a_lock_api_that_breaks_while_we_wait_is_asked_about_and_zookeeper_s_lock_stands_alone() -> None:
    world = marked()
    world.acquire().release()
    world.hms.broken = True
    world.log.clear()
    held = world.acquire()
    assert world.log == ["zookeeper", "hms fails", *["asked"] * BROKEN_AFTER]
    assert world.held == (False, True)
    held.release()


@pytest.mark.parametrize("waits", [False, True])
def test_a_lock_api_that_does_not_answer_is_not_taken_for_broken(waits: bool) -> None:
    """It may work for writers that take no other lock: under ZooKeeper's alone we would swap beside them."""
    world = marked()
    if waits:
        world.acquire().release()
    world.hms.broken, world.silent = True, True
    for _ in range(2):
        with pytest.raises(MetastoreUnavailable):
            world.acquire()
        assert world.held == (False, False)
    world.hms.broken, world.silent = False, False
    world.acquire().release()


def test_one_failed_lock_call_is_no_broken_lock_api() -> None:
    world = marked()
    world.hms.errors.append(LockUnavailable("a deadlock in its database"))
    with pytest.raises(LockUnavailable, match="deadlock"):
        world.acquire()
    assert world.held == (False, False)
    world.acquire().release()


def test_a_writer_of_a_marked_table_waits_for_the_holder_of_the_metastore_s_lock() -> None:
    world = marked()
    foreign = world.hms.acquire(NAME, wait_seconds=1, request="foreign")
    with pytest.raises(LockNotAcquired):
        world.acquire(wait_seconds=0.05)
    assert world.held == (True, False)
    foreign.release()


def test_a_client_without_zookeeper_refuses_a_marked_table() -> None:
    world = marked(zookeeper=False)
    with pytest.raises(LockUnavailable, match="no ZooKeeper is configured here"):
        world.acquire()
    assert world.log == ["asked"]


def test_a_mark_that_appears_while_a_writer_waits_for_the_lock_makes_it_start_over() -> None:
    world = World()
    world.hms.happens.append(lambda: world.mark(LOCK_MARK, "zookeeper"))
    held = world.acquire()
    assert world.log == ["hms", "asked", "zookeeper", "hms"]
    held.release()
    assert world.held == (False, False)


def test_a_mark_that_never_rests_is_given_up() -> None:
    world = World()

    def turn() -> None:
        now = world.pointer.rows[NAME].parameters.get(LOCK_MARK)
        world.mark(LOCK_MARK, "hms" if now == "zookeeper" else "zookeeper")

    world.hms.happens = [turn] * 100
    with pytest.raises(LockNotAcquired, match="changed"):
        world.acquire()
    assert world.held == (False, False)


def test_a_read_that_fails_under_the_lock_gives_it_back() -> None:
    world = World()
    world.acquire().release()
    world.pointer.load_errors.append(MetastoreUnavailable("down"))
    with pytest.raises(MetastoreUnavailable):
        world.acquire()
    assert world.held == (False, False)


def test_the_read_under_the_lock_is_handed_on_so_that_a_commit_costs_no_call_more() -> None:
    world = World()
    world.acquire().release()
    world.pointer.calls.clear()
    held = world.acquire()
    assert held.row.metadata_location == "memory:/t/0"
    assert [call for call, _ in world.pointer.calls] == ["load"]
    held.release()


def test_no_move_starts_while_the_session_is_suspended() -> None:
    world = marked()
    held = world.acquire()
    world.zookeeper.suspended = True
    with pytest.raises(LockLost, match="SUSPENDED"):
        held.ensure_held()
    world.zookeeper.suspended = False
    held.ensure_held()
    held.release()


def test_a_name_that_no_table_has_takes_what_lock_there_is() -> None:
    world = World()
    world.acquire(FREE).release()
    assert world.log == ["asked", "hms"]
    broken = World()
    broken.hms.broken = True
    broken.acquire(FREE).release()
    assert broken.log == ["asked"] * BROKEN_AFTER + ["zookeeper"]
    without = World(zookeeper=False)
    without.hms.broken = True
    with pytest.raises(LockUnavailable):
        without.acquire(FREE)


def test_without_a_lock_swaps_ask_for_a_proven_server() -> None:
    world = World("none")
    with pytest.raises(LockUnavailable, match="not declared"):
        world.acquire()
    world.mark(EXCLUSIVE, "true")
    held = world.acquire()
    assert world.log == []
    assert held.require_cas
    held.release()


@pytest.mark.parametrize(
    ("mark", "mode", "broken", "taken"),
    [
        ("hms", LockMode.ZOOKEEPER, False, ["asked", "zookeeper", "hms"]),
        ("hms", LockMode.ZOOKEEPER, True, ["zookeeper", *["asked"] * BROKEN_AFTER]),
        ("zookeeper", LockMode.HMS, False, ["zookeeper", "hms"]),
        ("hms", LockMode.HMS, False, ["hms"]),
    ],
)
def test_a_mark_is_changed_under_the_locks_of_both_modes(
    mark: str, mode: LockMode, broken: bool, taken: list[str]
) -> None:
    world = World()
    world.mark(LOCK_MARK, mark)
    world.hms.broken = broken
    held = world.locks.for_marking(mode).acquire(NAME, wait_seconds=10, request="r-1")
    assert sorted(world.log) == sorted(taken)
    held.ensure_held()
    held.release()
    assert world.held == (False, False)


@pytest.mark.parametrize("leftover", [0.0, 300.0])
def test_a_mark_that_is_set_without_the_metastore_s_lock_outwaits_those_who_may_still_have_it(leftover: float) -> None:
    """w has the metastore's lock | its API breaks | the mark is set, and w swaps: its swap would be over the mark"""
    world = World()
    world.hms.broken = True
    world.leftover = leftover
    before = world.clock.late
    world.locks.for_marking(LockMode.ZOOKEEPER).acquire(NAME, wait_seconds=10, request="r-1").release()
    assert world.clock.late - before == leftover
    world.mark(LOCK_MARK, "zookeeper")
    world.locks.for_marking(LockMode.ZOOKEEPER).acquire(NAME, wait_seconds=10, request="r-2").release()
    assert world.clock.late - before == leftover, "who is marked already has no such writers"


def test_a_lock_api_that_works_again_after_that_wait_is_used() -> None:
    """writers of an unmarked table take its lock as soon as they can"""
    world = World()
    world.hms.broken = True
    world.leftover = 900.0
    wait = world.clock.sleep

    def heal(seconds: float) -> None:
        wait(seconds)
        world.hms.broken = False

    world.clock.sleep = heal  # type: ignore[method-assign]
    held = world.locks.for_marking(LockMode.ZOOKEEPER).acquire(NAME, wait_seconds=910, request="r-1")
    assert world.held == (True, True)
    held.release()


def test_a_mark_that_comes_while_a_table_is_moved_back_makes_its_operator_start_over() -> None:
    world = World()
    world.hms.happens = [lambda: world.mark(LOCK_MARK, "zookeeper")]
    held = world.locks.for_marking(LockMode.HMS).acquire(NAME, wait_seconds=10, request="r-1")
    assert world.held == (True, True)
    held.release()
    assert world.held == (False, False)


def test_a_mark_that_goes_while_a_table_is_moved_makes_its_operator_start_over() -> None:
    world = marked()
    world.hms.broken = True
    world.leftover = 300.0
    world.zookeeper.happens = [lambda: world.mark(LOCK_MARK, "hms")]
    before = world.clock.late
    world.locks.for_marking(LockMode.ZOOKEEPER).acquire(NAME, wait_seconds=10, request="r-1").release()
    assert world.clock.late - before == 300.0


def test_an_operator_gives_up_on_a_mark_that_never_rests() -> None:
    world = World()
    other = {"hms": "zookeeper", "zookeeper": "hms"}

    def change() -> None:
        world.mark(LOCK_MARK, other[world.pointer.load(NAME).parameters.get(LOCK_MARK, "hms")])
        world.hms.happens.append(change)

    world.hms.happens = [change]
    with pytest.raises(LockNotAcquired, match="changed 5 times"):
        world.locks.for_marking(LockMode.HMS).acquire(NAME, wait_seconds=10, request="r-1")
    assert world.held == (False, False)


def test_a_table_is_not_brought_back_to_a_lock_whose_service_fails() -> None:
    world = marked()
    world.hms.broken = True
    with pytest.raises(LockUnavailable):
        world.locks.for_marking(LockMode.HMS).acquire(NAME, wait_seconds=10, request="r-1")
    assert world.held == (False, False)


def forced(world: World) -> HeldLock:
    return world.locks.for_marking(LockMode.HMS, force=True).acquire(NAME, wait_seconds=10, request="r-1")


def test_zookeeper_s_lock_may_be_missing_on_the_way_back_by_force_alone(caplog: pytest.LogCaptureFixture) -> None:
    world = marked()
    world.zookeeper.broken = True
    with pytest.raises(LockUnavailable, match=r"if it is gone for good, .* use hms db\.t --force"):
        world.locks.for_marking(LockMode.HMS).acquire(NAME, wait_seconds=10, request="r-1")
    assert world.held == (False, False)
    held = forced(world)
    assert world.held == (True, False)
    assert "Marking db.t for the metastore's lock without taking ZooKeeper's" in caplog.text
    held.ensure_held()
    held.release()
    assert world.held == (False, False)


def test_force_needs_no_zookeeper_to_be_configured() -> None:
    without = World(zookeeper=False)
    without.mark(LOCK_MARK, "zookeeper")
    with pytest.raises(LockUnavailable, match="--force"):
        without.locks.for_marking(LockMode.HMS).acquire(NAME, wait_seconds=10, request="r-1")
    forced(without).release()


def test_a_mark_that_nobody_knows_is_mended_without_force() -> None:
    without = World(zookeeper=False)
    without.mark(LOCK_MARK, "another")
    without.locks.for_marking(LockMode.HMS).acquire(NAME, wait_seconds=10, request="r-1").release()


def test_force_takes_zookeeper_s_lock_if_it_works_and_waits_for_its_holder() -> None:
    world = marked()
    forced(world).release()
    assert world.log == ["zookeeper", "hms"]
    theirs = world.zookeeper.acquire(NAME, wait_seconds=0, request="r-2")
    with pytest.raises(LockNotAcquired):
        world.locks.for_marking(LockMode.HMS, force=True).acquire(NAME, wait_seconds=0.05, request="r-1")
    theirs.release()
    assert world.held == (False, False)


def test_force_does_not_bring_a_table_to_a_lock_whose_service_fails() -> None:
    world = marked()
    world.hms.broken = True
    with pytest.raises(LockUnavailable, match="Internal error"):
        forced(world)
    assert world.held == (False, False)


@pytest.mark.parametrize(("before", "now"), [("hms", "zookeeper"), ("zookeeper", "hms")])
def test_who_remembers_a_lock_that_is_broken_looks_whether_the_table_was_moved_away_from_it(
    before: str, now: str
) -> None:
    """A writer committed under one lock -> that lock breaks, and an operator marks the table for the other -> the
    writer's next commit fails at the first, looks at the table, and goes on under the second."""
    world = World()
    world.mark(LOCK_MARK, before)
    world.acquire().release()
    world.mark(LOCK_MARK, now)
    {"hms": world.hms, "zookeeper": world.zookeeper}[before].broken = True
    held = world.acquire()
    assert world.held == (now == "hms", now == "zookeeper")
    held.release()
    assert world.held == (False, False)


def test_two_writers_of_which_one_expects_the_old_mode_never_hold_it_together() -> None:
    first = World()
    second = World(other=first)
    # The second has seen it unmarked.
    second.acquire().release()
    first.mark(LOCK_MARK, "zookeeper")
    held = first.acquire()
    with pytest.raises(LockNotAcquired):
        second.acquire(wait_seconds=0.05)
    held.release()
    second.acquire().release()
    assert second.log[-2:] == ["zookeeper", "hms"]
