"""The snapshots between two snapshots of a table."""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata


def required_snapshot(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """A snapshot of the table. Raises InvalidInput if it has none of this id (any more)."""
    found = metadata.snapshot_by_id(snapshot_id)
    if found is None:
        raise InvalidInput(
            f"the table has no snapshot {snapshot_id}",
            next_step="it has expired, or is of another table; `refresh` if the table object is older than it",
        )
    return found


def snapshots_after(metadata: TableMetadata, from_id: int | None, to_id: int) -> Sequence[Snapshot]:
    """The snapshots after one, up to and with another one, the oldest first.

    from_id: may have expired, as long as no snapshot after it has; None: since the beginning. Raises InvalidInput if
    the table has no snapshot `to_id`, and if the first is no ancestor of the second, or the way between them has
    expired."""
    required_snapshot(metadata, to_id)
    line: list[Snapshot] = []
    if from_id != to_id:
        for snapshot in metadata.ancestors(to_id):
            line.append(snapshot)
            if snapshot.parent_snapshot_id is None or snapshot.parent_snapshot_id == from_id:
                break
    before = to_id if not line else line[-1].parent_snapshot_id
    if before != from_id:
        raise _not_one_line(from_id, to_id, before)
    return line[::-1]


def _not_one_line(from_id: int | None, to_id: int, before: int | None) -> InvalidInput:
    """before: the parent at which the history of `to_id` ends; None: it is whole."""
    if before is None:
        return InvalidInput(
            f"snapshot {from_id} is no ancestor of {to_id}",
            next_step="main was rolled back or replaced in between: read the table anew as of the later snapshot",
        )
    since = "the beginning" if from_id is None else f"snapshot {from_id}"
    return InvalidInput(
        f"what changed from {since} to {to_id} is not known any more: snapshot {before} on the way has expired",
        next_step="read the table anew as of the later snapshot",
    )
