"""Snapshots, refs, and which snapshots were current when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One snapshot in the metadata. timestamp_ms: milliseconds since 1970; refs: the branches and tags that name it."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None
    schema_id: int | None
    manifest_list: str | None
    refs: tuple[str, ...]
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RefRow:
    """A branch or tag, and its retention settings (None: the table's default)."""

    name: str
    type: str
    snapshot_id: int
    min_snapshots_to_keep: int | None
    max_snapshot_age_ms: int | None
    max_ref_age_ms: int | None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One moment at which a snapshot became current, as in Iceberg's metadata table `history`.

    is_current_ancestor: false for snapshots that were rolled back. For an expired snapshot operation is None and
    summary is empty.
    """

    made_current_at_ms: int
    snapshot_id: int
    parent_id: int | None
    is_current_ancestor: bool
    operation: str | None
    summary: Mapping[str, str]


def snapshot_rows(metadata: TableMetadata) -> tuple[SnapshotRow, ...]:
    """Every snapshot, in the metadata's order: oldest first."""
    names: dict[int, list[str]] = {}
    for name, ref in metadata.refs.items():
        names.setdefault(ref.snapshot_id, []).append(name)
    return tuple(
        SnapshotRow(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_id,
            sequence_number=snapshot.sequence_number,
            timestamp_ms=snapshot.timestamp_ms,
            operation=snapshot.operation,
            schema_id=snapshot.schema_id,
            manifest_list=snapshot.manifest_list,
            refs=tuple(sorted(names.get(snapshot.snapshot_id, ()))),
            summary=dict(snapshot.summary),
        )
        for snapshot in metadata.snapshots
    )


def ref_rows(metadata: TableMetadata) -> tuple[RefRow, ...]:
    """Every branch and tag: main first, the rest by name."""
    return tuple(
        RefRow(
            name=name,
            type=ref.type,
            snapshot_id=ref.snapshot_id,
            min_snapshots_to_keep=ref.min_snapshots_to_keep,
            max_snapshot_age_ms=ref.max_snapshot_age_ms,
            max_ref_age_ms=ref.max_ref_age_ms,
        )
        for name, ref in sorted(metadata.refs.items(), key=lambda item: (item[0] != "main", item[0]))
    )


def history_rows(metadata: TableMetadata) -> tuple[HistoryRow, ...]:
    """The snapshots that were current, oldest first, including those that were rolled back."""
    ancestors: set[int] = set()
    if metadata.current_snapshot_id is not None:
        ancestors = {snapshot.snapshot_id for snapshot in metadata.ancestors(metadata.current_snapshot_id)}
    rows = []
    for entry in metadata.snapshot_log:
        snapshot_id = entry["snapshot-id"]
        snapshot = metadata.snapshot_by_id(snapshot_id)
        rows.append(
            HistoryRow(
                made_current_at_ms=entry["timestamp-ms"],
                snapshot_id=snapshot_id,
                parent_id=snapshot.parent_id if snapshot else None,
                is_current_ancestor=snapshot_id in ancestors,
                operation=snapshot.operation if snapshot else None,
                summary=dict(snapshot.summary) if snapshot else {},
            )
        )
    return tuple(rows)


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
