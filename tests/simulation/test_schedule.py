from __future__ import annotations

import gc
import logging
from collections import Counter

import pytest

from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.catalogue import SCENARIOS, by_name
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs, run_schedule, run_schedules

#: Of each scenario: a sample. `make simulate` runs many.
SCHEDULES = 5


def trace(scenario: Scenario, seed: int) -> list[str]:
    pool = WorkerPool()
    schedule = Schedule(scenario, seed, pool)
    with quiet_logs():
        schedule.run()
    pool.close()
    return schedule.wire.trace.lines()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_sample_of_every_scenario_breaks_no_invariant(scenario: Scenario) -> None:
    answer: Counter[str] = Counter()
    for result in run_schedules([scenario], SCHEDULES, seed=1):
        assert result.failure is None, "\n".join((f"seed {result.seed}: {result.failure}", *result.trace))
        answer.update(committed=result.committed, failed=result.failed, unknown=result.unknown)
    assert answer["committed"] > 0 or scenario.name in ("no-lock-refused", "no-lock-checked")


@pytest.mark.parametrize("scenario", by_name("worst") + by_name("mixed"), ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_trace(scenario: Scenario, seed: int) -> None:
    first = trace(scenario, seed)
    assert len(first) > 20
    assert trace(scenario, seed) == first


def test_when_garbage_is_collected_decides_nothing() -> None:
    """A process in this schedule loses its connections while references to them are left."""
    scenario = by_name("same-files")[0]
    first = trace(scenario, 788)
    gc.disable()
    try:
        assert trace(scenario, 788) == first
    finally:
        gc.enable()


def test_other_seeds_give_other_traces() -> None:
    traces = {"\n".join(trace(by_name("calm")[0], seed)) for seed in range(5)}
    assert len(traces) == 5


def test_a_schedule_of_many_is_the_one_of_its_seed_alone() -> None:
    scenario = by_name("network")[0]
    many = list(run_schedules([scenario], 3, seed=11))
    assert [result.seed for result in many] == [11, 12, 13]
    assert run_schedule(scenario, 12) == many[1]


def test_scenarios_take_turns() -> None:
    names = [result.scenario for result in run_schedules(SCENARIOS[:3], 4, seed=1)]
    assert names == [SCENARIOS[0].name, SCENARIOS[1].name, SCENARIOS[2].name, SCENARIOS[0].name]


def test_a_failed_schedule_has_its_trace() -> None:
    scenario = Scenario("lonely", "", writers=1, waits=(1e9,), recovers=True)
    pool = WorkerPool()
    schedule = Schedule(scenario, 1, pool)
    schedule.storage.files.clear()
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert result.failure is not None
    assert result.trace


def test_logs_are_quiet_in_a_schedule_and_as_before_after_it(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("iceberg_hms.coordinator.group.commit_group")
    with quiet_logs():
        logger.error("silenced")
    logger.error("logged")
    assert [record.message for record in caplog.records] == ["logged"]


def test_a_part_of_a_run_is_what_it_is_in_the_whole_run() -> None:
    scenarios = by_name("calm") + by_name("network") + by_name("operations")
    whole = list(run_schedules(scenarios, 6, seed=4))
    assert list(run_schedules(scenarios, 6, seed=4, skipped=4)) == whole[4:]
