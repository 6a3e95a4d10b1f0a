"""The outcomes of a group's commits, from when they become known until every caller is answered and listeners have
heard of what landed.

A caller is answered "failed" only if no swap that carried its change was sent, or the table's whole chain lacks it.

A change is refused for what is in the table, or for what a change before it in the group is about to put there. The
caller acts on the reason: it does not append a file again that the table is said to have. So a reason that names a
snapshot of the group is given only if that snapshot has landed (`replace_dependent_refusals`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.outcome.already_committed import (
    AlreadyCommitted,
    LookupSources,
    doubt_of_swaps,
    refused_at_once,
)
from iceberg_hms.coordinator.outcome.outcome import CommitReport, Committed, Failed, Outcome, Unknown, broke_off
from iceberg_hms.coordinator.ports import EventListener, Runtime, TableName
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitConflict, CommitStateUnknown, RequirementFailed
from iceberg_hms.work import Usage


@dataclass(slots=True)
class GroupFigures:
    """What the reports of a group count and measure.

    started: when the group began, by `Runtime.now()`. usage: what it has used so far. The others: as `CommitReport` has
    them."""

    started: float
    usage: Usage = field(default_factory=Usage)
    attempts: int = 0
    replays: int = 0
    lock_wait_ms: float = 0.0
    swap_ms: float = 0.0

    def report_landed(self, commit: PendingCommit, attempt: CommitAttempt, now: float) -> CommitReport:
        """The report of a commit whose attempt is in the table. now: by `Runtime.now()`."""
        own = commit.identity.snapshot_ids
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
            metastore_calls=len(self.usage.calls),
            bytes_written=sum(self.usage.writes),
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


class GroupOutcomes:
    """commits: all of the group. holds_back: called with each commit once its outcome is decided; True: the caller of
    this group answers it later."""

    def __init__(
        self,
        name: TableName,
        commits: Sequence[PendingCommit],
        sources: LookupSources,
        holds_back: Callable[[PendingCommit], bool],
    ) -> None:
        #: In the order in which they became known; those that were withdrawn have none.
        self.known: list[tuple[PendingCommit, Outcome]] = []
        #: `Runtime.now()` when the callers began to be answered.
        self.answered_at = math.inf
        self._name = name
        self._commits = commits
        self._sources = sources
        self._holds_back = holds_back
        #: Refused, and perhaps committed before or by a swap that is under way; each with the error, and the table on
        #: which it was refused.
        self._unproved: list[tuple[PendingCommit, Exception, TableVersion]] = []

    def add(self, commit: PendingCommit, outcome: Outcome) -> None:
        self.known.append((commit, outcome))

    def unknown(self, commits: Sequence[PendingCommit], error: CommitStateUnknown) -> None:
        self.known.extend((commit, Unknown(error)) for commit in commits)

    def refuse(self, commit: PendingCommit, error: Exception, base: TableVersion) -> None:
        """Note that no swap of this group carried a commit. But its change may be here for the second time: its
        snapshots may have expired since the first, or its first swap may still be under way. Where `base`, the table as
        it is, does not exclude that, the answer waits for `answer_unproved`."""
        outcome = refused_at_once(commit.identity, error, base, self._sources.sent, self._commits)
        if outcome is None:
            self._unproved.append((commit, error, base))
        else:
            self.add(commit, outcome)

    def to_exclude(self) -> list[PendingCommit]:
        """The refused commits that may still come into the table, unless a swap that compares atomically excludes
        it."""
        return [
            commit
            for commit, _, base in self._unproved
            if doubt_of_swaps(commit.identity, base, self._sources.sent, group=self._commits) is not None
            and self._sources.sent.can_be_excluded(commit.identity, self._commits)
        ]

    def excluded(self, base: TableVersion) -> None:
        """Such a swap made `base` of the table: no swap from before it can be made any more, so `base` tells all."""
        self._unproved = [(commit, error, base) for commit, error, _ in self._unproved]

    def begin_again(self) -> None:
        """Forget the outcomes, of which nobody has heard: the group is staged anew, and nothing of it was sent."""
        self.known.clear()
        self._unproved.clear()

    def fail_unsent(
        self, refused: Sequence[tuple[PendingCommit, Exception]], error: Exception
    ) -> list[tuple[PendingCommit, Outcome]]:
        """Note that the group ended with `error` before a swap carried these commits, each with its own reason. Returns
        their outcomes. Unknown for one that was sent all the same: a defect kept its outcome from being noted."""
        already_committed = AlreadyCommitted(self._name, self._sources, self._commits)
        outcomes: list[tuple[PendingCommit, Outcome]] = [
            (
                commit,
                Unknown(broke_off(self._name, error))
                if commit.sent
                else already_committed.failed_or_unknown(commit.identity, reason),
            )
            for commit, reason in refused
        ]
        self.known += outcomes
        return outcomes

    def answer(self, runtime: Runtime, usage: Usage) -> None:
        """Answer every caller with its outcome, which nothing that follows can change. Only the first call does."""
        if self.answered_at == math.inf:
            self.answered_at = runtime.now()
            for commit, outcome in replace_dependent_refusals(self.known, self._commits):
                self._answer_one(commit, _with_usage(outcome, usage))

    def answer_early(self) -> None:
        """Answer the callers whose outcomes are known, although the group goes on. Never raises."""
        with log_and_continue(f"answering those of a group of {self._name} whose swap is overdue", REPORT):
            for commit, outcome in replace_dependent_refusals(self.known, self._commits):
                commit.settle(outcome)
            self.answer_unproved()

    def answer_unproved(self) -> None:
        """Answer the refused callers whose failure the table as it is does not prove. That reads older metadata files,
        so it is done when the lock is given back and the others are answered."""
        unproved, self._unproved = self._unproved, []
        already_committed = AlreadyCommitted(self._name, self._sources, self._commits)
        for commit, error, base in unproved:
            outcome = already_committed.failed_or_unknown(commit.identity, error, base)
            self.add(commit, outcome)
            self._answer_one(commit, outcome)

    def publish(self, events: EventListener, usage: Usage) -> None:
        """Publish what this group committed."""
        for _, outcome in self.known:
            if isinstance(outcome, Committed) and not outcome.report.already_committed:
                with log_and_continue(f"telling listeners of {self._name}", REPORT):
                    events.publish({"event": "committed", "report": outcome.report.with_usage(usage)})

    def _answer_one(self, commit: PendingCommit, outcome: Outcome) -> None:
        commit.decide(outcome)
        held_back = False
        with log_and_continue(f"noting whose turn it is on {self._name}", REPORT):
            held_back = self._holds_back(commit)
        if not held_back:
            commit.answer()


def _with_usage(outcome: Outcome, usage: Usage) -> Outcome:
    if isinstance(outcome, Committed):
        return Committed(outcome.report.with_usage(usage))
    return outcome


def replace_dependent_refusals(
    outcomes: Sequence[tuple[PendingCommit, Outcome]], group: Iterable[PendingCommit]
) -> list[tuple[PendingCommit, Outcome]]:
    """The outcomes of a group, in their order. A commit that was refused because of another one that is not committed
    gets a CommitConflict instead, which proves as much and lets the caller try again.

    group: all its commits, also those that were withdrawn and have their answers."""
    committed = [commit for commit, outcome in outcomes if isinstance(outcome, Committed)]
    if len(committed) == len(outcomes):
        return [*outcomes]
    not_landed = _snapshots(group) - _snapshots(committed)
    return [(commit, _without_reason(outcome, not_landed)) for commit, outcome in outcomes]


def _without_reason(outcome: Outcome, not_landed: frozenset[int]) -> Outcome:
    error = outcome.error if isinstance(outcome, Failed) else None
    if not isinstance(error, RequirementFailed) or not_landed.isdisjoint(error.rests_on):
        return outcome
    return Failed(
        CommitConflict(
            f"refused because of a commit that came just before, which is not known to have landed: {error.what}",
            next_step="try again",
        )
    )


def _snapshots(commits: Iterable[PendingCommit]) -> frozenset[int]:
    return frozenset(id_ for commit in commits for id_ in commit.identity.snapshot_ids)
