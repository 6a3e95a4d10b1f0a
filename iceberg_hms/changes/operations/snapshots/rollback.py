"""Time travel of the table itself: moving main to an earlier snapshot, or to any (Java: SetSnapshotOperation).

Java computes the target on the state that the table object has, and tries again on whatever main is by then: an append
that was acknowledged in between silently leaves the table. Here main must be where the caller saw it, unless the caller
says that such commits go too. Snapshots and refs stay as they are, so that the table can be moved forward again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.snapshots.ref_change import (
    RefChange,
    SeenRef,
    Target,
    existing_ref,
    existing_snapshot,
    is_ancestor,
    resolve,
)
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that main descends from the snapshot.
ANCESTOR: Final = "rollback-ancestor"
#: `RequirementFailed.name` of the assumption that main's history has a snapshot that is old enough.
OLDER_SNAPSHOT: Final = "rollback-older-snapshot"


@dataclass(frozen=True, kw_only=True)
class SetCurrentSnapshot(RefChange):
    """Moves main to any snapshot of the table, also forward again.

    seen: where the caller saw main, which must still be there; None moves it from wherever it is.
    """

    target: Target
    seen: SeenRef | None

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        if self.seen is not None:
            self.seen.check(base)
        return move_main(base, resolve(base, self.target))


@dataclass(frozen=True, kw_only=True)
class RollBack(RefChange):
    """Moves main back to one of its ancestors.

    seen: where the caller saw main, which must still be there; None rolls back whatever was committed since, too.
    """

    snapshot_id: int
    seen: SeenRef | None

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        if self.seen is not None:
            self.seen.check(base)
        existing_snapshot(base, self.snapshot_id)
        head = existing_ref(base, MAIN_BRANCH).snapshot_id
        if not is_ancestor(base, self.snapshot_id, head):
            raise RequirementFailed(
                ANCESTOR,
                f"snapshot {self.snapshot_id} is not in the history of main, which is at {head}",
                expected=self.snapshot_id,
                found=head,
                next_step="set_current_snapshot() moves main to any snapshot",
            )
        return move_main(base, self.snapshot_id)


@dataclass(frozen=True, kw_only=True)
class RollBackToTimestamp(RefChange):
    """Moves main back to the latest of its ancestors that was made before a time.

    timestamp_ms: milliseconds since 1970 UTC. It is compared with the snapshots' own timestamps, as Java does, and not
    with the snapshot log: after an earlier rollback that may be another snapshot than the one that was current then.
    seen: where the caller saw main, which must still be there; None rolls back whatever was committed since, too.
    """

    timestamp_ms: int
    seen: SeenRef | None

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        if self.seen is not None:
            self.seen.check(base)
        head = existing_ref(base, MAIN_BRANCH).snapshot_id
        # Writers' clocks differ, so an ancestor may have a later timestamp than its child.
        older = [each for each in base.ancestors(head) if each.timestamp_ms < self.timestamp_ms]
        if not older:
            oldest = min(each.timestamp_ms for each in base.ancestors(head))
            raise RequirementFailed(
                OLDER_SNAPSHOT,
                f"the history of main has no snapshot older than {self.timestamp_ms}",
                expected=f"a timestamp below {self.timestamp_ms}",
                found=oldest,
                next_step="name a later time; older snapshots have expired, or there were none",
            )
        return move_main(base, max(older, key=lambda each: each.timestamp_ms).snapshot_id)


def move_main(base: TableMetadata, snapshot_id: int) -> Sequence[Update]:
    """The update that makes a snapshot current; main keeps its settings."""
    return [updates.set_snapshot_ref(MAIN_BRANCH, snapshot_id, retention=base.ref(MAIN_BRANCH))]
