from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.history import Answer


def ran(seed: int, **scenario: Any) -> Schedule:
    pool = WorkerPool()
    given = {"writers": 0, "table_users": 2, "changes": 5, "waits": (300.0,), **scenario}
    schedule = Schedule(Scenario("test", "", **given), seed, pool)
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert result.failure is None, result
    return schedule


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_users_add_delete_and_move_rows_on_states_that_others_leave_behind(version: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(6):
        schedule = ran(seed, properties={"format-version": version})
        [table] = schedule.checker.tables
        assert table.metadata is not None
        for snapshot in table.metadata.snapshots:
            found[snapshot.operation or ""] += 1
        answers = {attempt.answer for attempt in schedule.history.attempts}
        assert answers <= {Answer.COMMITTED, Answer.FAILED}
        found["refused"] += sum(each.answer is Answer.FAILED for each in schedule.history.attempts)
        found["together"] += sum(each.committed_with is not None and each.landed for each in schedule.history.attempts)
    assert min(found[each] for each in ("append", "delete", "overwrite", "replace", "refused", "together")) > 0


def test_a_refused_operation_has_its_data_file_deleted() -> None:
    refused = 0
    for seed in range(8):
        schedule = ran(seed)
        failed = [each for each in schedule.history.attempts if each.answer is Answer.FAILED and each.data_file]
        refused += len(failed)
        assert not schedule.storage.data.intersection(each.data_file or "" for each in failed)
    assert refused


def test_an_expiration_deletes_files_that_only_expired_snapshots_led_to() -> None:
    gone = 0
    for seed in range(6):
        schedule = ran(seed, table_expirers=2)
        [table] = schedule.checker.tables
        assert table.metadata is not None
        gone += sum(each.landed and not table.has(each) for each in schedule.history.attempts)
        assert not table.missing
    assert gone > 5
