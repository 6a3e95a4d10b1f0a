from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import ConfigError, LockUnavailable
from iceberg_hms.metastore.connection.cas_support import SwapProtection
from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.cluster import TABLE, ClusterNode
from simulation.world.metastore_handler import SwapSupport


def run(
    work: Callable[[ClusterNode], Any], *, without_lock_api: bool = False, seed: int = 1, **scenario: Any
) -> Schedule:
    """One process alone."""
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **{"writers": 0, **scenario}), seed, pool)
    node = ClusterNode(schedule.cluster, "p", without_lock_api=without_lock_api)
    node.runtime.spawn("work", lambda: work(node))
    with quiet_logs():
        schedule.scheduler.run()
    pool.close()
    assert schedule.scheduler.failure is None
    return schedule


def calls(schedule: Schedule) -> list[str]:
    return [event.call for event in schedule.wire.trace.events]


MARKED = {"iceberg-hms.lock": "zookeeper"}


def take(node: ClusterNode) -> None:
    node.chosen_lock.acquire(TABLE, wait_seconds=5.0, request="r").release()


@pytest.mark.parametrize(
    ("scenario", "without_lock_api", "zookeeper", "metastore"),
    [
        ({}, False, False, True),
        ({"zookeeper": True, "properties": MARKED}, False, True, True),
        ({"zookeeper": True, "properties": MARKED}, True, True, False),
        ({"zookeeper": True, "properties": MARKED, "lock_api_works": False}, False, True, False),
        ({"lock": "none", "properties": {"iceberg-hms.exclusive": "true"}}, False, False, False),
    ],
)
def test_a_process_takes_the_locks_that_the_table_asks_for(
    scenario: dict[str, Any], without_lock_api: bool, zookeeper: bool, metastore: bool
) -> None:
    said = calls(run(take, without_lock_api=without_lock_api, **scenario))
    assert any(call.startswith("zk create") for call in said) == zookeeper
    assert any(call.startswith("unlock") for call in said) == metastore


def test_without_a_lock_api_and_a_mark_there_is_no_lock() -> None:
    def work(node: ClusterNode) -> None:
        with pytest.raises(LockUnavailable):
            take(node)

    run(work, without_lock_api=True, zookeeper=True)


def test_an_operator_marks_the_table() -> None:
    def work(node: ClusterNode) -> None:
        admin = node.lock_admin()
        admin.use(TABLE, "zookeeper", wait_seconds=60.0)
        assert node.pointer.load(TABLE).parameters["iceberg-hms.lock"] == "zookeeper"
        take(node)

    run(work, zookeeper=True)


def test_processes_reach_all_servers_of_the_list_and_those_without_locks_none_of_them() -> None:
    seen: list[tuple[str, ...]] = []
    for without_lock_api in (False, True):
        run(
            lambda node: seen.append(tuple(sorted(node.pool.uris))),
            without_lock_api=without_lock_api,
            other_servers=(SwapSupport.IGNORED,),
        )
    assert seen == [("thrift://hms1:9083", "thrift://hms2:9083"), ("thrift://blind:9083",)]


def test_each_process_says_which_one_it_is() -> None:
    said: list[str] = []

    def work(node: ClusterNode) -> None:
        other = ClusterNode(node.cluster, "other")
        said.extend(each.identity.agent_info("r", SwapProtection.CAS) for each in (node, other))

    run(work)
    assert len({text.split("/")[3] for text in said}) == 2


def test_what_is_held_back_and_what_rests_is_noted_with_its_times() -> None:
    def work(node: ClusterNode) -> None:
        node.runtime.sleep(2.0)
        for event in ("retry-priority-wait", "foreign-writer-backoff", "lock-kept", "committed"):
            node.publish({"event": event, "table": TABLE, "seconds": 0.5})

    history = run(work).history
    for noted in (history.priority_waits, history.backoffs, history.locks_kept):
        [held] = noted
        assert (held.process, round(held.ended - held.begun, 6), held.ended > 2.0) == ("p", 0.5, True)


def test_a_wasted_lock_is_noted_with_our_processes_that_waited_behind_it() -> None:
    def work(node: ClusterNode) -> None:
        node.cluster.foreign.update(("java1", "java2"))
        entries = ((TABLE, "java1", False), (TABLE, "s1", True), (TABLE, "s2", False), (TABLE, "java2", True))
        metastore = node.cluster.metastore
        for table, process, saw_queue in (*entries, (TableName("db", "u"), "s3", True)):
            entry = metastore.locks.enqueue(table, "r", process)
            metastore.saw_queue |= {entry.id} if saw_queue else set()
        node.record_wasted_lock(TABLE)

    assert [each.behind for each in run(work).history.wasted_locks] == [{"s1"}]


def test_an_unknown_setting_is_refused_as_in_production() -> None:
    def work(node: ClusterNode) -> None:
        with pytest.raises((ValueError, ConfigError)):
            take(node)

    run(work, lock="paper")
