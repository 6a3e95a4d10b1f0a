"""The real session and the real lock on the simulated ensemble."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import LockLost, LockNotAcquired
from iceberg_hms.zookeeper.faults import NoReply, ZooKeeperUnavailable
from iceberg_hms.zookeeper.lock import ZooKeeperTableLock
from iceberg_hms.zookeeper.session import SessionState, ZooKeeperSession
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.ensemble import Ensemble
from simulation.world.faults import FaultPlan, Wire
from simulation.world.zookeeper_client import SimulatedZooKeeperClient

T = TableName("db", "t")
TIMEOUT = 20.0
ALL_OF = 1_000_000


class Member:
    """One process with a session."""

    def __init__(self, fixture: EnsembleFixture, name: str) -> None:
        self.fixture = fixture
        self.process = Process(name)
        self.runtime = SimulatedRuntime(fixture.scheduler, self.process, SeededRandom(7).fork(name))
        self.session = ZooKeeperSession(
            "zookeeper:2181", self.runtime, timeout_ms=20_000, connect_timeout_ms=10_000, make_client=self._client
        )
        self.lock = ZooKeeperTableLock(
            self.session,
            self.runtime,
            agent_info=lambda request: request,
            user="u",
            host=name,
            may_overwrite=lambda _: True,
            swap_seconds=600.0,
        )

    def _client(self, _hosts: str, _timeout: float) -> SimulatedZooKeeperClient:
        self.client = SimulatedZooKeeperClient(self.fixture.ensemble, self.fixture.wire, self.process, self.runtime)
        return self.client

    def cut(self, seconds: float) -> None:
        """Break the connection for some time."""
        self.client.break_for(seconds)


class EnsembleFixture:
    def __init__(self, faults: FaultPlan | None = None, seed: int = 1) -> None:
        self.pool = WorkerPool()
        self.scheduler = Scheduler(SeededRandom(seed), self.pool)
        self.wire = Wire(self.scheduler, SeededRandom(seed), faults or FaultPlan(), lease_seconds=TIMEOUT)
        self.ensemble = Ensemble(lambda: self.scheduler.now, timeout_seconds=TIMEOUT, cut_off_after=1.5)

    def run(self, *functions: Callable[[Member], Any]) -> None:
        for index, function in enumerate(functions):
            member = Member(self, f"p{index}")
            member.runtime.spawn("task", lambda function=function, member=member: function(member))
        self.scheduler.run()
        self.pool.close()
        assert self.scheduler.failure is None


def test_locks_exclude_one_another_and_are_given_back() -> None:
    fixture = EnsembleFixture()
    inside: list[str] = []

    def work(member: Member) -> None:
        held = member.lock.acquire(T, wait_seconds=300.0, request="r")
        inside.append(member.process.name)
        member.runtime.sleep(60.0)
        held.ensure_held()
        assert inside == [member.process.name]
        inside.pop()
        held.release()

    fixture.run(work, work, work)
    assert fixture.ensemble.holders() == []


def test_the_granted_timeout_is_the_lease() -> None:
    def work(member: Member) -> None:
        with pytest.raises(ZooKeeperUnavailable):
            _ = member.session.lease_seconds
        member.session.connected()
        assert member.session.lease_seconds == TIMEOUT
        assert (member.session.state, member.session.epoch) == (SessionState.CONNECTED, 0)

    EnsembleFixture().run(work)


def test_a_short_break_suspends_and_a_long_one_loses_the_session() -> None:
    def work(member: Member) -> None:
        held = member.lock.acquire(T, wait_seconds=5.0, request="r")
        member.cut(5.0)
        assert member.session.state is SessionState.SUSPENDED
        with pytest.raises(LockLost):
            held.ensure_held()
        member.runtime.sleep(8.0)
        held.ensure_held()
        member.cut(60.0)
        member.runtime.sleep(61.0)
        assert (member.session.state, member.session.epoch) == (SessionState.CONNECTED, 1)
        with pytest.raises(LockLost):
            held.ensure_held()
        assert member.fixture.ensemble.holders() == []

    EnsembleFixture().run(work)


def test_a_process_that_slept_past_its_session_believes_to_be_connected_until_it_asks() -> None:
    def work(member: Member) -> None:
        held = member.lock.acquire(T, wait_seconds=5.0, request="r")
        member.process.paused_until = 100.0
        member.fixture.scheduler.step()
        believes = member.session.state
        with pytest.raises(LockLost):
            held.ensure_held()
        seen.append(believes)
        member.runtime.sleep(10.0)
        assert member.session.epoch == 1

    seen: list[SessionState] = []
    for seed in range(10):
        EnsembleFixture(seed=seed).run(work)
    # The connection's own thread may have found it out first.
    assert set(seen) == {SessionState.CONNECTED, SessionState.SUSPENDED}


def test_a_client_waits_for_a_silent_server_and_gives_up_before_its_session_ends() -> None:
    for silence, lost in ((5.0, False), (60.0, True)):

        def work(member: Member, silence: float = silence, lost: bool = lost) -> None:
            member.session.connected()
            began = member.runtime.now()
            member.client.silence_for(silence)
            if not lost:
                member.session.children("/iceberg-hms")
                assert silence <= member.runtime.now() - began < silence + 1.0
                return
            with pytest.raises(NoReply):
                member.session.children("/iceberg-hms")
            assert member.runtime.now() - began < TIMEOUT
            assert member.session.state is SessionState.SUSPENDED

        EnsembleFixture().run(work)


def test_a_lost_reply_breaks_the_connection_and_leaves_one_node_once_all_is_done() -> None:
    for seed in range(20):
        fixture = EnsembleFixture(FaultPlan(lost_replies=2, lost_requests=2), seed=seed)

        def work(member: Member) -> None:
            try:
                held = member.lock.acquire(T, wait_seconds=100.0, request="r")
            except LockNotAcquired:
                return
            assert "p0" in member.fixture.ensemble.holders()
            held.release()
            member.runtime.sleep(5.0)

        fixture.run(work)
        assert fixture.ensemble.holders() == []


def test_partitions_come_and_go_and_the_lock_with_them() -> None:
    outcomes = set()
    for seed in range(30):
        fixture = EnsembleFixture(FaultPlan(partitions=4, silences=2), seed=seed)

        def work(member: Member) -> None:
            for _ in range(10):
                try:
                    held = member.lock.acquire(T, wait_seconds=30.0, request="r")
                except (LockNotAcquired, ZooKeeperUnavailable) as error:
                    outcomes.add(type(error))
                    continue
                member.runtime.sleep(5.0)
                try:
                    held.ensure_held()
                except LockLost:
                    outcomes.add(LockLost)
                held.release()

        fixture.run(work, work)
    assert LockLost in outcomes
    assert len(outcomes) > 1


def test_a_closed_session_takes_its_nodes_along() -> None:
    fixture = EnsembleFixture()

    def work(member: Member) -> None:
        member.lock.acquire(T, wait_seconds=5.0, request="r")
        member.session.close()
        assert not member.client.connected

    fixture.run(work)
    assert fixture.ensemble.holders() == []


def test_what_operators_see_is_what_is_there() -> None:
    def work(member: Member) -> None:
        member.lock.acquire(T, wait_seconds=5.0, request="who")
        [entry] = member.lock.entries(T)
        assert (entry.agent_info, entry.host, entry.state) == ("who", "p0", "ACQUIRED")
        member.lock.remove(entry.lock_id)
        assert member.lock.entries() == []

    EnsembleFixture().run(work)


def test_a_broken_connection_is_reported_and_triggers_the_watches() -> None:
    def work(member: Member) -> None:
        answer: list[str] = []
        member.session.connected()
        member.client.add_listener(answer.append)
        name = member.session.create("/f", "a-", b"")
        assert member.session.watch(f"/f/{name}", lambda: answer.append("changed"))
        member.cut(60.0)
        member.runtime.sleep(70.0)
        assert answer == ["SUSPENDED", "changed", "LOST", "CONNECTED"]

    EnsembleFixture().run(work)


def test_who_was_not_told_of_its_node_may_ask_a_server_that_does_not_know_it_until_that_has_caught_up() -> None:
    seen = set()
    for seed in range(12):
        fixture = EnsembleFixture(FaultPlan(lost_replies=ALL_OF), seed=seed)

        def work(member: Member) -> None:
            member.session.connected()
            number = 0
            try:
                while True:
                    number += 1
                    member.session.create("/f", f"{number}-", b"")
            except NoReply:
                member.fixture.wire.stop_faults()
            member.session.connected()
            before = any(name.startswith(f"{number}-") for name in member.session.children("/f"))
            member.client.sync_async("/f").get(timeout=1.0)
            after = any(name.startswith(f"{number}-") for name in member.session.children("/f"))
            seen.add((before, after))

        fixture.run(work)
    assert seen == {(False, True), (True, True)}
