from __future__ import annotations

from typing import Any

from simulation.actors.client_snapshots import CommitKind
from simulation.actors.clients import Clients
from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.faults import FaultPlan
from simulation.world.history import Answer, WriteAttempt


def ran(clients: Clients, seed: int = 1, **scenario: Any) -> Schedule:
    pool = WorkerPool()
    given = {"writers": 0, "servers": 1, "waits": (300.0,), **scenario}
    schedule = Schedule(Scenario("test", "", clients=clients, **given), seed, pool)
    with quiet_logs():
        result = schedule.run()
    pool.close()
    assert result.failure is None, result
    return schedule


def of_clients(schedule: Schedule) -> list[WriteAttempt]:
    return [attempt for attempt in schedule.history.attempts if attempt.writer == "s1"]


def test_each_client_makes_its_commits_and_a_firm_one_makes_one() -> None:
    attempts = of_clients(ran(Clients(count=2, commits=3, one_shot=(CommitKind.MERGE,))))
    assert len(attempts) == 2 * 3 + 1
    assert [attempt.answer for attempt in attempts] == [Answer.COMMITTED] * 7
    assert sum("firm" in attempt.operation for attempt in attempts) == 1


def test_who_is_refused_comes_back_with_the_same_snapshot_id_as_often_as_it_may() -> None:
    clients = Clients(count=4, commits=2, commit_kinds=(CommitKind.VALIDATED,), retries=1)
    attempts = [attempt for seed in range(6) for attempt in of_clients(ran(clients, seed))]
    assert max(len(attempt.parents_seen) for attempt in attempts) == 2
    assert {attempt.answer for attempt in attempts if len(attempt.lost_at) == 1} == {Answer.COMMITTED}
    assert {attempt.answer for attempt in attempts if len(attempt.lost_at) == 2} <= {Answer.FAILED}
    assert all(
        sent < lost for attempt in attempts for sent, lost in zip(attempt.sent_at, attempt.lost_at, strict=False)
    )


def test_who_gives_up_does_not_come_back_and_deletes_all_that_it_made() -> None:
    clients = Clients(count=4, commits=2, commit_kinds=(CommitKind.VALIDATED,), gives_up=1.0)
    failed = 0
    for seed in range(6):
        schedule = ran(clients, seed, tidy=True)
        for attempt in of_clients(schedule):
            assert len(attempt.parents_seen) == 1
            if attempt.answer is Answer.FAILED:
                failed += 1
                assert not attempt.lists
                assert not schedule.storage.exists(attempt.data_file or "")
    assert failed > 0


def test_a_list_that_was_replaced_is_left_by_some_and_deleted_by_others() -> None:
    left = {}
    for leaves_lists in (0.0, 1.0):
        schedules = [ran(Clients(count=4, commits=1, leaves_lists=leaves_lists), seed) for seed in range(6)]
        left[leaves_lists] = sum(len(each.lists) for schedule in schedules for each in of_clients(schedule))
    assert left[0.0] == 0
    assert left[1.0] > 3


def test_what_was_made_for_a_refused_attempt_is_left_by_some_and_deleted_by_others() -> None:
    seen: dict[float, int] = {}
    failed = 0
    for leaves_files in (0.0, 1.0):
        clients = Clients(
            count=4,
            commits=2,
            commit_kinds=(CommitKind.MERGE, CommitKind.VALIDATED),
            retries=1,
            leaves_files=leaves_files,
        )
        schedules = [ran(clients, seed, properties={"iceberg-hms.rebase-appends": "none"}) for seed in range(6)]
        attempts = [attempt for schedule in schedules for attempt in of_clients(schedule)]
        seen[leaves_files] = sum(bool(each.left_files) for each in attempts)
        assert not any(each.lists for each in attempts), "no list is replaced"
        given_up = [each for each in attempts if each.answer is Answer.FAILED]
        failed += len(given_up)
        assert not any(each.left_files for each in given_up), "who gives up deletes them all the same"
    assert seen[0.0] == 0
    assert seen[1.0] > 3
    assert failed > 0


def test_who_does_not_know_sends_the_same_again_and_deletes_nothing() -> None:
    faults = FaultPlan(lost_replies=3, late_changes=2, pauses=2)
    unknown = again = 0
    for seed in range(40):
        schedule = ran(Clients(count=3, commits=2), seed, faults=faults, proven=0.0)
        for attempt in of_clients(schedule):
            again += len(attempt.sent_at) > len(attempt.parents_seen)
            if attempt.answer is Answer.UNKNOWN:
                unknown += 1
                assert schedule.storage.exists(attempt.data_file or "")
    assert unknown > 0
    assert again > 0


def test_who_stood_in_the_queue_already_is_noted() -> None:
    attempts = [each for seed in range(6) for each in of_clients(ran(Clients(count=5, commits=1), seed))]
    assert any(attempt.ahead for attempt in attempts)
    assert not any(attempt is early for attempt in attempts for early, _ in attempt.ahead)


def test_who_finds_nothing_to_delete_sends_nothing() -> None:
    [attempt] = of_clients(ran(Clients(count=1, commits=1, commit_kinds=(CommitKind.DELETE,))))
    assert (attempt.answer, attempt.obsolete, attempt.sent_at) == (Answer.FAILED, True, [])


def test_an_answer_that_is_lost_on_its_way_is_not_heard_and_the_same_is_sent_again() -> None:
    attempts = of_clients(ran(Clients(count=2, commits=2, resent=1.0), seed=3))
    assert [attempt.answer for attempt in attempts] == [Answer.COMMITTED] * 4
    assert all(len(attempt.sent_at) == 2 and len(attempt.parents_seen) == 1 for attempt in attempts)


def test_a_proxy_sends_a_commit_twice_at_once_and_its_client_hears_one_answer() -> None:
    attempts = [
        attempt for seed in range(3) for attempt in of_clients(ran(Clients(count=2, commits=2, hedged=1.0), seed))
    ]
    assert {attempt.answer for attempt in attempts} == {Answer.COMMITTED}


def test_the_clients_of_a_crashed_server_send_their_commits_to_the_next_process() -> None:
    resumed = []
    for seed in range(30):
        schedule = ran(Clients(count=4, commits=2), seed, faults=FaultPlan(crashes=2))
        again = [line for line in schedule.wire.trace.lines() if "s1+" in line and "is answered" in line]
        resumed += again
        if again:
            break
    assert resumed


def test_who_merges_what_others_merged_lands_at_once_and_leaves_no_manifest() -> None:
    clients = Clients(count=4, commits=3, commit_kinds=(CommitKind.MERGE,), retries=0)
    attempts = [each for seed in range(6) for each in of_clients(ran(clients, seed, tidy=True))]
    assert {each.answer for each in attempts} == {Answer.COMMITTED}
    assert not any(each.left_files for each in attempts)
