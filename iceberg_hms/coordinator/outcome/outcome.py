"""What became of a change: committed, with a report for the caller and the logs; failed; or unknown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CommitFailed, CommitStateUnknown
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import Usage


@dataclass(frozen=True, slots=True)
class CommitReport:
    """The result of one committed change.

    metadata, metadata_location: the table as this commit's swap left it; other commits of the group are in it.
    previous_metadata_location: what the swap replaced; None for a new table.
    snapshot_ids: the snapshots that this change added; if the table already had its idempotency key, the snapshot of
    the run that landed.
    attempts: how often the coordinator built the group; replays: how many of these because the table had moved.
    group_size: how many changes the swap carried.
    rebased: whether the coordinator put the snapshot on a parent that its client had not seen.
    queue_wait_ms, lock_wait_ms, swap_ms, total_ms: durations in milliseconds.
    metastore_calls: calls that the whole group sent, without heartbeats. They include the unlock in logs, in counters,
    and in the report of a caller that commits alone; callers of a larger group get their reports before the unlock.
    bytes_written: bytes of the metadata files, lists and manifests that the whole group wrote, also in abandoned
    attempts; data files do not count.
    already_committed: whether the change had landed before (a retry, or its idempotency key); this commit then added
    nothing.
    """

    table: TableName
    metadata_location: str
    metadata: TableMetadata
    previous_metadata_location: str | None = None
    snapshot_ids: tuple[int, ...] = ()
    attempts: int = 0
    replays: int = 0
    group_size: int = 0
    rebased: bool = False
    queue_wait_ms: float = 0.0
    lock_wait_ms: float = 0.0
    swap_ms: float = 0.0
    total_ms: float = 0.0
    metastore_calls: int = 0
    bytes_written: int = 0
    already_committed: bool = False

    def with_usage(self, usage: Usage) -> CommitReport:
        """The report with what the commit used."""
        calls, written = len(usage.calls), sum(usage.writes)
        if (calls, written) == (self.metastore_calls, self.bytes_written):
            return self
        return replace(self, metastore_calls=calls, bytes_written=written)


@dataclass(frozen=True, slots=True)
class Committed:
    """The change is in the table."""

    report: CommitReport


@dataclass(frozen=True, slots=True)
class Failed:
    """PROVED: no swap that carried the change took effect, whatever the type of the error says."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Unknown:
    """The change may be in the table."""

    error: CommitStateUnknown


Outcome = Committed | Failed | Unknown


def reason_to_refuse(name: TableName, error: BaseException) -> Exception:
    """The error for callers whose commit was ended by `error` before it was sent. What ends threads and tasks, such as
    SystemExit or asyncio.CancelledError, must not end theirs."""
    if isinstance(error, Exception):
        return error
    return CommitFailed(f"a commit to {name} broke off before it was sent: {error.__class__.__name__}: {error}")


def broke_off(name: TableName, error: BaseException) -> CommitStateUnknown:
    """The error for callers whose commit a defect of ours interrupted, so that nobody knows what became of it."""
    return CommitStateUnknown(f"a commit to {name} broke off: {error.__class__.__name__}: {error}")
