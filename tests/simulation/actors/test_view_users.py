from __future__ import annotations

from collections import Counter

from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.history import Answer, ViewCallKind


def test_every_operation_of_views_is_made_and_refused() -> None:
    answers: Counter[tuple[ViewCallKind, Answer]] = Counter()
    for seed in range(20):
        pool = WorkerPool()
        schedule = Schedule(Scenario("test", "", writers=0, view_users=3, changes=5), seed, pool)
        with quiet_logs():
            result = schedule.run()
        pool.close()
        assert result.failure is None, result
        answers.update((call.kind, call.answer) for call in schedule.history.view_calls)
    assert {kind for kind, answer in answers if answer is Answer.COMMITTED} == set(ViewCallKind)
    assert {kind for kind, answer in answers if answer is Answer.FAILED} == set(ViewCallKind)
