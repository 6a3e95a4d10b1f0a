from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import Refused, Swapped, TableName, Unanswered
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable, MetastoreUnavailable, NoSuchTable
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.testing.simulation.drivers import SOCKET_TIMEOUT, Link, SimulatedTableLock, SimulatedTablePointer
from iceberg_hms.testing.simulation.faults import Weather, Wire
from iceberg_hms.testing.simulation.metastore import METADATA_LOCATION, Metastore, Verdict
from iceberg_hms.testing.simulation.runtime import SimulatedRuntime
from iceberg_hms.testing.simulation.scheduler import Process, Scheduler, WorkerPool
from iceberg_hms.testing.simulation.seeded import Seeded

T = TableName("db", "t")
NOTHING: Any = TableMetadata({})
ALL_OF = 1_000_000


@dataclass
class Site:
    """A metastore with one row, and processes that reach it."""

    weather: Weather = field(default_factory=Weather)
    seed: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pool = WorkerPool()
        self.scheduler = Scheduler(Seeded(self.seed), self.pool)
        self.server = Metastore(self.scheduler, **{"lease_seconds": 60.0, **self.settings})
        self.server.rows[T] = {METADATA_LOCATION: "a", "kept": "yes"}
        self.wire = Wire(self.scheduler, Seeded(self.seed), self.weather, lease_seconds=60.0)

    def link(self, name: str) -> Link:
        process = Process(name)
        return Link(self.server, self.wire, process, SimulatedRuntime(self.scheduler, process, Seeded(7)))

    def run(self, *functions: Callable[[Link], Any]) -> None:
        for index, function in enumerate(functions):
            link = self.link(f"p{index}")
            link.runtime.spawn("task", lambda function=function, link=link: function(link))
        self.scheduler.run()
        self.pool.close()
        assert self.scheduler.failure is None


def test_a_swap_keeps_what_is_not_ours_and_a_stale_one_is_refused() -> None:
    def work(link: Link) -> None:
        pointer = SimulatedTablePointer(link)
        base = pointer.load(T)
        assert pointer.swap(base, "b", NOTHING, NOTHING) == Swapped()
        moved = pointer.load(T)
        assert (moved.metadata_location, moved.previous_metadata_location) == ("b", "a")
        assert moved.parameters["kept"] == "yes"
        stale = pointer.swap(base, "c", NOTHING, NOTHING)
        assert isinstance(stale, Refused)
        assert stale.conflict
        assert pointer.alter(base, "c", base.parameters, expected=None) == Swapped()

    Site().run(work)


def test_rows_are_made_renamed_and_dropped() -> None:
    other = TableName("db", "other")

    def work(link: Link) -> None:
        pointer = SimulatedTablePointer(link)
        assert isinstance(pointer.create(T, "x", NOTHING, None), Refused)
        assert pointer.create(other, "x", NOTHING, None) == Swapped()
        assert isinstance(pointer.rename(pointer.load(T), other), Refused)
        assert pointer.drop(pointer.load(other)) == Swapped()
        assert pointer.rename(pointer.load(T), other) == Swapped()
        with pytest.raises(NoSuchTable):
            pointer.load(T)

    Site().run(work)


def first_answer(weather: Weather) -> dict[str, set[str]]:
    """What a swap answered, and where the pointer was then, over many seeds."""
    seen: dict[str, set[str]] = {}
    for seed in range(30):
        site = Site(weather, seed)

        def work(link: Link, site: Site = site) -> None:
            pointer = SimulatedTablePointer(link)
            try:
                base = pointer.load(T)
            except MetastoreUnavailable:
                return
            answer = pointer.swap(base, "b", NOTHING, NOTHING)
            seen.setdefault(type(answer).__name__, set()).add(site.server.get(T)[METADATA_LOCATION])

        site.run(work)
    return seen


def test_a_lost_request_moves_nothing_and_a_lost_reply_has_moved() -> None:
    assert first_answer(Weather(lost_requests=ALL_OF))["Unanswered"] == {"a"}
    assert first_answer(Weather(lost_replies=ALL_OF))["Unanswered"] == {"b"}


