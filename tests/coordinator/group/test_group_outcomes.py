"""Every caller is answered once, with what nothing that follows can change."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from iceberg_hms.coordinator.group.group_outcomes import GroupOutcomes
from iceberg_hms.coordinator.outcome.commit_report import CommitReport
from iceberg_hms.coordinator.outcome.outcome import Committed, Failed, Unknown
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitConflict, CommitStateUnknown, RequirementFailed
from iceberg_hms.work import Usage
from tests.coordinator.harness import NAME, Harness, append
from tests.coordinator.resends import MINE, add, expire, sent, with_files


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.create()
    return made


def outcomes_of(harness: Harness, commits: list[PendingCommit], *, held_back: bool = False) -> GroupOutcomes:
    return GroupOutcomes(NAME, commits, harness.sources(harness.cache()), lambda _: held_back)


def report(harness: Harness) -> CommitReport:
    return CommitReport(NAME, harness.location(), harness.metadata())


def test_callers_are_answered_once_and_hear_what_their_group_used(harness: Harness) -> None:
    commits = harness.members(append("file:/a"))
    outcomes = outcomes_of(harness, commits)
    outcomes.add(commits[0], Committed(report(harness)))
    assert outcomes.answered_at == math.inf
    outcomes.answer(harness.runtime, Usage(calls=["lock", "unlock"], writes=[5]))
    first = outcomes.answered_at
    outcomes.answer(harness.runtime, Usage(calls=["lock"]))
    assert outcomes.answered_at == first < math.inf
    assert (commits[0].wait().metastore_calls, commits[0].wait().bytes_written) == (2, 5)


def test_a_commit_that_is_held_back_has_its_outcome_and_its_caller_waits(harness: Harness) -> None:
    commits = harness.members(append("file:/a"))
    outcomes, heard = outcomes_of(harness, commits, held_back=True), []
    commits[0].when_settled(lambda: heard.append(1))
    outcomes.refuse(commits[0], RequirementFailed("x", "y"), harness.version())
    outcomes.answer(harness.runtime, Usage())
    assert isinstance(commits[0].outcome, Failed)
    assert heard == []


def test_a_refusal_that_the_table_at_hand_does_not_prove_is_answered_after_the_others(harness: Harness) -> None:
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    harness.commit(mine)
    add(harness, 20, "other")
    expire(harness, 1, 2, MINE)
    commits = harness.members(mine, append("file:/x"))
    outcomes = outcomes_of(harness, commits)
    for commit in commits:
        outcomes.refuse(commit, CommitConflict("moved"), harness.version())
    assert [commit for commit, _ in outcomes.known] == commits[1:]
    outcomes.answer(harness.runtime, Usage())
    assert commits[0].outcome is None
    outcomes.answer_unproved()
    assert isinstance(commits[0].outcome, Unknown)
    assert "but it was" in commits[0].outcome.error.message
    assert isinstance(commits[1].outcome, Failed)


def test_a_commit_that_was_sent_is_never_failed_by_the_end_of_its_group(harness: Harness) -> None:
    was_sent, waits = commits = harness.members(append("file:/a"), append("file:/b"))
    assert was_sent.take(SentSwap(NAME, "file:/base"))
    outcomes = outcomes_of(harness, commits)
    error, own = ValueError("a defect"), CommitConflict("refused alone")
    settled = outcomes.fail_unsent([(was_sent, own), (waits, own)], error)
    assert settled == outcomes.known
    (_, first), (_, second) = settled
    assert isinstance(first, Unknown)
    assert "broke off: ValueError: a defect" in first.error.message
    assert second == Failed(own)


def test_callers_of_an_overdue_swap_are_answered_although_the_group_goes_on(harness: Harness) -> None:
    known, carried = commits = harness.members(append("file:/a"), append("file:/b"))
    outcomes = outcomes_of(harness, commits)
    outcomes.refuse(known, CommitConflict("moved"), harness.version())
    outcomes.answer_early()
    assert isinstance(known.outcome, Failed)
    assert carried.outcome is None
    assert outcomes.answered_at == math.inf


def test_only_what_this_group_committed_is_published(harness: Harness) -> None:
    commits = harness.members(*(append(f"file:/{number}") for number in range(4)))
    outcomes = outcomes_of(harness, commits)
    landed = report(harness)
    outcomes.add(commits[0], Committed(landed))
    outcomes.add(commits[1], Committed(replace(landed, already_committed=True)))
    outcomes.add(commits[2], Failed(CommitConflict("moved")))
    outcomes.unknown(commits[3:], CommitStateUnknown("perhaps"))
    harness.events.clear()
    outcomes.publish(harness, Usage(calls=["lock"]))
    assert [event["report"].metastore_calls for event in harness.events] == [1]
