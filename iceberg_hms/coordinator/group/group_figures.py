"""What a group's reports count and measure."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_hms.coordinator.outcome.commit_report import CommitReport
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit


@dataclass(slots=True)
class GroupFigures:
    """started: when the group began, by `Runtime.now()`. The others: as `CommitReport` has them."""

    started: float
    attempts: int = 0
    replays: int = 0
    lock_wait_ms: float = 0.0
    swap_ms: float = 0.0

    def report_landed(self, commit: PendingCommit, attempt: CommitAttempt, now: float) -> CommitReport:
        """The report of a commit whose attempt is in the table. now: by `Runtime.now()`."""
        own = commit.change.identity.snapshot_ids
        found = attempt.committed_as.get(commit, own)
        return CommitReport(
            table=attempt.base.pointer.name,
            metadata_location=attempt.location,
            metadata=attempt.metadata,
            previous_metadata_location=attempt.base.pointer.metadata_location,
            snapshot_ids=attempt.added.get(commit, found),
            attempts=self.attempts,
            replays=self.replays,
            group_size=len(attempt.commits),
            rebased=commit in attempt.rebased,
            queue_wait_ms=(self.started - commit.started) * 1000,
            lock_wait_ms=self.lock_wait_ms,
            swap_ms=self.swap_ms,
            total_ms=(now - commit.started) * 1000,
            already_committed=found != own,
        )

    def report_already_committed(
        self, commit: PendingCommit, base: TableVersion, snapshot_ids: tuple[int, ...], now: float
    ) -> CommitReport:
        """The report of a commit that adds nothing to the table as it is. snapshot_ids: as which the table has it."""
        return CommitReport(
            table=base.pointer.name,
            metadata_location=base.pointer.metadata_location,
            metadata=base.metadata,
            previous_metadata_location=base.pointer.previous_metadata_location,
            snapshot_ids=snapshot_ids,
            attempts=self.attempts,
            replays=self.replays,
            queue_wait_ms=(self.started - commit.started) * 1000,
            lock_wait_ms=self.lock_wait_ms,
            swap_ms=self.swap_ms,
            total_ms=(now - commit.started) * 1000,
            already_committed=True,
        )