def test_a_metastore_may_refuse_what_it_has_committed() -> None:
    assert first_answer(Weather(refused_own=ALL_OF)) == {"Refused": {"b"}, "Swapped": {"b"}}


def test_an_error_that_is_no_conflict_has_done_nothing() -> None:
    assert first_answer(Weather(errors=ALL_OF)) == {"Refused": {"a"}, "Swapped": {"b"}}


def test_a_late_swap_arrives_when_it_was_given_up_or_not_at_all() -> None:
    site = Site(Weather(late_moves=ALL_OF), seed=2)
    answers: list[Any] = []

    def work(link: Link) -> None:
        pointer = SimulatedTablePointer(link)
        base = pointer.load(T)
        while not answers or isinstance(answers[-1], Swapped):
            base = pointer.load(T)
            answers.append(pointer.swap(base, f"b{len(answers)}", NOTHING, NOTHING))

    site.run(work)
    assert isinstance(answers[-1], Unanswered)
    assert site.server.get(T)[METADATA_LOCATION] == f"b{len(answers) - 1}"
    assert any("late swap" in line for line in site.wire.trace.lines())


def test_a_doubled_swap_is_refused_the_second_time() -> None:
    site = Site(Weather(doubled_moves=ALL_OF), seed=2)

    def work(link: Link) -> None:
        pointer = SimulatedTablePointer(link)
        for number in range(5):
            assert pointer.swap(pointer.load(T), f"b{number}", NOTHING, NOTHING) == Swapped()

    site.run(work)
    assert site.server.get(T)[METADATA_LOCATION] == "b4"
    late = [line for line in site.wire.trace.lines() if "late swap" in line]
    assert late
    assert all("The table has been modified" in line for line in late)


def test_what_must_be_fenced_is_not_sent_to_a_server_that_does_not_compare() -> None:
    site = Site(settings={"verdict": Verdict.IGNORED})

    def work(link: Link) -> None:
        pointer = SimulatedTablePointer(link)
        with pytest.raises(MetastoreUnavailable):
            pointer.swap(pointer.load(T), "b", NOTHING, NOTHING, only_fenced=True)

    site.run(work)
    assert site.server.get(T)[METADATA_LOCATION] == "a"


def test_only_a_server_that_is_seen_to_compare_fences() -> None:
    fenced = set()
    for verdict in Verdict:
        site = Site(Weather(lost_replies=ALL_OF), seed=3, settings={"verdict": verdict})

        def work(link: Link, verdict: Verdict = verdict) -> None:
            pointer = SimulatedTablePointer(link)
            for number in range(50):
                answer = None
                try:
                    answer = pointer.swap(pointer.load(T), f"b{number}", NOTHING, NOTHING)
                except MetastoreUnavailable:
                    continue
                if isinstance(answer, Unanswered):
                    fenced.add((verdict, answer.fenced))

        site.run(work)
    assert (Verdict.ATOMIC, True) in fenced
    assert not any(is_fenced for verdict, is_fenced in fenced if verdict is not Verdict.ATOMIC)


def test_a_silence_is_noticed_within_the_socket_timeout() -> None:
    site = Site(Weather(lost_requests=ALL_OF), seed=4)
    site.run(lambda link: _until_unavailable(link))
    assert site.scheduler.now < SOCKET_TIMEOUT + 1.0


def _until_unavailable(link: Link) -> None:
    pointer = SimulatedTablePointer(link)
    while True:
        try:
            pointer.load(T)
        except MetastoreUnavailable:
            return


def test_locks_exclude_one_another() -> None:
    site = Site()
    inside: list[str] = []

    def work(link: Link) -> None:
        held = SimulatedTableLock(link).acquire(T, wait_seconds=300.0, request=link.process.name)
        inside.append(link.process.name)
        link.runtime.sleep(100.0)
        assert inside == [link.process.name]
        inside.pop()
        held.release()
        held.release()

    site.run(work, work, work)
    assert site.server.locks == []


