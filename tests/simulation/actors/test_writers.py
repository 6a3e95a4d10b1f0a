from __future__ import annotations

from typing import Any

import pytest

from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.fault_plan import FaultPlan
from simulation.world.history import Answer, Kind
from simulation.world.metastore import SwapSupport
from simulation.world.site import TABLE

#: Without a lock, and on a server that compares nothing.
NOBODY_COMMITS: dict[str, Any] = {
    "verdict": SwapSupport.IGNORED,
    "lock": "none",
    "properties": {"iceberg-hms.exclusive": "true"},
}


def ran(seed: int = 1, **scenario: Any) -> Schedule:
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **scenario), seed, pool)
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert result.failure is None, result
    return schedule


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (Kind.LOCKED, "lock_writers"),
        (Kind.LOCKED, "java_writers"),
        (Kind.SWAPPED, "cas_writers"),
        (Kind.STRAY, "strays"),
    ],
)
def test_a_foreign_writer_alone_commits_each_in_its_own_way(kind: Kind, count: str) -> None:
    schedule = ran(writers=0, **{count: 1})
    mine = [attempt for attempt in schedule.history.attempts if attempt.kind is kind]
    assert [attempt.told for attempt in mine] == [Answer.COMMITTED]
    calls = [event.call for event in schedule.wire.trace.events if event.process != "auditor"]
    assert any(call.startswith("blind swap") for call in calls) == (kind is not Kind.SWAPPED)
    assert any(call == "lock" for call in calls) == (kind is not Kind.SWAPPED)


def test_a_java_writer_that_finds_the_table_moved_under_its_lock_begins_anew_or_gives_up() -> None:
    again = 0
    told = []
    for seed in range(20):
        schedule = ran(seed, java_writers=3, writers=0, kept=frozenset((Kind.OURS, Kind.LOCKED)))
        mine = [attempt for attempt in schedule.history.attempts if attempt.kind is Kind.LOCKED]
        told += [attempt.told for attempt in mine]
        again += sum(event.call == "lock" for event in schedule.wire.trace.events) > 4
    assert again > 0
    assert set(told) == {Answer.COMMITTED, Answer.UNKNOWN}
    assert told.count(Answer.COMMITTED) > 40


def test_our_writers_append_set_properties_and_make_one_tag() -> None:
    kinds = set()
    tags = []
    for seed in range(12):
        schedule = ran(seed)
        done = [attempt for attempt in schedule.history.attempts if attempt.told is Answer.COMMITTED]
        kinds |= {(attempt.snapshot_id is not None, attempt.ref is not None) for attempt in done}
        tags.append(sum(attempt.ref is not None for attempt in done))
    assert kinds == {(True, False), (False, False), (False, True)}
    assert max(tags) == 1


def test_a_refused_append_has_its_data_file_deleted_and_no_other_one_has() -> None:
    schedule = ran(**NOBODY_COMMITS, comes_back=False)
    appends = [each for each in schedule.history.attempts if each.data_file and each.writer != "auditor"]
    assert appends
    assert {each.told for each in appends} == {Answer.FAILED}
    assert not any(schedule.storage.exists(each.data_file or "") for each in appends)


def test_what_a_crash_cut_off_is_run_again_by_a_successor_and_counts_once() -> None:
    resumed = 0
    for seed in range(40):
        schedule = ran(seed, weather=FaultPlan(crashes=2))
        resumed += any(len(attempts) > 1 for attempts in schedule.history.by_wish().values())
    assert resumed > 3


def test_an_unknown_change_is_sent_again_under_its_snapshot_id() -> None:
    resent = 0
    for seed in range(40):
        schedule = ran(seed, weather=FaultPlan(pauses=2, lost_replies=2, late_moves=2), lock_writers=3, waits=(300.0,))
        told = [str(event) for event in schedule.wire.trace.events if "is told unknown" in event.call]
        resent += any(
            attempt.told is Answer.COMMITTED and any(attempt.wish in line for line in told)
            for attempt in schedule.history.attempts
        )
    assert resent > 0


def test_the_auditor_commits_last() -> None:
    schedule = ran()
    assert schedule.history.attempts[-1].wish == "auditor.1"
    assert schedule.history.attempts[-1].told is Answer.COMMITTED
    assert schedule.metastore.location(TABLE) in schedule.storage.files


def test_where_nobody_can_commit_and_somebody_should_the_auditor_says_so() -> None:
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **NOBODY_COMMITS), 1, pool)
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert (result.failure or "").startswith("comes-back: a new writer could not commit")
