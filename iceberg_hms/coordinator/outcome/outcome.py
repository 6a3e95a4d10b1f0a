"""What became of a change that was committed in a group."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_hms.coordinator.outcome.commit_report import CommitReport
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CommitFailed, CommitStateUnknown


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
