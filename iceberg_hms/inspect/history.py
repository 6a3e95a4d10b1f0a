"""Snapshots, refs, and which snapshots were current when."""

from __future__ import annotations

from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata


def snapshot_rows(metadata: TableMetadata) -> list[dict[str, Any]]:
    """Every snapshot, in the metadata's order: oldest first. refs: the branches and tags that name it."""
    names: dict[int, list[str]] = {}
    for name, ref in metadata.refs.items():
        names.setdefault(ref.snapshot_id, []).append(name)
    return [
        {
            "snapshot_id": snapshot.snapshot_id,
            "parent_id": snapshot.parent_snapshot_id,
            "sequence_number": snapshot.sequence_number,
            "timestamp_ms": snapshot.timestamp_ms,
            "operation": snapshot.operation,
            "schema_id": snapshot.schema_id,
            "manifest_list": snapshot.manifest_list,
            "refs": sorted(names.get(snapshot.snapshot_id, ())),
            "summary": dict(snapshot.summary),
        }
        for snapshot in metadata.snapshots
    ]


def ref_rows(metadata: TableMetadata) -> list[dict[str, Any]]:
    """Every branch and tag, and its retention settings (None: the table's default): main first, the rest by name."""
    return [
        {
            "name": name,
            "type": ref.type,
            "snapshot_id": ref.snapshot_id,
            "min_snapshots_to_keep": ref.min_snapshots_to_keep,
            "max_snapshot_age_ms": ref.max_snapshot_age_ms,
            "max_ref_age_ms": ref.max_ref_age_ms,
        }
        for name, ref in sorted(metadata.refs.items(), key=lambda item: (item[0] != "main", item[0]))
    ]


def history_rows(metadata: TableMetadata) -> list[dict[str, Any]]:
    """The snapshots that were current, oldest first, as in Iceberg's metadata table `history`.

    is_current_ancestor: false for snapshots that were rolled back. For an expired snapshot operation is None and
    summary is empty.
    """
    ancestors: set[int] = set()
    if metadata.current_snapshot_id is not None:
        ancestors = {snapshot.snapshot_id for snapshot in metadata.ancestors(metadata.current_snapshot_id)}
    rows = []
    for entry in metadata.snapshot_log:
        snapshot_id = entry["snapshot-id"]
        snapshot = metadata.snapshot_by_id(snapshot_id)
        rows.append(
            {
                "made_current_at_ms": entry["timestamp-ms"],
                "snapshot_id": snapshot_id,
                "parent_id": snapshot.parent_snapshot_id if snapshot else None,
                "is_current_ancestor": snapshot_id in ancestors,
                "operation": snapshot.operation if snapshot else None,
                "summary": dict(snapshot.summary) if snapshot else {},
            }
        )
    return rows


def choose_snapshot(
    metadata: TableMetadata, *, snapshot_id: int | None = None, ref: str | None = None
) -> Snapshot | None:
    """The snapshot with an id, or of a branch or tag; by default the current one, None if the table has none.

    Raises InvalidInput if it does not exist, or if both are given.
    """
    if snapshot_id is not None and ref is not None:
        raise InvalidInput("a snapshot id and a ref were both given", next_step="give one of them")
    if ref is not None:
        found = metadata.refs.get(ref)
        if found is None:
            raise InvalidInput(
                f"no branch or tag is called {ref!r}", next_step=f"known: {', '.join(metadata.refs) or 'none'}"
            )
        snapshot_id = found.snapshot_id
    if snapshot_id is None:
        return metadata.current_snapshot
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise InvalidInput(
            f"snapshot {snapshot_id} is not in the table",
            next_step="`iceberg-hms history` lists the table's snapshots; this one may have expired",
        )
    return snapshot
