"""A refusal that rests on a mate is given as such only if the mate has landed: one file in two appends of a group."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.coordinator.group.dependent_refusals import replace_dependent_refusals
from iceberg_hms.coordinator.outcome.commit_report import CommitReport
from iceberg_hms.coordinator.outcome.outcome import Committed, Failed, Outcome, Unknown
from iceberg_hms.errors import (
    CommitConflict,
    CommitStateUnknown,
    InvalidInput,
    MetastoreUnavailable,
    RequirementFailed,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator import documents
from tests.coordinator.harness import NAME, Harness, append

LANDED = Committed(CommitReport(NAME, "file:/t/metadata/1.metadata.json", TableMetadata.parse(documents.raw())))


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.create()
    return made


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
