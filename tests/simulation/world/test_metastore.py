from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    AlreadyExistsException,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
)

from iceberg_hms.coordinator.ports import TableName
from simulation.engine.runtime import EPOCH_MS
from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.metastore import METADATA_LOCATION, Metastore, RowChange, iceberg_row

T, OTHER = TableName("db", "t"), TableName("db", "other")


def row(location: str, name: TableName = T) -> Any:
    return iceberg_row(name, {METADATA_LOCATION: location})


def metastore(**settings: Any) -> tuple[Metastore, Scheduler, list[RowChange]]:
    scheduler = Scheduler(SeededRandom(1), WorkerPool())
    server = Metastore(scheduler, **settings)
    server.rows[T] = row("a")
    changes: list[RowChange] = []
    server.on_row_change = changes.append
    return server, scheduler, changes


def test_each_insertion_renaming_and_deletion_of_a_row_is_reported() -> None:
    server, _, changes = metastore()
    with pytest.raises(AlreadyExistsException):
        server.insert(row("x"), process="p")
    server.write(T, row("b"), expected="a", process="p")
    server.write(T, row("b", OTHER), expected=None, process="p")
    server.insert(row("x"), process="q")
    server.remove(T, process="q")
    for call in (lambda: server.get(T), lambda: server.remove(T, process="q")):
        with pytest.raises(NoSuchObjectException):
            call()
    assert changes == [
        RowChange(T, "b", "a", "a", "p"),
        RowChange(OTHER, "b", "b", None, "p", renamed_from=T),
        RowChange(T, "x", None, None, "q"),
        RowChange(T, None, "x", None, "q"),
    ]
    assert server.location(OTHER) == "b"


def test_a_transaction_in_doubt_keeps_its_rows_and_nobody_sees_what_it_changed() -> None:
    server, scheduler, changes = metastore()
    process, commits = Process("p"), list[Callable[[], None]]()

    def work() -> None:
        commits.append(server.prepare_call(lambda: server.write(T, row("b", OTHER), expected="a", process="p")))
        assert server.location(T) == "a"
        for call in (
            lambda: server.write(T, row("c"), expected=None, process="q"),
            lambda: server.insert(row("x", OTHER), process="q"),
            lambda: server.remove(T, process="q"),
        ):
            before = scheduler.now
            with pytest.raises(MetaException, match="lock timeout"):
                call()
            assert 20.0 <= scheduler.now - before < 21.0
        assert changes == []
        scheduler.spawn(process, "the standby is back", commits[0])
        # It waits, and finds what was in doubt.
        with pytest.raises(MetaException, match="another one by now"):
            server.write(T, row("c"), expected=None, process="q")
        server.write(OTHER, row("c", OTHER), expected=None, process="q")

    scheduler.spawn(process, "work", work)
    scheduler.run()
    assert scheduler.failure is None
    assert changes == [
        RowChange(OTHER, "b", "a", "a", "p", renamed_from=T),
        RowChange(OTHER, "c", "b", None, "q", replaced_unseen=True),
    ]


@pytest.mark.parametrize(
    ("sent", "slept", "came", "reaper", "slept_past_lease"),
    [
        (50.0, (50.0, 70.0), 70.0, True, True),
        (50.0, (50.0, 70.0), 70.0, False, False),
        (50.0, (50.0, 70.0), 60.0, True, False),
        (50.0, (52.0, 70.0), 65.0, True, True),
        (50.0, (62.0, 70.0), 70.0, True, False),
        (61.0, (50.0, 70.0), 70.0, True, False),
    ],
    ids=[
        "asleep as it goes out",
        "where nobody reaps its lock",
        "early enough",
        "asleep while it is under way",
        "awake all the lease",
        "sent too late",
    ],
)
def test_a_swap_is_overslept_only_if_its_writer_slept_past_the_lease_of_a_lock_that_it_had(
    sent: float, slept: tuple[float, float], came: float, reaper: bool, slept_past_lease: bool
) -> None:
    """Its lease of 60 s began at 0 s."""
    server, scheduler, changes = metastore(lease_seconds=60.0, reaper=reaper)
    process = Process("p", sleeps=[slept])
    assert server.check(server.enqueue(T, "info", "p"))
    scheduler.now = sent
    server.watch_lock(T, "b", process)
    scheduler.now = came
    server.write(T, row("b"), expected=None, process="p")
    server.write(T, row("c"), expected=None, process="q")
    assert changes == [
        RowChange(T, "b", "a", None, "p", slept_past_lease=slept_past_lease),
        RowChange(T, "c", "b", None, "q", replaced_unseen=slept_past_lease),
    ]


