"""Every caller is answered once, with what nothing that follows can change.

A refusal that rests on a mate is given as such only if the mate has landed: one file in two appends of a group.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.coordinator.group.group_outcomes import GroupFigures, GroupOutcomes, replace_dependent_refusals
from iceberg_hms.coordinator.outcome.outcome import CommitReport, Committed, Failed, Outcome, Unknown
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import (
    CommitConflict,
    CommitStateUnknown,
    InvalidInput,
    MetastoreUnavailable,
    RequirementFailed,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from iceberg_hms.work import Usage
from tests.coordinator import documents
from tests.coordinator.harness import NAME, Harness, append
from tests.coordinator.resends import MINE, add, expire, sent, with_files


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


def test_a_report_of_a_landed_commit_has_the_attempt_and_the_times() -> None:
    harness = Harness()
    harness.create()
    commits = harness.members(append("file:/a", snapshot_id=1), append("file:/b", snapshot_id=2))
    base = harness.coordinator.load(NAME)
    attempt = CommitAttempt(base, base.metadata, "new", commits, rebased=frozenset(commits[:1]))
    begun = commits[0].started
    figures = GroupFigures(begun + 1, attempts=2, replays=1, lock_wait_ms=30.0, swap_ms=20.0)
    report = figures.report_landed(commits[0], attempt, begun + 2)
    assert (report.table, report.metadata_location, report.previous_metadata_location) == (
        NAME,
        "new",
        base.pointer.metadata_location,
    )
    assert (report.attempts, report.replays, report.group_size, report.snapshot_ids) == (2, 1, 2, (1,))
    assert (round(report.queue_wait_ms), report.lock_wait_ms, report.swap_ms) == (1000, 30.0, 20.0)
    assert round(report.total_ms) == 2000
    assert report.rebased
    assert not report.already_committed
    assert not figures.report_landed(commits[1], attempt, begun + 2).rebased


def test_a_commit_that_landed_as_the_snapshot_of_another_run_was_committed_already() -> None:
    harness = Harness()
    harness.create()
    [commit] = harness.members(append("file:/a", snapshot_id=1))
    base = harness.coordinator.load(NAME)
    attempt = CommitAttempt(base, base.metadata, "new", [commit], committed_as={commit: (7,)})
    report = GroupFigures(0.0).report_landed(commit, attempt, 0.0)
    assert (report.already_committed, report.snapshot_ids) == (True, (7,))


def test_a_report_of_what_was_committed_before_has_the_table_as_it_is_and_no_group() -> None:
    harness = Harness()
    harness.create()
    [commit] = harness.members(append("file:/a", snapshot_id=1))
    base = harness.coordinator.load(NAME)
    report = GroupFigures(0.0, attempts=1).report_already_committed(commit, base, (1,), 0.0)
    assert (report.metadata_location, report.group_size) == (base.pointer.metadata_location, 0)
    assert report.previous_metadata_location == base.pointer.previous_metadata_location
    assert (report.already_committed, report.snapshot_ids) == (True, (1,))


def test_a_commit_that_only_moved_a_ref_in_the_end_names_no_new_snapshot() -> None:
    harness = Harness()
    harness.create()
    [commit] = harness.members(append("file:/a", snapshot_id=1))
    base = harness.coordinator.load(NAME)
    attempt = CommitAttempt(base, base.metadata, "new", [commit], added={commit: ()})
    report = GroupFigures(0.0).report_landed(commit, attempt, 0.0)
    assert (report.already_committed, report.snapshot_ids) == (False, ())


LANDED = Committed(CommitReport(NAME, "file:/t/metadata/1.metadata.json", TableMetadata.parse(documents.raw())))
BECAUSE_OF_5 = Failed(RequirementFailed("new-files", "main has it already", rests_on=frozenset({5})))


@pytest.mark.parametrize(
    ("first", "stays"),
    [
        (LANDED, True),
        (Failed(InvalidInput("no")), False),
        (Unknown(CommitStateUnknown("who knows")), False),
        (None, False),
    ],
    ids=["landed", "failed", "unknown", "withdrawn"],
)
def test_it_stands_if_the_mate_has_landed(first: Outcome | None, stays: bool) -> None:
    mate, other = Harness().members(append("file:/a", snapshot_id=5), append("file:/a", snapshot_id=6))
    outcomes = [*([(mate, first)] if first else []), (other, BECAUSE_OF_5)]
    *rest, (member, outcome) = replace_dependent_refusals(outcomes, [mate, other])
    assert rest == outcomes[:-1]
    assert member is other
    if stays:
        assert outcome is BECAUSE_OF_5
    else:
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, CommitConflict)
        assert outcome.error.proved_failed
        assert "main has it already" in outcome.error.message


def test_of_two_appends_of_one_file_the_later_is_refused_in_the_same_group_too(
    harness: Harness,
) -> None:
    first, second = members = harness.members(append("file:/d/a", snapshot_id=5), append("file:///d/a"))
    harness.group(*members)
    assert first.wait().snapshot_ids == (5,)
    with pytest.raises(RequirementFailed, match=r"main has 1 of the files already: file:/d/a \(snapshot 5\)") as caught:
        second.wait()
    assert caught.value.proved_failed
    with pytest.raises(RequirementFailed, match="snapshot 5"):
        harness.commit(append("file:/d/a"))
    assert harness.data_files() == ["file:/d/a"]


def test_a_file_that_another_process_appends_before_we_hold_the_lock_is_refused(harness: Harness) -> None:
    theirs = harness.another()
    acquire = harness.lock.acquire

    def after_theirs(*arguments: Any, **options: Any) -> Any:
        harness.lock.acquire = acquire  # type: ignore[method-assign]
        theirs.commit(NAME, append("file:/d/a", snapshot_id=5), wait_seconds=30)
        return acquire(*arguments, **options)

    harness.lock.acquire = after_theirs  # type: ignore[method-assign]
    with pytest.raises(RequirementFailed, match="snapshot 5"):
        harness.commit(append("file:///d/a"))
    harness.runtime.join()
    assert harness.data_files() == ["file:/d/a"]


def test_a_caller_refused_because_of_an_append_that_did_not_land_is_asked_to_try_again(harness: Harness) -> None:
    harness.pointer.answers.extend([ScriptedAnswer.REFUSED, ScriptedAnswer.REFUSED])
    harness.pointer.writes = False
    members = harness.members(append("file:/d/a"), append("file:/d/a"), append("file:/d/b"))
    harness.group(*members)
    with pytest.raises(MetastoreUnavailable):
        members[0].wait()
    with pytest.raises(CommitConflict, match="try again") as caught:
        members[1].wait()
    assert caught.value.proved_failed
    assert harness.data_files() == []


def test_of_two_jobs_with_one_key_the_later_is_refused_in_the_same_group_too(harness: Harness) -> None:
    named = ((5, "a"), (6, "b"), (7, "a"))
    first, other, rerun = members = harness.members(
        *(append(f"file:/d/{name}", snapshot_id=id_, key="job") for id_, name in named)
    )
    harness.group(*members)
    assert first.wait().snapshot_ids == rerun.wait().snapshot_ids == (5,)
    with pytest.raises(RequirementFailed, match="job belongs to snapshot 5, which did not add file:///d/b"):
        other.wait()
    assert harness.data_files() == ["file:/d/a"]


def test_of_two_jobs_with_one_key_the_later_may_try_again_if_the_first_did_not_land(harness: Harness) -> None:
    harness.pointer.answers.extend([ScriptedAnswer.REFUSED, ScriptedAnswer.REFUSED])
    members = harness.members(append("file:/d/a", key="job"), append("file:/d/b", key="job"))
    harness.group(*members)
    with pytest.raises(CommitConflict, match="try again"):
        members[1].wait()


def test_a_resend_of_an_append_that_landed_is_no_duplicate(harness: Harness) -> None:
    harness.commit(append("file:/d/a", snapshot_id=5, key="job"))
    assert harness.commit(append("file:/d/a", snapshot_id=5)).already_committed
    assert harness.commit(append("file:/d/a", key="job")).already_committed
    assert harness.data_files() == ["file:/d/a"]


def test_other_refusals_stand() -> None:
    mate, other = Harness().members(append("file:/a", snapshot_id=7), append("file:/a", snapshot_id=8))
    failed = Failed(InvalidInput("no"))
    for outcome in (BECAUSE_OF_5, failed, Failed(RequirementFailed("x", "y")), Failed(ValueError("z")), LANDED):
        assert replace_dependent_refusals([(mate, failed), (other, outcome)], [mate, other]) == [
            (mate, failed),
            (other, outcome),
        ]
