from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.testing.contracts import runtime as contract
from simulation.engine.runtime import EPOCH_MS, SimulatedRuntime
from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom


def run(*functions: Callable[[SimulatedRuntime], Any], seed: int = 1, skew_ms: int = 0) -> Scheduler:
    """Run functions as tasks of one process."""
    pool = WorkerPool()
    scheduler = Scheduler(SeededRandom(seed), pool)
    runtime = SimulatedRuntime(scheduler, Process("p", skew_ms), SeededRandom(seed))
    for function in functions:
        runtime.spawn("task", lambda function=function: function(runtime))
    scheduler.run()
    pool.close()
    return scheduler


def test_an_event_wakes_its_waiters_and_a_wait_times_out() -> None:
    seen: list[Any] = []

    def work(runtime: SimulatedRuntime) -> None:
        event = runtime.event()
        seen.append(event.wait(3.0))
        runtime.spawn("setter", lambda: (runtime.sleep(1.0), event.set())[-1])
        seen.append(event.wait(None))
        seen.append((event.is_set(), event.wait(0.0), round(runtime.now())))
        event.clear()
        seen.append((event.is_set(), event.wait(1.0)))

    assert run(work).failure is None
    assert seen == [False, True, (True, True, 4), (False, False)]


@pytest.mark.parametrize("seed", range(5))
def test_a_mutex_lets_one_in(seed: int) -> None:
    inside: list[int] = []
    mutexes: list[Any] = []

    def work(runtime: SimulatedRuntime) -> None:
        if not mutexes:
            mutexes.append(runtime.mutex())
        with mutexes[0]:
            inside.append(1)
            runtime.sleep(1.0)
            assert len(inside) == 1
            inside.pop()

    assert run(work, work, work, seed=seed).failure is None


def test_a_mutex_taken_twice_is_a_deadlock() -> None:
    def work(runtime: SimulatedRuntime) -> None:
        mutex = runtime.mutex()
        with mutex, mutex:
            pass

    assert "deadlock" in (run(work).failure or "")


def test_gather_gives_results_in_order_and_the_first_error_when_all_have_ended() -> None:
    seen: list[Any] = []

    def fail() -> None:
        raise ValueError("oh")

    def work(runtime: SimulatedRuntime) -> None:
        seen.append(runtime.gather([lambda: 1, lambda: 2, lambda: 3]))
        with pytest.raises(ValueError, match="oh"):
            runtime.gather([fail, lambda: seen.append("ran")])
        seen.append(runtime.gather([]))

    assert run(work).failure is None
    assert seen == [[1, 2, 3], "ran", []]


def test_the_order_of_what_is_gathered_is_the_seeds() -> None:
    orders = set()
    for seed in range(10):
        seen: list[int] = []
        run(lambda runtime, seen=seen: runtime.gather([lambda: seen.append(1), lambda: seen.append(2)]), seed=seed)
        orders.add(tuple(seen))
    assert orders == {(1, 2), (2, 1)}


def test_the_wall_clock_is_wrong_by_its_skew_and_the_monotonic_one_is_not() -> None:
    seen: list[Any] = []

    def work(runtime: SimulatedRuntime) -> None:
        runtime.sleep(10.0)
        seen.extend((runtime.now_ms() - EPOCH_MS, round(runtime.now()), round(runtime.monotonic())))

    run(work, skew_ms=-3_600_000)
    assert abs(seen[0] + 3_590_000) < 100
    assert seen[1:] == [10, 10]


def test_ids_are_of_the_seed() -> None:
    runtime = SimulatedRuntime(Scheduler(SeededRandom(1), WorkerPool()), Process("p"), SeededRandom(2))
    again = SimulatedRuntime(Scheduler(SeededRandom(9), WorkerPool()), Process("p"), SeededRandom(2))
    assert (runtime.uuid(), runtime.snapshot_id(), runtime.jitter()) == (
        again.uuid(),
        again.snapshot_id(),
        again.jitter(),
    )
    assert 0 <= runtime.snapshot_id() < 2**63


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_the_simulated_runtime_keeps_the_contract(check: contract.Check, seed: int) -> None:
    ran: list[bool] = []

    def work(runtime: SimulatedRuntime) -> None:
        check(runtime)
        ran.append(True)

    assert run(work, seed=seed).failure is None
    assert ran == [True]
