"""What a group's reports count and measure."""

from __future__ import annotations

from iceberg_hms.coordinator.group.group_figures import GroupFigures
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from tests.coordinator.harness import NAME, Harness, append


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