@pytest.mark.parametrize(
    ("table", "process", "behind"), [(T, "java1", True), (T, "ours", False), (TableName("db", "u"), "java1", False)]
)
def test_a_lock_tells_whether_a_foreign_writer_had_it_before(table: TableName, process: str, behind: bool) -> None:
    site = Site()
    before = site.server.enqueue(table, "before", process)
    told: list[bool] = []

    def work(link: Link) -> None:
        lock = SimulatedTableLock(replace(link, foreign=frozenset(("java1",))))
        for _ in range(2):
            held = lock.acquire(T, wait_seconds=300.0, request="r")
            told.append(held.behind_foreign)
            held.release()

    def leave(link: Link) -> None:
        link.runtime.sleep(20.0)
        site.server.unlock(before)

    site.run(work, leave)
    assert told == [behind, False]


def test_heartbeats_keep_a_lock_beyond_its_lease() -> None:
    site = Site()

    def work(link: Link) -> None:
        held = SimulatedTableLock(link).acquire(T, wait_seconds=5.0, request="r")
        link.runtime.sleep(1000.0)
        assert link.runtime.now() - held.covered_since() < 10.0
        held.renew()
        held.release()

    site.run(work)


def test_a_lock_is_lost_with_its_entry() -> None:
    site = Site()

    def work(link: Link) -> None:
        held = SimulatedTableLock(link).acquire(T, wait_seconds=5.0, request="r")
        site.server.locks.clear()
        with pytest.raises(LockLost):
            held.renew()
        with pytest.raises(LockLost):
            held.covered_since()
        held.release()

    site.run(work)


def test_a_process_that_slept_past_its_lease_knows_it() -> None:
    site = Site()

    def work(link: Link) -> None:
        held = SimulatedTableLock(link).acquire(T, wait_seconds=5.0, request="r")
        link.process.paused_until = 200.0
        site.scheduler.step()
        with pytest.raises(LockLost):
            held.covered_since()

    site.run(work)


def test_whoever_gives_up_leaves_no_entry() -> None:
    site = Site()
    site.server.enqueue(T, "holder", "other")

    def work(link: Link) -> None:
        with pytest.raises(LockNotAcquired):
            SimulatedTableLock(link).acquire(T, wait_seconds=20.0, request="r")

    site.run(work)
    assert [entry.request for entry in site.server.locks] == ["holder"]


def test_a_lost_reply_makes_no_second_entry() -> None:
    for seed in range(20):
        site = Site(Weather(lost_replies=2, lost_requests=2), seed=seed)

        def work(link: Link, site: Site = site) -> None:
            SimulatedTableLock(link).acquire(T, wait_seconds=20.0, request="r")
            assert len(site.server.locks) == 1

        site.run(work)


def test_a_swap_writes_the_tables_properties_and_removes_those_that_are_gone() -> None:
    def properties(**given: str) -> TableMetadata:
        return TableMetadata({"properties": given})

    def work(link: Link) -> None:
        pointer = SimulatedTablePointer(link)
        pointer.swap(pointer.load(T), "b", properties(mark="1", old="2"), properties())
        pointer.swap(pointer.load(T), "c", properties(mark="3"), properties(mark="1", old="2"))
        row = pointer.load(T)
        assert (row.parameters["mark"], row.parameters["kept"]) == ("3", "yes")
        assert "old" not in row.parameters

    Site().run(work)


def test_where_the_lock_api_is_broken_a_lock_is_unavailable_and_what_is_held_lives_on_until_its_lease_ends() -> None:
    site = Site()

    def work(link: Link) -> None:
        held = SimulatedTableLock(link).acquire(T, wait_seconds=5.0, request="r")
        site.server.lock_api_works = False
        with pytest.raises(LockUnavailable):
            SimulatedTableLock(link).acquire(T, wait_seconds=5.0, request="r2")
        link.runtime.sleep(20.0)
        held.ensure()
        link.runtime.sleep(20.0)
        with pytest.raises(LockUnavailable):
            held.ensure()
        link.runtime.sleep(30.0)
        with pytest.raises(LockLost):
            held.ensure()

    site.run(work)


def test_for_a_process_whose_server_has_no_lock_api_there_is_no_lock() -> None:
    def work(link: Link) -> None:
        with pytest.raises(LockUnavailable):
            SimulatedTableLock(replace(link, blind=True)).acquire(T, wait_seconds=5.0, request="r")

    Site().run(work)
