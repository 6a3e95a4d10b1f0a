from __future__ import annotations

from typing import Any

import pytest

from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.cluster import TABLE
from simulation.world.faults import FaultPlan
from simulation.world.history import Answer, WriterKind
from simulation.world.metastore_handler import SwapSupport

#: Without a lock, and on a server that compares nothing.
NOBODY_COMMITS: dict[str, Any] = {
    "swap_support": SwapSupport.IGNORED,
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
        (WriterKind.LOCKED, "lock_writers"),
        (WriterKind.LOCKED, "java_writers"),
        (WriterKind.SWAPPED, "cas_writers"),
        (WriterKind.LOST_LOCK, "lost_lock_writers"),
    ],
)
def test_a_foreign_writer_alone_commits_each_in_its_own_way(kind: WriterKind, count: str) -> None:
    schedule = ran(writers=0, **{count: 1})
    mine = [attempt for attempt in schedule.history.attempts if attempt.kind is kind]
    assert [attempt.answer for attempt in mine] == [Answer.COMMITTED]
    calls = [event.call for event in schedule.wire.trace.events if event.process != "auditor"]
    assert any(call.startswith("blind swap") for call in calls) == (kind is not WriterKind.SWAPPED)
    assert any(call == "lock" for call in calls) == (kind is not WriterKind.SWAPPED)


def test_a_java_writer_that_finds_the_table_moved_under_its_lock_begins_anew_or_gives_up() -> None:
    again = 0
    answer = []
    for seed in range(20):
        schedule = ran(seed, java_writers=3, writers=0, protected=frozenset((WriterKind.OURS, WriterKind.LOCKED)))
        mine = [attempt for attempt in schedule.history.attempts if attempt.kind is WriterKind.LOCKED]
        answer += [attempt.answer for attempt in mine]
        again += sum(event.call == "lock" for event in schedule.wire.trace.events) > 4
    assert again > 0
    assert set(answer) == {Answer.COMMITTED, Answer.UNKNOWN}
    assert answer.count(Answer.COMMITTED) > 40


def test_our_writers_append_set_properties_and_make_one_tag() -> None:
    kinds = set()
    tags = []
    for seed in range(12):
        schedule = ran(seed)
        done = [attempt for attempt in schedule.history.attempts if attempt.answer is Answer.COMMITTED]
        kinds |= {(attempt.snapshot_id is not None, attempt.ref is not None) for attempt in done}
        tags.append(sum(attempt.ref is not None for attempt in done))
    assert kinds == {(True, False), (False, False), (False, True)}
    assert max(tags) == 1


def test_a_refused_append_has_its_data_file_deleted_and_no_other_one_has() -> None:
    schedule = ran(**NOBODY_COMMITS, recovers=False)
    appends = [each for each in schedule.history.attempts if each.data_file and each.writer != "auditor"]
    assert appends
    assert {each.answer for each in appends} == {Answer.FAILED}
    assert not any(schedule.storage.exists(each.data_file or "") for each in appends)


def test_what_a_crash_cut_off_is_run_again_by_a_successor_and_counts_once() -> None:
    resumed = 0
    for seed in range(40):
        schedule = ran(seed, faults=FaultPlan(crashes=2))
        resumed += any(len(attempts) > 1 for attempts in schedule.history.by_operation().values())
    assert resumed > 3


def test_an_unknown_change_is_sent_again_under_its_snapshot_id() -> None:
    resent = 0
    for seed in range(40):
        schedule = ran(seed, faults=FaultPlan(in_doubt_commits=3, lost_replies=2), lock_writers=3, waits=(5.0,))
        answer = [str(event) for event in schedule.wire.trace.events if "is answered unknown" in event.call]
        resent += any(
            attempt.answer is Answer.COMMITTED and any(attempt.operation in line for line in answer)
            for attempt in schedule.history.attempts
        )
    assert resent > 0


def test_the_auditor_commits_last() -> None:
    schedule = ran()
    assert schedule.history.attempts[-1].operation == "auditor.1"
    assert schedule.history.attempts[-1].answer is Answer.COMMITTED
    assert schedule.metastore.location(TABLE) in schedule.storage.files


def test_where_nobody_can_commit_and_somebody_should_the_auditor_says_so() -> None:
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **NOBODY_COMMITS), 1, pool)
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert (result.failure or "").startswith("recovers: a new writer could not commit")