def test_a_row_that_is_no_table_of_ours_is_nobodys_business() -> None:
    server, _, changes = metastore()
    server.insert(iceberg_row(OTHER, {}), process="p")
    server.remove(OTHER, process="p")
    assert changes == []


def test_a_reader_may_change_its_copy_of_a_row() -> None:
    server, _, _ = metastore()
    server.get(T).parameters[METADATA_LOCATION] = "mine"
    assert server.location(T) == "a"


def test_locks_queue_by_table_in_the_order_of_their_arrival() -> None:
    server, _, _ = metastore()
    first, second, elsewhere = (
        server.enqueue(T, "r1", "p"),
        server.enqueue(T, "r2", "q"),
        server.enqueue(OTHER, "r3", "q"),
    )
    assert (server.check(first), server.check(second), server.check(elsewhere)) == (True, False, True)
    assert [entry.agent_info for entry in server.entries(T)] == ["r1", "r2"]
    assert len(server.entries()) == 3
    server.unlock(first, "a")
    server.unlock(first, "a")
    with pytest.raises(NoSuchLockException):
        server.check(first)
    assert server.check(second) is True


def test_the_reaper_takes_what_nobody_renewed_waiting_or_not() -> None:
    server, scheduler, _ = metastore(lease_seconds=60.0)
    first, second = server.enqueue(T, "r1", "p"), server.enqueue(T, "r2", "q")
    scheduler.now = 50.0
    assert server.check(first) is True
    scheduler.now = 100.0
    assert server.renew(first).id == first
    for gone in (second, first):
        with pytest.raises(NoSuchLockException):
            server.check(gone)
        scheduler.now = 161.0


def test_a_late_reaper_leaves_what_is_over_and_none_leaves_it_for_ever() -> None:
    late, scheduler, _ = metastore(lease_seconds=60.0, reaper_delay=60.0)
    lock = late.enqueue(T, "r1", "p")
    scheduler.now = 100.0
    assert [entry.id for entry in late.entries(T)] == [lock]
    never, scheduler, _ = metastore(lease_seconds=60.0, reaper=False)
    never.enqueue(T, "r1", "p")
    waiting = never.enqueue(T, "r2", "q")
    scheduler.now = 1e6
    assert never.check(waiting) is False


def test_the_process_that_acquires_a_lock_is_reported() -> None:
    server, _, _ = metastore()
    answer: list[str] = []
    server.on_acquired = answer.append
    first, second = server.enqueue(T, "r1", "p"), server.enqueue(T, "r2", "q")
    server.check(second)
    server.check(first)
    server.check(first)
    assert answer == ["p"]


def test_heartbeats_have_the_time_of_the_databases_clock() -> None:
    server, scheduler, _ = metastore(skew_ms=5_000)
    scheduler.now = 2.0
    server.enqueue(T, "r1", "p")
    assert server.heartbeat_ms(server.locks[0]) == EPOCH_MS + 7_000


def test_a_database_says_its_marks() -> None:
    server, _, _ = metastore()
    server.add_database("db", {"mark": "1"})
    assert server.database_parameters("db") == {"mark": "1"}
