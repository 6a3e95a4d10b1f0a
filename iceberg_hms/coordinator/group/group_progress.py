"""What a group of changes is committed with, and how far it is: the state that `commit_group`'s steps share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.group_files import GroupFiles
from iceberg_hms.coordinator.group.group_lock import GroupLock
from iceberg_hms.coordinator.group.group_outcomes import GroupFigures, GroupOutcomes
from iceberg_hms.coordinator.group.moves import Moves
from iceberg_hms.coordinator.group.refused_swaps import RefusedSwaps
from iceberg_hms.coordinator.outcome.already_committed import LookupSources
from iceberg_hms.coordinator.outcome.outcome import Outcome
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit


@dataclass(frozen=True, slots=True)
class TableHints:
    """What the last group learned of its table, for the next one.

    lock_first: other writers move the table, so what is built before the lock is wasted.
    last_location: where the pointer was when the last group ended, as far as it knows. ended: when, by `Runtime.now()`.
    """

    lock_first: bool = False
    last_location: str | None = None
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What a group leaves to its table's queue. Each commit has its outcome.

    hints: for the next group. answered_at: when its callers began to be answered, by `Runtime.now()`.
    behind_foreign_writer: as `HeldLock` says of the lock that the group had; False without one.
    replaced_lists: clients' lists that the landed metadata names no more.
    landed: the attempts that landed, in order; more than one if the group was sent in parts.
    """

    hints: TableHints
    answered_at: float
    behind_foreign_writer: bool
    replaced_lists: Sequence[str]
    landed: Sequence[CommitAttempt]


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What a group is committed with."""

    ports: CommitPorts
    cache: MetadataCache
    settings: Settings
    name: TableName
    sources: LookupSources
    outcomes: GroupOutcomes
    refusals: RefusedSwaps
    files: GroupFiles
    figures: GroupFigures
    moves: Moves
    lock: GroupLock


@dataclass(slots=True)
class GroupProgress:
    """How far a group is.

    waiting: the commits that the next attempt carries, in the order in which they came.
    attempt: built, and not yet sent, abandoned or landed.
    under_lock: the table as it was last read under the lock.
    swaps: all that it sent.
    lost_a_lock: a metastore that answers too slowly for a short lease must not cost the group one lock after the other.
    contested: the table was not where it was expected when the lock was acquired.
    The others: as `GroupResult` and its hints have them.
    """

    waiting: list[PendingCommit]
    attempt: CommitAttempt | None = None
    under_lock: TableVersion | None = None
    swaps: list[SentSwap] = field(default_factory=list)
    lost_a_lock: bool = False
    contested: bool = False
    behind_foreign_writer: bool = False
    last_location: str | None = None
    replaced_lists: list[str] = field(default_factory=list)
    landed: list[CommitAttempt] = field(default_factory=list)


def drop_withdrawn(group: GroupContext, progress: GroupProgress) -> None:
    """Go on without the commits whose callers have left: each has its answer, and no swap carries what it wrote."""
    for commit in progress.waiting:
        if commit.withdrawn:
            group.files.withdrawn(commit)
    progress.waiting = [commit for commit in progress.waiting if not commit.withdrawn]


def abandon(group: GroupContext, progress: GroupProgress) -> None:
    """Drop the attempt that no swap carried, if there is one."""
    if progress.attempt is not None:
        group.files.never_sent(progress.attempt)
        progress.attempt = None


def fail_unsent(group: GroupContext, progress: GroupProgress, error: Exception) -> list[tuple[PendingCommit, Outcome]]:
    """Nothing that carries those that wait was sent. Returns the outcomes of all that had none."""
    refused = [
        *((commit, error) for commit in progress.waiting),
        *group.refusals.verdicts(landed=bool(progress.landed)),
    ]
    progress.waiting = []
    return group.outcomes.fail_unsent(refused, error)


def send_next(group: GroupContext, progress: GroupProgress, part: list[PendingCommit]) -> bool:
    """Go on with a part of the group. False: it is empty, so all that was set aside is refused."""
    progress.waiting = part
    if not part and progress.under_lock is not None:
        for commit, error in group.refusals.verdicts(landed=bool(progress.landed)):
            group.outcomes.refuse(commit, error, progress.under_lock)
    return bool(part)
