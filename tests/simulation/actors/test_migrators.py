from __future__ import annotations

from collections import Counter

from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.history import Answer, KindOfCall


def test_every_operation_is_made_and_refused_and_hive_changes_the_row() -> None:
    answers: Counter[tuple[KindOfCall, Answer]] = Counter()
    changes = 0
    for seed in range(30):
        pool = WorkerPool()
        schedule = Schedule(Scenario("test", "", writers=0, migrators=3, hive_writers=1, changes=6), seed, pool)
        with quiet_logs():
            result = schedule.run()
        pool.close()
        assert result.failure is None, result
        answers.update((call.kind, call.answer) for call in schedule.history.kind_calls)
        changes += len(schedule.history.hive_marks)
    assert {kind for kind, answer in answers if answer is Answer.COMMITTED} == set(KindOfCall)
    assert {kind for kind, answer in answers if answer is Answer.FAILED} == set(KindOfCall)
    assert changes
