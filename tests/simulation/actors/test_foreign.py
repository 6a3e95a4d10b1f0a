from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.errors import LockNotAcquired
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, ServerFault
from simulation.actors.foreign import ForeignMetastore
from simulation.schedule import Schedule
from simulation.world.cluster import TABLE, ClusterNode
from simulation.world.faults import FaultPlan
from simulation.world.metastore import METADATA_LOCATION
from tests.simulation.world.test_metastore_client import ran


def foreign(
    work: Callable[[ForeignMetastore, ClusterNode], Any],
    *others: Callable[[ClusterNode], Any],
    seed: int = 1,
    **scenario: Any,
) -> Schedule:
    def task(node: ClusterNode) -> None:
        work(ForeignMetastore(node.network(swift=True), "java1"), node)

    return ran(task, *others, seed=seed, **scenario)


def test_a_swap_expects_what_was_read_or_nothing_and_keeps_what_is_in_the_row() -> None:
    def work(metastore: ForeignMetastore, node: ClusterNode) -> None:
        row = metastore.row(TABLE)
        metastore.swap(TABLE, row, "b", blindly=False)
        with pytest.raises(ServerFault) as refused:
            metastore.swap(TABLE, row, "c", blindly=False)
        assert refused.value.fault is Fault.TABLE_MODIFIED
        metastore.swap(TABLE, row, "d", blindly=True)
        found = node.cluster.metastore.get(TABLE).parameters
        assert (found[METADATA_LOCATION], found["kept"]) == ("d", "1")

    foreign(work, properties={"kept": "1"})


def test_a_foreign_writer_waits_for_its_lock_and_releases_it() -> None:
    seen: list[bool] = []

    def ours(node: ClusterNode) -> None:
        held = node.lock.acquire(TABLE, wait_seconds=60.0, request="r")
        node.runtime.sleep(20.0)
        seen.append(node.lock.foreign_writer_waits(TABLE))
        held.release()
        assert node.lock.acquire(TABLE, wait_seconds=60.0, request="r").behind_foreign_writer

    def work(metastore: ForeignMetastore, node: ClusterNode) -> None:
        node.runtime.sleep(5.0)
        with metastore.locked(TABLE, 60.0):
            assert node.runtime.now() > 20.0
            node.runtime.sleep(5.0)

    foreign(work, ours)
    assert seen == [True]


def test_who_does_not_get_the_lock_in_time_takes_its_entry_away() -> None:
    def work(metastore: ForeignMetastore, node: ClusterNode) -> None:
        holder = node.cluster.metastore.locks.enqueue(TABLE, "Hive", "other").id
        with pytest.raises(LockNotAcquired), metastore.locked(TABLE, 20.0):
            pass
        assert list(node.cluster.metastore.locks.rows) == [holder]

    foreign(work)


def test_a_lost_reply_is_looked_up_by_the_agents_words() -> None:
    outcomes = set()
    for seed in range(250):

        def work(metastore: ForeignMetastore, node: ClusterNode) -> None:
            try:
                with metastore.locked(TABLE, 20.0):
                    outcomes.add(len(node.cluster.metastore.locks.rows))
            except NoAnswer:
                outcomes.add("given up")

        schedule = foreign(work, seed=seed, faults=FaultPlan(lost_replies=3, lost_requests=3))
        if any("show_locks" in str(event) for event in schedule.wire.trace.events):
            outcomes.add("looked")
    assert {1, "given up"} <= outcomes


def test_an_entry_that_the_reaper_took_is_asked_for_again() -> None:
    def work(metastore: ForeignMetastore, node: ClusterNode) -> None:
        database = node.cluster.metastore
        holder = database.locks.enqueue(TABLE, "Hive", "other").id

        def reap() -> None:
            node.runtime.sleep(5.0)
            database.locks.rows.clear()

        node.runtime.spawn("reaper", reap)
        with metastore.locked(TABLE, 60.0):
            assert list(database.locks.rows) == [holder + 2]

    foreign(work)
