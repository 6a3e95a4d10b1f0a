from __future__ import annotations

import threading

import pytest

from simulation.engine.scheduler import Crashed, Process, Scheduler, Task, WorkerPool
from simulation.engine.seeded import SeededRandom
from tests.simulation.manual_schedule import run_tasks


def order(seed: int) -> list[str]:
    seen: list[str] = []

    def work(name: str, scheduler: Scheduler) -> None:
        for _ in range(4):
            scheduler.step()
            seen.append(name)

    run_tasks(lambda s: work("a", s), lambda s: work("b", s), lambda s: work("c", s), seed=seed)
    return seen


def test_a_seed_decides_the_order_and_another_seed_another_one() -> None:
    assert order(1) == order(1)
    assert sorted(order(1)) == sorted("aaaabbbbcccc")
    assert len({tuple(order(seed)) for seed in range(20)}) > 10


def test_one_task_runs_at_a_time() -> None:
    running: list[int] = []
    most: list[int] = []

    def work(scheduler: Scheduler) -> None:
        for _ in range(50):
            running.append(threading.get_ident())
            most.append(len(running))
            running.pop()
            scheduler.step()

    assert run_tasks(work, work, work).failure is None
    assert set(most) == {1}


def test_the_clock_jumps_to_the_next_deadline() -> None:
    seen: list[tuple[str, int]] = []

    def sleep(name: str, seconds: float, scheduler: Scheduler) -> None:
        scheduler.sleep(seconds)
        seen.append((name, round(scheduler.now)))

    run_tasks(lambda s: sleep("long", 5000.0, s), lambda s: sleep("short", 100.0, s))
    assert seen == [("short", 100), ("long", 5000)]


def test_a_deadlock_names_the_waiting_tasks() -> None:
    scheduler = run_tasks(lambda s: s.wait([], None), lambda s: s.sleep(3.0))
    assert scheduler.failure == "terminates: deadlock, these tasks wait for ever: p0/task"


def test_a_wait_ends_with_its_time_or_when_it_is_woken() -> None:
    waiters: list[Task] = []
    seen: list[tuple[str, int]] = []

    def wait(name: str, timeout: float | None, scheduler: Scheduler) -> None:
        scheduler.wait(waiters, timeout)
        seen.append((name, round(scheduler.now)))

    def wake(scheduler: Scheduler) -> None:
        scheduler.sleep(50.0)
        scheduler.wake(waiters)

    run_tasks(lambda s: wait("timed", 10.0, s), lambda s: wait("woken", None, s), wake)
    assert seen == [("timed", 10), ("woken", 50)]


def spin(scheduler: Scheduler) -> None:
    while True:
        scheduler.step()


@pytest.mark.parametrize("bounds", [{"max_steps": 100}, {"max_seconds": 0.5}])
def test_what_never_rests_is_ended(bounds: dict[str, float]) -> None:
    scheduler = run_tasks(spin, spin, **bounds)
    assert (scheduler.failure or "").startswith("terminates: still running after")


def test_a_crashed_process_does_nothing_more_not_even_in_finally() -> None:
    process, other = Process("p"), Process("other")
    pool = WorkerPool()
    scheduler = Scheduler(SeededRandom(1), pool)
    done: list[str] = []

    def first() -> None:
        try:
            scheduler.sleep(10.0)
            done.append("slept")
        finally:
            scheduler.step()
            done.append("cleaned up")

    def second() -> None:
        scheduler.sleep(1.0)
        scheduler.spawn(process, "third", lambda: done.append("third"))
        scheduler.crash(process)
        done.append("after the crash")

    scheduler.spawn(process, "first", first)
    scheduler.spawn(process, "second", second)
    scheduler.spawn(other, "other", lambda: (scheduler.sleep(100.0), done.append("other"))[-1])
    scheduler.run()
    pool.close()
    assert done == ["other"]
    assert scheduler.failure is None
    with pytest.raises(Crashed):
        scheduler.spawn(process, "late", lambda: None)


def test_a_paused_process_wakes_later_and_the_others_go_on() -> None:
    seen: list[tuple[str, int]] = []

    def sleeper(scheduler: Scheduler) -> None:
        scheduler.current.process.paused_until = 500.0
        scheduler.step()
        seen.append(("sleeper", round(scheduler.now)))

    def other(scheduler: Scheduler) -> None:
        for _ in range(3):
            scheduler.sleep(100.0)
        seen.append(("other", round(scheduler.now)))

    run_tasks(sleeper, other)
    assert seen == [("other", 300), ("sleeper", 500)]


def test_a_task_that_raises_is_a_finding() -> None:
    def fail(_scheduler: Scheduler) -> None:
        raise ValueError("oh")

    assert run_tasks(fail, spin).failure == "p0/task raised ValueError: oh"


def test_background_tasks_end_with_the_others() -> None:
    pool = WorkerPool()
    scheduler = Scheduler(SeededRandom(1), pool)
    scheduler.spawn(Process("p"), "background", lambda: spin(scheduler), background=True)
    scheduler.spawn(Process("q"), "work", lambda: scheduler.sleep(2.0))
    scheduler.run()
    assert scheduler.failure is None
    assert scheduler.tasks == []
    pool.close()


def test_when_all_is_idle_more_may_be_begun_once() -> None:
    pool = WorkerPool()
    scheduler = Scheduler(SeededRandom(1), pool)
    seen: list[str] = []
    scheduler.spawn(Process("p"), "work", lambda: seen.append("work"))
    scheduler.when_idle = lambda: scheduler.spawn(Process("q"), "more", lambda: seen.append("more"))
    scheduler.run()
    pool.close()
    assert seen == ["work", "more"]


def test_threads_are_used_again() -> None:
    pool = WorkerPool()
    for seed in range(5):
        scheduler = Scheduler(SeededRandom(seed), pool)
        for index in range(3):
            scheduler.spawn(Process(f"p{index}"), "task", scheduler.step)
        scheduler.run()
    assert len(pool.idle) == 3
    pool.close()
    assert pool.idle == []


def test_outside_of_tasks_nobody_is_current() -> None:
    with pytest.raises(RuntimeError, match="no task runs"):
        Scheduler(SeededRandom(1), WorkerPool()).step()


def test_a_process_that_slept_may_have_done_before_what_is_seen_after() -> None:
    process = Process("one", sleeps=[(1.0, 4.0), (10.0, 20.0), (30.0, 40.0)])
    assert process.awake_since(5.0, 45.0) == 10.0
    assert process.awake_since(12.0, 45.0) == 10.0
    assert process.awake_since(41.0, 45.0) == 45.0
