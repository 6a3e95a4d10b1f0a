"""Refusals that rest on another change of the same group.

A change is refused for what is in the table, or for what a change before it in the group is about to put there. The
caller acts on the reason: it does not append a file again that the table is said to have. So a reason that names a
snapshot of the group is given only if that snapshot has landed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iceberg_hms.coordinator.outcome.outcome import Committed, Failed, Outcome
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitConflict, RequirementFailed


def replace_dependent_refusals(
    outcomes: Sequence[tuple[PendingCommit, Outcome]], group: Iterable[PendingCommit]
) -> list[tuple[PendingCommit, Outcome]]:
    """The outcomes of a group, in their order. A commit that was refused because of another one that is not committed
    gets a CommitConflict instead, which proves as much and lets the caller try again.

    group: all its commits, also those that were withdrawn and have their answers."""
    committed = [commit for commit, outcome in outcomes if isinstance(outcome, Committed)]
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
    return frozenset(id_ for commit in commits for id_ in commit.change.identity.snapshot_ids)
