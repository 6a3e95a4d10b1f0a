"""The real drivers on simulated connections, and what goes wrong between them and the servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import LockUse, Pointer, Refused, Sending, SwapAnswer, Swapped
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable, MetastoreUnavailable
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap, SwapProtection
from iceberg_hms.metastore.connection.faults import NoAnswer, NotSent
from iceberg_hms.metastore.connection.thrift_types import GetTableRequest
from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.cluster import TABLE, ClusterNode
from simulation.world.faults import FaultPlan
from simulation.world.first_table import empty_table
from simulation.world.metastore import METADATA_LOCATION, RowChange
from simulation.world.metastore_client import described
from simulation.world.metastore_handler import SwapSupport, copied

ALL_OF = 1_000_000
NOTHING = empty_table("00000000-0000-4000-8000-000000000000", {}, 0)
FIRST = "file:/t/metadata/00000-first.metadata.json"


def ran(*functions: Callable[[ClusterNode], Any], seed: int = 1, **scenario: Any) -> Schedule:
    """Each function in a process of its own."""
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **{"writers": 0, "proven": 0.0, **scenario}), seed, pool)
    # Locations are all that is moved here, and no files.
    schedule.metastore.on_row_change = None
    for index, function in enumerate(functions):
        node = ClusterNode(schedule.cluster, f"p{index}")
        node.runtime.spawn("task", lambda function=function, node=node: function(node))
    with quiet_logs():
        schedule.scheduler.run()
    pool.close()
    assert schedule.scheduler.failure is None
    return schedule


def swap(node: ClusterNode, to: str, base: Pointer | None = None) -> SwapAnswer:
    return node.pointer.swap(base or node.pointer.load(TABLE), to, NOTHING, NOTHING, Sending())


def test_the_first_swap_of_a_connection_asks_what_the_server_is_and_the_next_one_does_not() -> None:
    def work(node: ClusterNode) -> None:
        assert swap(node, "b") == Swapped()
        assert swap(node, "c") == Swapped()
        assert node.pool.cas_support.protection(TABLE.namespace) is SwapProtection.CAS

    calls = [event.call for event in ran(work).wire.trace.events]
    assert [call for call in calls if not call.startswith("load")] == ["probe with b", "swap b", "swap c"]


@pytest.mark.parametrize("swap_support", SwapSupport)
def test_a_first_commit_costs_one_lock_more_at_most_and_what_is_not_fenced_goes_out_under_a_blind_one(
    swap_support: SwapSupport,
) -> None:
    schedule = Schedule(
        Scenario("test", "", writers=1, changes=2, proven=0.0, swap_support=swap_support), 2, WorkerPool()
    )
    words: list[str] = []
    locks: list[int] = []

    judged = schedule.metastore.on_row_change
    assert judged is not None

    def moved(move: RowChange) -> None:
        [entry] = schedule.metastore.locks.entries()
        words.append(entry.agent_info.rpartition("/")[2])
        locks.append(entry.id)
        judged(move)

    schedule.metastore.on_row_change = moved
    with quiet_logs():
        assert schedule.run().failure is None
    atomic = swap_support is SwapSupport.ATOMIC
    assert locks[:2] == ([1, 2] if atomic else [2, 3])
    assert words[:2] == (["unproven-15", "cas-15"] if atomic else ["blind", "blind"])


@pytest.mark.parametrize("swap_support", SwapSupport)
def test_the_real_fence_finds_out_what_each_server_is_and_a_stale_swap_is_refused_by_those_that_compare(
    swap_support: SwapSupport,
) -> None:
    def work(node: ClusterNode) -> None:
        base = node.pointer.load(TABLE)
        assert swap(node, "b", base) == Swapped()
        stale = swap(node, "c", base)
        compares = swap_support in (SwapSupport.ATOMIC, SwapSupport.CHECKED)
        assert isinstance(stale, Refused) == compares
        assert node.pool.cas_support.of("thrift://hms1:9083", TABLE.namespace) is CompareAndSwap(swap_support.value)

    ran(work, swap_support=swap_support)


def test_a_process_that_committed_before_knows_which_servers_are_atomic() -> None:
    def work(node: ClusterNode) -> None:
        assert node.pool.cas_support.protection(TABLE.namespace) is SwapProtection.CAS
        assert swap(node, "b") == Swapped()

    calls = [event.call for event in ran(work, proven=1.0).wire.trace.events]
    assert "probe with b" not in calls

    def looks(node: ClusterNode) -> None:
        assert node.pool.cas_support.of("thrift://hms2:9083", TABLE.namespace) is CompareAndSwap.UNKNOWN

    ran(looks, proven=1.0, other_servers=(SwapSupport.IGNORED,))


def answers(faults: FaultPlan, **scenario: Any) -> dict[str, set[str]]:
    """What a swap answered, and where the pointer was then, over many seeds."""
    seen: dict[str, set[str]] = {}
    for seed in range(40):

        def work(node: ClusterNode) -> None:
            try:
                base = node.pointer.load(TABLE)
                answer = swap(node, "b", base)
            except MetastoreUnavailable:
                return
            seen.setdefault(type(answer).__name__, set()).add(node.cluster.metastore.location(TABLE))

        ran(work, seed=seed, faults=faults, **scenario)
    return seen


def test_a_lost_request_moves_nothing_and_a_lost_reply_has_moved() -> None:
    assert answers(FaultPlan(lost_requests=ALL_OF), proven=1.0)["Unanswered"] == {FIRST}
    assert answers(FaultPlan(lost_replies=ALL_OF), proven=1.0)["Unanswered"] == {"b"}


def test_a_metastore_may_refuse_what_it_has_committed() -> None:
    for swap_support in (SwapSupport.ATOMIC, SwapSupport.CHECKED, SwapSupport.IGNORED):
        assert "b" in answers(FaultPlan(false_refusals=ALL_OF), swap_support=swap_support)["Refused"]


def test_an_error_that_is_no_conflict_has_done_nothing() -> None:
    assert answers(FaultPlan(errors=ALL_OF), proven=1.0) == {"Refused": {FIRST}, "Swapped": {"b"}}


@pytest.mark.parametrize("swap_support", [SwapSupport.ATOMIC, SwapSupport.IGNORED])
def test_a_commit_in_doubt_is_answered_with_an_error_and_made_later(swap_support: SwapSupport) -> None:
    doubts = 0
    for seed in range(20):
        seen: list[tuple[SwapAnswer, str]] = []

        def work(node: ClusterNode, seen: list[tuple[SwapAnswer, str]] = seen) -> None:
            answer = swap(node, "b")
            seen.append((answer, node.cluster.metastore.location(TABLE)))

        schedule = ran(
            work, seed=seed, faults=FaultPlan(in_doubt_commits=ALL_OF), swap_support=swap_support, proven=1.0
        )
        [(answer, then)] = seen
        assert schedule.metastore.location(TABLE) == "b"
        if any("in doubt" in line for line in schedule.wire.trace.lines()):
            assert isinstance(answer, Refused)
            assert answer.in_doubt
            assert not answer.conflict
            doubts += then == FIRST
    assert doubts


def test_a_late_swap_arrives_after_its_caller_gave_up() -> None:
    late: set[str] = set()
    for seed in range(120):
        answer: list[SwapAnswer] = []
        schedule = ran(
            lambda node, answer=answer: answer.append(swap(node, "b")),
            seed=seed,
            faults=FaultPlan(late_changes=ALL_OF),
            proven=1.0,
        )
        lines = schedule.wire.trace.lines()
        if any("late swap" in line for line in lines):
            late.add(type(answer[0]).__name__)
            assert schedule.metastore.location(TABLE) == "b"
    assert late == {"Unanswered", "Swapped"}


def test_a_doubled_swap_is_refused_the_second_time() -> None:
    def work(node: ClusterNode) -> None:
        for number in range(5):
            assert swap(node, f"b{number}") == Swapped()

    schedule = ran(work, faults=FaultPlan(repeated_changes=ALL_OF), proven=1.0, seed=2)
    assert schedule.metastore.location(TABLE) == "b4"
    late = [line for line in schedule.wire.trace.lines() if "late swap" in line]
    assert late
    assert all("The table has been modified" in line for line in late)


def test_what_must_be_fenced_is_not_sent_to_a_server_that_does_not_compare() -> None:
    def work(node: ClusterNode) -> None:
        with pytest.raises(MetastoreUnavailable):
            node.pointer.swap(node.pointer.load(TABLE), "b", NOTHING, NOTHING, Sending(require_cas=True))

    schedule = ran(work, swap_support=SwapSupport.IGNORED)
    assert schedule.metastore.location(TABLE) == FIRST
    assert list(schedule.metastore.rows) == [TABLE]


def test_a_broken_connection_is_no_longer_used_and_a_silence_is_noticed_within_the_socket_timeout() -> None:
    kinds: set[type[Exception]] = set()
    for seed in range(30):

        def work(node: ClusterNode) -> None:
            client = node.network().connect("thrift://hms1:9083")
            request = GetTableRequest(dbName="db", tblName="t")
            try:
                while True:
                    client.call("get_table_req", req=request)
            except (NotSent, NoAnswer) as error:
                kinds.add(type(error))
            assert not client.is_usable
            with pytest.raises(NotSent):
                client.call("get_table_req", req=request)

        schedule = ran(work, seed=seed, faults=FaultPlan(lost_requests=ALL_OF, lost_replies=ALL_OF))
        assert schedule.scheduler.now < 70.0
    assert kinds == {NotSent, NoAnswer}


def test_the_pool_uses_another_server_while_one_is_unreachable() -> None:
    def work(node: ClusterNode) -> None:
        network = node.pool_network
        network.out_until["thrift://hms1:9083"] = 100.0
        for _ in range(3):
            assert node.pool.run(lambda client: client.uri, idempotent=True) == "thrift://hms2:9083"
        network.out_until["thrift://hms2:9083"] = 100.0
        with pytest.raises(MetastoreUnavailable):
            node.pointer.load(TABLE)

    ran(work, other_servers=(SwapSupport.ATOMIC,))


def test_the_real_locks_exclude_one_another() -> None:
    inside: list[str] = []

    def work(node: ClusterNode) -> None:
        held = node.lock.acquire(TABLE, wait_seconds=400.0, request="r")
        inside.append(node.process.name)
        node.runtime.sleep(100.0)
        assert inside == [node.process.name]
        inside.pop()
        held.release()

    assert ran(work, work, work).metastore.locks.rows == {}


def test_heartbeats_keep_a_lock_beyond_its_lease() -> None:
    def work(node: ClusterNode) -> None:
        held = node.lock.acquire(TABLE, wait_seconds=5.0, request="r")
        node.runtime.sleep(1000.0)
        assert held.seconds_since_renewal() < 10.0
        held.release()

    ran(work)


def test_a_process_that_slept_past_its_lease_knows_it() -> None:
    def work(node: ClusterNode) -> None:
        held = node.lock.acquire(TABLE, wait_seconds=5.0, request="r")
        node.process.paused_until = 200.0
        node.cluster.scheduler.step()
        with pytest.raises(LockLost):
            held.ensure_held()

    ran(work)


def test_a_waiter_that_gives_up_leaves_no_entry() -> None:
    def work(node: ClusterNode) -> None:
        holder = node.cluster.metastore.locks.enqueue(TABLE, "Java", "other").id
        with pytest.raises(LockNotAcquired):
            node.lock.acquire(TABLE, wait_seconds=20.0, request="r")
        assert list(node.cluster.metastore.locks.rows) == [holder]

    ran(work)


def test_an_entry_of_a_lost_reply_is_found_and_what_comes_late_is_swept_away() -> None:
    found = late = 0
    for seed in range(250):

        def work(node: ClusterNode) -> None:
            with suppress(MetastoreUnavailable, LockNotAcquired):
                node.lock.acquire(TABLE, wait_seconds=20.0, request="r").release()
            node.runtime.sleep(200.0)
            assert node.cluster.metastore.locks.rows == {}

        schedule = ran(work, seed=seed, faults=FaultPlan(lost_replies=3, lost_requests=3), reaper=False)
        lines = schedule.wire.trace.lines()
        found += any("check_lock" in line for line in lines)
        late += any("late lock" in line for line in lines)
    assert found
    assert late


def test_a_waiter_removes_the_lock_of_a_process_that_crashed_if_it_may() -> None:
    def dies(node: ClusterNode) -> None:
        node.lock.acquire(TABLE, wait_seconds=5.0, request="r", use=LockUse.CAS if removed else LockUse.BLIND)
        node.cluster.scheduler.crash(node.process)

    def waits(node: ClusterNode) -> None:
        node.runtime.sleep(1.0)
        node.lock.acquire(TABLE, wait_seconds=280.0, request="r").release()

    for swap_support, removed in (
        (SwapSupport.ATOMIC, True),
        (SwapSupport.IGNORED, True),
        (SwapSupport.IGNORED, False),
    ):
        seen = set()
        for seed in range(6):
            try:
                ran(dies, waits, seed=seed, swap_support=swap_support, reaper=False, proven=1.0)
            except AssertionError:
                seen.add(False)
            else:
                seen.add(True)
        assert seen == {removed}


def test_where_the_lock_api_is_broken_a_lock_is_unavailable() -> None:
    def work(node: ClusterNode) -> None:
        node.cluster.metastore.lock_api_works = False
        with pytest.raises(LockUnavailable):
            node.lock.acquire(TABLE, wait_seconds=5.0, request="r2")

    for seed in range(4):
        ran(work, seed=seed)


def test_a_call_is_described_by_what_it_does() -> None:
    schedule = ran(lambda node: node.lock.acquire(TABLE, wait_seconds=5.0, request="r").release())
    calls = [event.call for event in schedule.wire.trace.events]
    assert calls == ["get_config_value", "lock", "unlock 1"]
    row = schedule.metastore.get(TABLE)
    other = TABLE._replace(name="u")
    renamed = copied(schedule.metastore.get(TABLE))
    renamed.tableName = other.name
    arguments = {"dbname": "db", "tbl_name": "t", "new_tbl": renamed, "environment_context": None}
    assert described("alter_table_with_environment_context", arguments) == "rename db.t db.u"
    arguments["new_tbl"] = row
    assert (
        described("alter_table_with_environment_context", arguments)
        == f"blind swap {row.parameters[METADATA_LOCATION]}"
    )
