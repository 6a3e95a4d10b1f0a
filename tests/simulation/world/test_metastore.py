from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import AlreadyExists, NoSuchTable
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
    server.add_database("db", {})
    server.rows[T] = row("a")
    changes: list[RowChange] = []
    server.on_row_change = changes.append
    return server, scheduler, changes


def test_each_insertion_renaming_and_deletion_of_a_row_is_reported() -> None:
    server, _, changes = metastore()
    with pytest.raises(AlreadyExists):
        server.insert(T, row("x"), process="p")
    server.alter(T, T, row("b"), expected="a", process="p")
    server.alter(T, OTHER, row("b", OTHER), process="p")
    server.insert(T, row("x"), process="q")
    server.remove(T, process="q")
    for call in (lambda: server.get(T), lambda: server.remove(T, process="q")):
        with pytest.raises(NoSuchTable):
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
        commits.append(server.prepare_call(lambda: server.alter(T, OTHER, row("b", OTHER), expected="a", process="p")))
        assert server.location(T) == "a"
        for call in (
            lambda: server.alter(T, T, row("c"), process="q"),
            lambda: server.insert(OTHER, row("x", OTHER), process="q"),
            lambda: server.remove(T, process="q"),
        ):
            before = scheduler.now
            with pytest.raises(MetaException, match="lock timeout"):
                call()
            assert 20.0 <= scheduler.now - before < 21.0
        assert changes == []
        scheduler.spawn(process, "the standby is back", commits[0])
        # It waits, and finds what was in doubt.
        with pytest.raises(MetaException, match="another row by now"):
            server.alter(T, T, row("c"), process="q")
        server.alter(OTHER, OTHER, row("c", OTHER), process="q")

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
    assert server.locks.check(server.locks.enqueue(T, "info", "p").id)
    scheduler.now = sent
    server.watch_lock(T, "b", process)
    scheduler.now = came
    server.alter(T, T, row("b"), process="p")
    server.alter(T, T, row("c"), process="q")
    assert changes == [
        RowChange(T, "b", "a", None, "p", slept_past_lease=slept_past_lease),
        RowChange(T, "c", "b", None, "q", replaced_unseen=slept_past_lease),
    ]


def test_a_row_that_is_no_table_of_ours_is_nobodys_business() -> None:
    server, _, changes = metastore()
    server.insert(OTHER, iceberg_row(OTHER, {}), process="p")
    server.remove(OTHER, process="p")
    assert changes == []


def test_the_reaper_takes_what_nobody_renewed_unless_it_is_late_or_there_is_none() -> None:
    for options, left in (({}, 0), ({"reaper_delay": 60.0}, 1), ({"reaper": False}, 1)):
        server, scheduler, _ = metastore(lease_seconds=60.0, **options)
        server.locks.enqueue(T, "r1", "p")
        scheduler.now = 100.0
        assert len(server.locks.entries(T)) == left


def test_heartbeats_have_the_time_of_the_databases_clock() -> None:
    server, scheduler, _ = metastore(skew_ms=5_000)
    scheduler.now = 2.0
    assert server.heartbeat_ms(server.locks.enqueue(T, "r1", "p")) == EPOCH_MS + 7_000


def test_a_database_says_its_marks() -> None:
    server, _, _ = metastore()
    server.add_database("marked", {"mark": "1"})
    assert server.database_parameters("marked") == {"mark": "1"}
