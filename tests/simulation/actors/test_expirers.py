from __future__ import annotations

from typing import Any

from simulation.actors.client_snapshots import CommitKind
from simulation.actors.clients import Clients
from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.history import Answer


def ran(seed: int, **scenario: Any) -> Schedule:
    pool = WorkerPool()
    clients = Clients(
        count=2, commits=4, commit_kinds=(CommitKind.APPEND, CommitKind.DELETE), think=2.0, branches=("main", "audit")
    )
    given = {"writers": 0, "servers": 1, "waits": (300.0,), "clients": clients, **scenario}
    schedule = Schedule(Scenario("test", "", **given), seed, pool)
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert result.failure is None, result
    return schedule


def test_older_snapshots_and_their_lists_go_and_the_heads_stay() -> None:
    gone = 0
    for seed in range(8):
        schedule = ran(seed, expirers=3)
        [table] = schedule.checker.tables
        assert table.metadata is not None
        left = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        assert {ref.snapshot_id for ref in table.metadata.refs.values()} <= left
        for attempt in schedule.history.attempts:
            if attempt.landed and attempt.snapshot_id not in left:
                gone += 1
                assert attempt.answer is Answer.COMMITTED
        named = {snapshot.manifest_list for snapshot in table.metadata.snapshots}
        assert len(schedule.storage.store.lists.keys() - named) <= 4, "what clients left"
    assert gone >= 8


def test_nothing_expires_where_nobody_expires_it() -> None:
    schedule = ran(1)
    [table] = schedule.checker.tables
    assert table.metadata is not None
    landed = [attempt for attempt in schedule.history.attempts if attempt.landed]
    assert len(table.metadata.snapshots) == len(landed)
