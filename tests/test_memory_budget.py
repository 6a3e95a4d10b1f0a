from __future__ import annotations

import gc
import threading

import pytest

from iceberg_hms.errors import ResourceExhausted
from iceberg_hms.memory_budget import LARGE_BYTES, MemoryBudget
from iceberg_hms.work import NOBODY, owned_by


def test_one_owner_holds_half_and_all_together_the_whole() -> None:
    budget = MemoryBudget(1_000)
    first, again, second, third = (budget.share(name) for name in ("a", "a", "b", "c"))
    assert first.resize(300)
    assert not again.resize(201)
    assert again.resize(200)
    assert second.resize(500)
    assert not third.resize(1)
    assert budget.held() == 1_000


def test_what_is_no_caller_s_gets_all_of_it() -> None:
    budget = MemoryBudget(1_000)
    held = budget.share(NOBODY)
    assert held.resize(1_000)
    assert not budget.share("a").resize(1)


def test_the_largest_thing_fits_for_a_caller_who_holds_nothing_else() -> None:
    budget = MemoryBudget(1_000, largest=800)
    assert budget.share("a").resize(800)
    assert not budget.share("a").resize(801)


def test_what_nobody_has_any_more_is_free_again() -> None:
    budget = MemoryBudget(1_000)
    held = budget.share("a")
    assert held.resize(500)
    held = budget.share("a")
    assert budget.held() == 0
    assert held.resize(400)
    assert held.resize(100)
    assert budget.held() == 100


def test_what_must_not_be_refused_counts_all_the_same() -> None:
    budget = MemoryBudget(1_000)
    held = budget.share("a")
    held.set_to(5_000)
    assert not budget.share("b").resize(1)
    held.set_to(10)
    assert budget.held() == 10


def test_a_budget_without_a_limit_refuses_nothing() -> None:
    assert MemoryBudget().share().resize(2**60)


def test_caches_give_way_before_anything_is_refused() -> None:
    budget = MemoryBudget(1_000)
    kept = [budget.share("a")]
    kept[0].set_to(500)
    budget.add_cache(kept.clear)
    assert budget.share("a").resize(500)
    assert kept == []


def test_work_counts_for_its_owner() -> None:
    budget = MemoryBudget(1_000)
    with owned_by("a"):
        held = budget.share()
    assert held.resize(500)
    assert not budget.share("a").resize(1)


def test_the_collector_may_free_what_is_held_at_any_moment() -> None:
    """It may run while the budget's own mutex is held, and in any thread."""
    budget, over = MemoryBudget(10**9), threading.Event()

    def circles() -> None:
        while not over.is_set():
            circle: list[object] = [budget.share("a")]
            circle.append(circle)
            budget.share("b").resize(10)
            gc.collect(0)

    threads = [threading.Thread(target=circles) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2_000):
        assert budget.share("c").resize(10)
    over.set()
    for thread in threads:
        thread.join(30)
    gc.collect()
    assert budget.held() == 0


def test_what_is_large_is_worked_on_by_one_thread_at_a_time() -> None:
    budget, began = MemoryBudget(), threading.Semaphore(0)

    def work() -> None:
        with budget.alone(LARGE_BYTES + 1):
            began.release()

    with budget.alone(LARGE_BYTES + 1):
        threading.Thread(target=work).start()
        with budget.alone(LARGE_BYTES):
            assert not began.acquire(timeout=0.05)
    assert began.acquire(timeout=30)


def test_what_must_fit_and_does_not_is_named_and_changes_nothing() -> None:
    held = MemoryBudget(10).share("ann")
    held.require(4, "a file")
    with pytest.raises(ResourceExhausted, match="leave no 11 bytes of memory for a file"):
        held.require(11, "a file")
    assert held.bytes == 4
