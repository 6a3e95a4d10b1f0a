"""A file is deleted only if no swap was sent that would have made the table name it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_hms.coordinator.files.group_files import GroupFiles
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.outcome import CommitReport, Committed, Failed, Outcome, Unknown
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitFailed, CommitStateUnknown
from tests.coordinator.harness import NAME, Harness, append


class Group:
    """Two commits of which each wrote one manifest, and an attempt that carries both."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.harness.create()
        self.commits = self.harness.members(append("file:/a", snapshot_id=1), append("file:/b", snapshot_id=2))
        base = self.harness.coordinator.load(NAME)
        self.attempt = CommitAttempt(
            base,
            base.metadata,
            "file:/m.json",
            self.commits,
            written=("file:/m.json", "file:/list"),
            staged_files=("file:/own-0", "file:/own-1"),
        )
        self.swap = self.attempt.swap(fences=True)
        self.files = GroupFiles()
        self.swaps: list[SentSwap] = []
        self.landed: list[CommitAttempt] = []
        self.files.staged({commit: [f"file:/own-{number}"] for number, commit in enumerate(self.commits)})
        self.report = CommitReport(NAME, "file:/m.json", base.metadata)
        for name in ("file:/m.json", "file:/list", "file:/own-0", "file:/own-1", "file:/half"):
            self.harness.files.write(name, b"x")

    def left(self, *outcomes: Outcome) -> list[str]:
        """The group's files that are there after the garbage was deleted."""
        known: list[tuple[PendingCommit, Outcome]] = list(zip(self.commits, outcomes, strict=False))
        self.files.delete_garbage(self.harness.ports, NAME, self.harness.manifests.open, known, self.swaps, self.landed)
        return sorted(name for name in self.harness.files.locations() if name.count("/") == 1)

    def committed(self, commit: int, *snapshot_ids: int) -> Outcome:
        own = self.commits[commit].change.identity.snapshot_ids
        return Committed(replace(self.report, snapshot_ids=snapshot_ids or own, already_committed=bool(snapshot_ids)))

    def only_moved_a_ref(self) -> Outcome:
        return Committed(replace(self.report, snapshot_ids=()))


@pytest.fixture
def group() -> Group:
    return Group()


FAILED = Failed(CommitFailed("no"))
UNKNOWN = Unknown(CommitStateUnknown("perhaps"))


def test_only_what_a_failed_commit_wrote_is_deleted(group: Group) -> None:
    assert group.left(group.committed(0), FAILED) == ["file:/half", "file:/list", "file:/m.json", "file:/own-0"]


def test_what_an_unknown_commit_wrote_stays(group: Group) -> None:
    assert group.left(UNKNOWN, UNKNOWN) == ["file:/half", "file:/list", "file:/m.json", "file:/own-0", "file:/own-1"]


def test_an_attempt_that_no_swap_carried_goes_and_its_commits_files_stay_for_the_next_one(group: Group) -> None:
    group.files.never_sent(group.attempt)
    assert group.left(group.committed(0), group.committed(1)) == ["file:/half", "file:/own-0", "file:/own-1"]


def test_what_a_refused_swap_carried_stays_even_where_the_commit_failed(group: Group) -> None:
    group.swaps.append(group.swap)
    group.files.never_sent(group.attempt)
    assert group.left(FAILED, FAILED) == ["file:/half", "file:/list", "file:/m.json", "file:/own-0", "file:/own-1"]


def test_what_a_withdrawn_commit_wrote_goes(group: Group) -> None:
    group.files.withdrawn(group.commits[0])
    assert group.left() == ["file:/half", "file:/list", "file:/m.json", "file:/own-1"]


def test_a_metadata_file_that_could_not_be_written_whole_goes(group: Group) -> None:
    group.files.not_written("file:/half")
    assert "file:/half" not in group.left(group.committed(0), group.committed(1))


def test_what_a_rerun_of_a_job_wrote_goes_since_the_first_run_landed(group: Group) -> None:
    assert group.left(group.committed(0, 77), group.committed(1)) == [
        "file:/half",
        "file:/list",
        "file:/m.json",
        "file:/own-1",
    ]


def test_what_a_commit_wrote_that_only_moved_a_ref_in_the_end_stays(group: Group) -> None:
    """Another change of the same transaction may have written it."""
    assert "file:/own-0" in group.left(group.only_moved_a_ref(), group.committed(1))


def test_a_manifest_that_the_landed_attempt_no_longer_needs_goes(group: Group) -> None:
    group.files.wrote({group.commits[0]: ["file:/half", "file:/own-0"]})
    group.swaps.append(group.swap)
    group.landed.append(group.attempt)
    left = group.left(group.committed(0), group.committed(1))
    assert left == ["file:/list", "file:/m.json", "file:/own-0", "file:/own-1"]


def test_a_manifest_that_a_refused_swap_carried_stays_though_the_next_one_landed_without_it(group: Group) -> None:
    group.files.wrote({group.commits[0]: ["file:/half"]})
    first = replace(group.attempt, staged_files=(*group.attempt.staged_files, "file:/half"))
    group.swaps.append(first.swap(fences=True))
    group.swaps.append(group.swap)
    group.landed.append(group.attempt)
    assert "file:/half" in group.left(group.committed(0), group.committed(1))


def test_what_a_swap_carried_that_was_not_sent_goes(group: Group) -> None:
    """The lock was lost before."""
    group.files.wrote({group.commits[0]: ["file:/half"]})
    unsent = replace(group.attempt, staged_files=(*group.attempt.staged_files, "file:/half")).swap(fences=True)
    group.swaps.append(unsent)
    unsent.status = CommitStatus.FAILURE
    group.swaps.append(group.swap)
    group.landed.append(group.attempt)
    assert "file:/half" not in group.left(group.committed(0), group.committed(1))


def test_a_manifest_of_a_commit_that_another_group_may_have_landed_stays(group: Group) -> None:
    """It was in the table when this group looked again; the swap that put it there may have named the manifest."""
    group.files.wrote({group.commits[0]: ["file:/half"]})
    assert "file:/half" in group.left(group.committed(0), group.committed(1))


def test_a_manifest_that_the_landed_snapshot_lists_stays_whatever_the_change_says() -> None:
    group = Group()
    group.harness.commit(append("file:/c", snapshot_id=1))
    metadata = group.harness.metadata()
    listed = group.harness.manifests.open().list(metadata.snapshots[0])[0].manifest_path
    group.harness.files.write(listed, b"x")
    attempt = replace(group.attempt, metadata=metadata)
    group.files.wrote({group.commits[0]: [listed, "file:/half"]})
    group.swaps.append(attempt.swap(fences=True))
    group.landed.append(attempt)
    assert "file:/half" not in group.left(group.committed(0), group.committed(1))
    assert listed in group.harness.files.locations()


def test_nothing_is_deleted_if_the_landed_snapshot_cannot_be_read(group: Group) -> None:
    group.harness.commit(append("file:/c", snapshot_id=1))
    attempt = replace(group.attempt, metadata=group.harness.metadata())
    group.harness.manifests.lists.clear()
    group.files.wrote({group.commits[0]: ["file:/half"]})
    group.swaps.append(attempt.swap(fences=True))
    group.landed.append(attempt)
    assert "file:/half" in group.left(group.committed(0), group.committed(1))
