from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import ConfigError, LockUnavailable
from iceberg_hms.testing.simulation.metastore import LockEntry, Verdict
from iceberg_hms.testing.simulation.scenarios import Scenario
from iceberg_hms.testing.simulation.schedule import Schedule, quiet_logs
from iceberg_hms.testing.simulation.scheduler import WorkerPool
from iceberg_hms.testing.simulation.site import TABLE, Node


def run(work: Callable[[Node], Any], *, blind: bool = False, **scenario: Any) -> Schedule:
    """One process alone."""
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **{"writers": 0, **scenario}), 1, pool)
    node = Node(schedule.site, "p", blind=blind)
    node.runtime.spawn("work", lambda: work(node))
    with quiet_logs():
        schedule.scheduler.run()
    pool.close()
    assert schedule.scheduler.failure is None
    return schedule


def calls(schedule: Schedule) -> list[str]:
    return [event.call for event in schedule.wire.trace.events]


MARKED = {"iceberg-hms.lock": "zookeeper"}


def take(node: Node) -> None:
    node.chosen.acquire(TABLE, wait_seconds=5.0, request="r").release()


@pytest.mark.parametrize(
    ("scenario", "blind", "zookeeper", "metastore"),
    [
        ({}, False, False, True),
        ({"zookeeper": True, "properties": MARKED}, False, True, True),
        ({"zookeeper": True, "properties": MARKED}, True, True, False),
        ({"zookeeper": True, "properties": MARKED, "lock_api_works": False}, False, True, False),
        ({"lock": "none", "properties": {"iceberg-hms.exclusive": "true"}}, False, False, False),
    ],
)
def test_a_process_takes_the_locks_that_the_table_asks_for(
    scenario: dict[str, Any], blind: bool, zookeeper: bool, metastore: bool
) -> None:
    said = calls(run(take, blind=blind, **scenario))
    assert any(call.startswith("zk create") for call in said) == zookeeper
    assert ("lock" in said) == metastore


def test_without_a_lock_api_and_a_mark_there_is_no_lock() -> None:
    def work(node: Node) -> None:
        with pytest.raises(LockUnavailable):
            take(node)

    run(work, blind=True, zookeeper=True)


def test_an_operator_marks_the_table_and_its_database() -> None:
    def work(node: Node) -> None:
        admin = node.lock_admin()
        admin.use(TABLE, "zookeeper", wait_seconds=60.0)
        assert node.pointer.load(TABLE).parameters["iceberg-hms.lock"] == "zookeeper"
        admin.use_for_namespace("db", "hms")
        assert node.site.metastore.databases["db"] == {"iceberg-hms.lock": "hms"}
        take(node)

    run(work, zookeeper=True)


def test_what_may_be_left_of_old_locks_is_nothing_on_an_atomic_server_only() -> None:
    seen = {}
    for verdict in (Verdict.ATOMIC, Verdict.IGNORED):
        run(lambda node, verdict=verdict: seen.setdefault(verdict, node._leftover_seconds()), verdict=verdict)
    assert seen == {Verdict.ATOMIC: 0.0, Verdict.IGNORED: 60.0}


def test_what_is_held_back_and_what_rests_is_noted_with_its_times() -> None:
    def work(node: Node) -> None:
        node.runtime.sleep(2.0)
        for event in ("held-back", "rested", "committed"):
            node.publish({"event": event, "table": TABLE, "seconds": 0.5})

    history = run(work).history
    for noted in (history.held_back, history.rested):
        [held] = noted
        assert (held.process, round(held.ended - held.begun, 6), held.ended > 2.0) == ("p", 0.5, True)


def test_a_foreign_writer_that_waits_for_the_lock_is_seen_where_our_writers_look() -> None:
    kinds = ((True, True, False), (False, True, False), (True, False, False), (True, True, True))
    for looks, foreign, acquired in kinds:
        seen: list[bool] = []

        def work(node: Node, foreign: bool = foreign, acquired: bool = acquired, seen: list[bool] = seen) -> None:
            node.site.foreign.update(("java1",) if foreign else ())
            node.site.metastore.locks.append(LockEntry(1, TABLE, "r", "java1", 0.0, acquired))
            seen.append(node.world().foreign_waits(TABLE))

        run(work, looks=looks)
        assert seen == [looks and foreign and not acquired]


def test_a_lock_that_was_had_in_vain_is_noted_with_those_of_ours_that_waited_for_it() -> None:
    for looks in (True, False):

        def work(node: Node) -> None:
            node.site.foreign.update(("java1", "java2"))
            entries = ((TABLE, "java1", False), (TABLE, "s1", True), (TABLE, "s2", False), (TABLE, "java2", True))
            for number, (table, process, waited) in enumerate((*entries, (TableName("db", "u"), "s3", True))):
                node.site.metastore.locks.append(LockEntry(number, table, "r", process, 0.0, waited=waited))
            node.has_lock_in_vain(TABLE)

        assert [each.behind for each in run(work, looks=looks).history.in_vain] == [{"s1"}] * looks


def test_an_unknown_setting_is_refused_as_in_production() -> None:
    with pytest.raises((ValueError, ConfigError)):
        run(take, lock="paper")
