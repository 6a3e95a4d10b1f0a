from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.coordinator.ports import Refused, Swapped, TableName
from iceberg_hms.errors import AlreadyExists, LockUnavailable, MetastoreRefused, NoSuchTable
from iceberg_hms.testing.simulation.metastore import METADATA_LOCATION, Metastore, Moved, Verdict
from iceberg_hms.testing.simulation.scheduler import Scheduler, WorkerPool
from iceberg_hms.testing.simulation.seeded import Seeded
from tests.testing.simulation.worlds import run_tasks

T, OTHER = TableName("db", "t"), TableName("db", "other")


def at(location: str) -> dict[str, str]:
    return {METADATA_LOCATION: location}


def metastore(**settings: Any) -> tuple[Metastore, Scheduler]:
    scheduler = Scheduler(Seeded(1), WorkerPool())
    server = Metastore(scheduler, **settings)
    server.rows[T] = at("a")
    return server, scheduler


def test_an_atomic_server_swaps_what_is_expected_and_refuses_the_rest() -> None:
    server, _ = metastore()
    moves: list[Moved] = []
    server.on_move = moves.append
    assert server.alter(T, at("b"), expected="a", process="p") == Swapped()
    refused = server.alter(T, at("c"), expected="a", process="p")
    assert isinstance(refused, Refused)
    assert refused.conflict
    assert "The table has been modified" in str(refused.error)
    assert server.get(T)[METADATA_LOCATION] == "b"
    assert moves == [Moved(T, "b", "a", "a", "p")]


def test_a_blind_alter_asks_nothing() -> None:
    server, _ = metastore()
    assert server.alter(T, at("c"), expected=None, process="p") == Swapped()


def test_a_server_that_ignores_the_key_swaps_whatever_is_there() -> None:
    server, _ = metastore(verdict=Verdict.IGNORED)
    assert server.alter(T, at("c"), expected="z", process="p") == Swapped()


def test_a_broken_server_refuses_every_expected_value_and_it_is_no_conflict() -> None:
    server, _ = metastore(verdict=Verdict.BROKEN)
    refused = server.alter(T, at("c"), expected="a", process="p")
    assert isinstance(refused, Refused)
    assert not refused.conflict
    assert server.alter(T, at("c"), expected=None, process="p") == Swapped()


@pytest.mark.parametrize(("verdict", "most"), [(Verdict.ATOMIC, 1), (Verdict.CHECKED, 2)])
def test_between_check_and_swap_another_one_may_come_unless_they_are_one(verdict: Verdict, most: int) -> None:
    swapped = []
    for seed in range(10):
        answers: list[Any] = []

        def work(scheduler: Scheduler, server: list[Metastore], to: str, answers: list[Any] = answers) -> None:
            if not server:
                server.append(Metastore(scheduler, verdict=verdict))
                server[0].rows[T] = at("a")
            answers.append(server[0].alter(T, at(to), expected="a", process="p"))

        server: list[Metastore] = []
        run_tasks(
            lambda s, server=server: work(s, server, "b"), lambda s, server=server: work(s, server, "c"), seed=seed
        )
        swapped.append(answers.count(Swapped()))
    assert max(swapped) == most


def test_rows_come_and_go_and_are_renamed() -> None:
    server, _ = metastore()
    assert isinstance(server.insert(T, at("x"), process="p"), Refused)
    assert server.rename(T, OTHER, at("a"), expected="a", process="p") == Swapped()
    assert server.insert(T, at("x"), process="p") == Swapped()
    taken = server.rename(T, OTHER, at("x"), expected="x", process="p")
    assert isinstance(taken, Refused)
    assert isinstance(taken.error, AlreadyExists)
    stale = server.rename(T, TableName("db", "free"), at("y"), expected="y", process="p")
    assert isinstance(stale, Refused)
    assert isinstance(stale.error, MetastoreRefused)
    assert server.remove(T, process="p") == Swapped()
    assert isinstance(server.remove(T, process="p"), Refused)
    gone = server.alter(T, at("b"), expected=None, process="p")
    assert isinstance(gone, Refused)
    assert isinstance(gone.error, NoSuchTable)
    assert isinstance(server.alter(T, at("b"), expected="a", process="p"), Refused)
    with pytest.raises(NoSuchTable):
        server.get(T)


def test_locks_queue_by_table_in_the_order_of_their_arrival() -> None:
    server, _ = metastore()
    first, second, elsewhere = (
        server.enqueue(T, "r1", "p"),
        server.enqueue(T, "r2", "q"),
        server.enqueue(OTHER, "r3", "q"),
    )
    assert (server.check(first), server.check(second), server.check(elsewhere)) == (True, False, True)
    assert [entry.waited for entry in server.locks] == [False, True, False]
    assert server.find(T, "r2") == second
    assert server.find(OTHER, "r2") is None
    assert server.holds(T, "p")
    assert server.unlock(first)
    assert not server.unlock(first)
    assert server.check(first) is None
    assert server.check(second) is True
    assert not server.holds(T, "p")


def test_the_reaper_takes_what_nobody_renewed_waiting_or_not() -> None:
    server, scheduler = metastore(lease_seconds=60.0)
    first, second = server.enqueue(T, "r1", "p"), server.enqueue(T, "r2", "q")
    scheduler.now = 50.0
    assert server.check(first) is True
    scheduler.now = 100.0
    assert server.check(first) is True
    assert server.check(second) is None
    scheduler.now = 161.0
    assert server.check(first) is None


def test_a_late_reaper_leaves_what_is_over_and_none_leaves_it_for_ever() -> None:
    late, scheduler = metastore(lease_seconds=60.0, reaper_delay=60.0)
    lock = late.enqueue(T, "r1", "p")
    scheduler.now = 100.0
    assert late.find(T, "r1") == lock
    never, scheduler = metastore(lease_seconds=60.0, reaper=False)
    never.enqueue(T, "r1", "p")
    waiting = never.enqueue(T, "r2", "q")
    scheduler.now = 1e6
    assert never.check(waiting) is False


def test_who_gets_a_lock_is_told() -> None:
    server, _ = metastore()
    told: list[str] = []
    server.on_acquired = told.append
    first, second = server.enqueue(T, "r1", "p"), server.enqueue(T, "r2", "q")
    server.check(second)
    server.check(first)
    server.check(first)
    assert told == ["p"]


def test_a_rename_is_told_as_one_move_and_writes_the_row_back_whole() -> None:
    server, _ = metastore(verdict=Verdict.IGNORED)
    moves: list[Moved] = []
    server.on_move = moves.append
    server.alter(T, at("b"), expected=None, process="q")
    stale = server.rename(T, OTHER, at("a"), expected="a", process="p")
    assert stale == Swapped()
    assert server.rows == {OTHER: at("a")}
    assert moves[1] == Moved(OTHER, "a", "b", "a", "p", was=T)


def test_a_lock_api_that_is_broken_answers_no_lock_call_and_keeps_its_entries() -> None:
    server, _ = metastore()
    lock = server.enqueue(T, "r1", "p")
    server.lock_api_works = False
    for call in (
        lambda: server.enqueue(T, "r2", "p"),
        lambda: server.check(lock),
        lambda: server.find(T, "r1"),
        lambda: server.unlock(lock),
    ):
        with pytest.raises(LockUnavailable):
            call()
    server.lock_api_works = True
    assert server.check(lock) is True
