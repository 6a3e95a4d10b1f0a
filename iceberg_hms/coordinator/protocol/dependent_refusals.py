"""Refusals that rest on another change of the same group.

A change is refused for what is in the table, or for what a change before it in the group is about to put there. The
caller acts on the reason: a file that the table is said to have is not appended again. So a reason that names a
snapshot of the group is given only if that snapshot has landed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iceberg_hms.coordinator.protocol.pending_commit import Committed, Failed, Outcome, PendingCommit
from iceberg_hms.errors import CommitConflict, RequirementFailed


def standing(
    outcomes: Sequence[tuple[PendingCommit, Outcome]], group: Iterable[PendingCommit]
) -> list[tuple[PendingCommit, Outcome]]:
    """The outcomes of a group, in their order. A member that was refused because of another one that is not committed
    gets a CommitConflict instead, which proves as much: trying again is what helps.

    group: all its members, those too that were withdrawn and have their answers."""
    committed = [member for member, outcome in outcomes if isinstance(outcome, Committed)]
    pending = _snapshots(group) - _snapshots(committed)
    return [(member, _standing(outcome, pending)) for member, outcome in outcomes]


def _standing(outcome: Outcome, pending: frozenset[int]) -> Outcome:
    error = outcome.error if isinstance(outcome, Failed) else None
    if not isinstance(error, RequirementFailed) or pending.isdisjoint(error.rests_on):
        return outcome
    return Failed(
        CommitConflict(
            f"refused because of a commit that came just before, which is not known to have landed: {error.what}",
            next_step="try again",
        )
    )


def _snapshots(members: Iterable[PendingCommit]) -> frozenset[int]:
    return frozenset(id_ for member in members for id_ in member.change.identity.snapshot_ids)
