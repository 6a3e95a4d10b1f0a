from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.faults import FaultPlan, TraceEvent, Wire

#: Strikes at once while its budget lasts.
SURE = 1_000.0
ALL_OF = 1_000_000


def run(
    faults: FaultPlan,
    work: Callable[[Wire, Process], Any],
    seed: int = 1,
    prepare: Callable[[Wire], Any] | None = None,
) -> tuple[Wire, Scheduler]:
    pool = WorkerPool()
    scheduler = Scheduler(SeededRandom(seed), pool)
    wire = Wire(scheduler, SeededRandom(seed), faults, lease_seconds=60.0)
    if prepare is not None:
        prepare(wire)
    process = Process("p")
    scheduler.spawn(process, "task", lambda: work(wire, process))
    scheduler.run()
    pool.close()
    return wire, scheduler


def call(wire: Wire, process: Process) -> Any:
    wire.before_call(process, "get", SURE)
    wire.note(process, "get", "done")
    wire.after_call(process, "get <-", SURE)
    return "done"


def test_in_fine_weather_nothing_happens_to_a_call() -> None:
    seen: list[Any] = []
    wire, scheduler = run(FaultPlan(), lambda wire, process: seen.append(call(wire, process)))
    assert seen == ["done"]
    assert [str(event) for event in wire.trace.events] == [f"     0.002  p          {'get':<36} done"]
    assert scheduler.failure is None


def test_a_crash_ends_the_process_and_is_reported() -> None:
    crashed: list[str] = []
    done: list[int] = []
    _, scheduler = run(
        FaultPlan(crashes=ALL_OF),
        lambda wire, process: (call(wire, process), done.append(1))[-1],
        prepare=lambda wire: setattr(wire, "on_crash", lambda process: crashed.append(process.name)),
    )
    assert crashed == ["p"]
    assert done == []
    assert scheduler.failure is None


def test_a_process_that_is_lasting_and_punctual_neither_crashes_nor_sleeps() -> None:
    seen: list[Any] = []

    def prepare(wire: Wire) -> None:
        wire.never_crashing.add("p")
        wire.never_paused.add("p")

    _, scheduler = run(FaultPlan(crashes=ALL_OF, pauses=ALL_OF), lambda w, p: seen.append(call(w, p)), prepare=prepare)
    assert seen == ["done"]
    assert scheduler.now < 1.0


def test_a_pause_is_longer_than_a_lease() -> None:
    for seed in range(5):
        _, scheduler = run(FaultPlan(pauses=1), lambda w, p: call(w, p) and call(w, p), seed=seed)
        assert scheduler.now < 1.0 or scheduler.now > 60.0


def test_who_sleeps_may_wake_when_somebody_else_gets_a_lock() -> None:
    woken: list[float] = []
    for seed in range(20):
        wire = Wire(Scheduler(SeededRandom(seed), WorkerPool()), SeededRandom(seed), FaultPlan(), lease_seconds=60.0)
        process = Process("p")
        wire.delay(process, 900.0)
        before = process.paused_until
        wire.on_acquired("p")
        assert process.paused_until == before
        wire.on_acquired("other")
        woken.append(process.paused_until < before)
    assert 3 < sum(woken) < 18


def test_no_more_faults_than_the_weather_allows_and_none_when_it_has_cleared_up() -> None:
    scheduler = Scheduler(SeededRandom(1), WorkerPool())
    for each in fields(FaultPlan):
        wire = Wire(scheduler, SeededRandom(1), FaultPlan(**{each.name: 3}), lease_seconds=60.0)
        assert sum(wire.strikes(each.name, SURE) for _ in range(100)) <= 3
        cleared = Wire(scheduler, SeededRandom(1), FaultPlan(**{each.name: ALL_OF}), lease_seconds=60.0)
        cleared.stop_faults()
        assert not any(cleared.strikes(each.name, SURE) for _ in range(10))


def test_some_time_is_of_every_order_of_magnitude() -> None:
    wire = Wire(Scheduler(SeededRandom(1), WorkerPool()), SeededRandom(1), FaultPlan(), lease_seconds=60.0)
    times = [wire.random_duration(1000.0) for _ in range(200)]
    assert min(times) < 0.1
    assert max(times) > 500.0
    assert max(times) < 1000.0


def test_a_line_of_a_trace_is_short() -> None:
    name = "file:/t/metadata/00001-2aac15c7-e177-4691-8239-31128ddd586a.metadata.json"
    line = str(TraceEvent(1.5, "w1", f"swap {name}", ValueError("file:/t/x.json is there")))
    assert line == f"     1.500  w1         {'swap 00001-2aac15c7.metadata.json':<36} ValueError: x.json is there"


def test_a_late_change_may_arrive_just_before_another_one() -> None:
    orders: set[tuple[str, ...]] = set()

    def work(wire: Wire, process: Process) -> None:
        made: list[str] = []
        courier = Process("network")
        wire.delay_change(courier, "swap a", 500.0)
        wire.scheduler.spawn(courier, "late swap a", lambda: made.append(f"late at {wire.scheduler.now > 400.0}"))
        wire.on_change_sent("swap a")
        wire.on_change_sent("swap b")
        orders.add((*made, "swap b"))

    for seed in range(20):
        run(FaultPlan(), work, seed)
    assert orders == {("swap b",), ("late at False", "swap b")}
