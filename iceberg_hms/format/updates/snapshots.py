"""Updates of snapshots and refs, as Java's TableMetadata.Builder makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from iceberg_hms.errors import CommitFailed, DoesNotFit, InvalidInput, UnsupportedFormat
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.metadata.rows import Rows
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref, Snapshot
from iceberg_hms.format.updates.draft import ENTRY_NAMES, MetadataDraft

#: What a snapshot may have done (spec: Snapshots, `operation`).
OPERATIONS: Final = ("append", "replace", "overwrite", "delete")


def add_snapshot(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`add-snapshot`. Raises InvalidInput for a snapshot that can never be added, DoesNotFit for an id that the table
    has, CommitFailed for numbers behind the table's: the client makes the snapshot again on the new state
    (apache/iceberg#15126)."""
    raw = read.without_nulls(update["snapshot"])
    snapshot = Snapshot.parse(raw)
    _check_ready(draft)
    _check_complete(draft, snapshot)
    if snapshot.snapshot_id in draft.snapshots_by_id:
        raise DoesNotFit(f"Snapshot already exists for id: {snapshot.snapshot_id}")
    if draft.format_version > 1:
        _take_sequence_number(draft, snapshot)
    if draft.format_version > 2:
        _take_row_ids(draft, snapshot)
    draft.add_snapshot(raw)


def set_snapshot_ref(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`set-snapshot-ref`: creates or moves a branch or tag. Moving main changes the current snapshot and the log.
    Raises DoesNotFit for a snapshot that the table lacks."""
    name = update["ref-name"]
    if not name:
        raise InvalidInput("set-snapshot-ref: ref-name must not be empty")
    ref = Ref.parse(update, name)
    if name == MAIN_BRANCH and not ref.is_branch:
        raise InvalidInput("Cannot make main a tag: it is the table's main branch")
    known = draft.refs.get(name)
    if known is not None and known["snapshot-id"] == ref.snapshot_id and Ref.parse(known, name) == ref:
        return
    snapshot = draft.snapshots_by_id.get(ref.snapshot_id)
    if snapshot is None:
        raise DoesNotFit(f"Cannot set {name} to unknown snapshot: {ref.snapshot_id}")
    if name == MAIN_BRANCH:
        _make_current(draft, Snapshot(snapshot))
    kept = {key: value for key, value in update.items() if key not in ("action", "ref-name") and value is not None}
    draft.put_ref(name, {**kept, "type": ref.type})


def remove_snapshot_ref(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`remove-snapshot-ref`: without main the table has no current snapshot. Ignores an unknown name."""
    _remove_ref(draft, update["ref-name"])


def remove_snapshots(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`remove-snapshots`: also removes their statistics and the refs that name them. Ignores unknown ids."""
    for snapshot_id in draft.remove_snapshots(dict.fromkeys(update["snapshot-ids"])):
        for key in ("statistics", "partition-statistics"):
            draft.entries(key).remove(snapshot_id)
        for name in draft.refs_to(snapshot_id):
            _remove_ref(draft, name)


def update_snapshot_log(draft: MetadataDraft) -> None:
    """Correct the snapshot log at the end of a run, as Java does.

    Snapshots that this run added, made current and replaced again leave no entry: no reader ever saw them as current.
    Entries before that of a removed snapshot go too, since time travel across the gap would find a wrong snapshot.
    """
    current = draft.current_snapshot_id
    intermediate = {item for item in draft.made_current if item in draft.added_snapshots and item != current}
    if not intermediate and not draft.removed_snapshots:
        return
    kept: list[Any] = []
    for entry in draft.rows("snapshot-log"):
        if entry["snapshot-id"] not in draft.snapshots_by_id:
            if draft.removed_snapshots:
                kept.clear()
        elif entry["snapshot-id"] not in intermediate:
            kept.append(entry)
    if current is not None and kept and kept[-1]["snapshot-id"] != current:
        raise InvalidInput("Cannot set invalid snapshot log: latest entry is not the current snapshot")
    draft.raw["snapshot-log"] = Rows(kept)
    draft.changed = True


def _check_ready(draft: MetadataDraft) -> None:
    for key, what in ENTRY_NAMES.items():
        if not draft.has_entries(key):
            raise InvalidInput(f"Attempting to add a snapshot before a {what} is added")


def _check_complete(draft: MetadataDraft, snapshot: Snapshot) -> None:
    id_ = snapshot.snapshot_id
    what = f"snapshot {id_}"
    if snapshot.key_id is not None:
        raise UnsupportedFormat(f"{what} is encrypted")
    if id_ == -1 or snapshot.parent_snapshot_id == id_:
        raise InvalidInput(f"{what}: -1 is no snapshot id, and no snapshot is its own parent")
    if snapshot.operation not in (None, *OPERATIONS):
        raise InvalidInput(f"{what}: operation must be one of {', '.join(OPERATIONS)}, but is {snapshot.operation!r}")
    if draft.format_version == 1:
        if snapshot.sequence_number != 0:
            raise InvalidInput(f"Sequence number must be 0 in v1: {snapshot.sequence_number}")
        if snapshot.manifest_list is None and "manifests" not in snapshot.raw:
            raise InvalidInput(f"{what}: required field is missing: manifest-list")
        return
    read.require_str(snapshot.raw, "manifest-list", what)
    read.require_long(snapshot.raw, "sequence-number", what)
    read.require_str(read.require_str_map(snapshot.raw, "summary", what), "operation", f"{what}: summary")


def _take_sequence_number(draft: MetadataDraft, snapshot: Snapshot) -> None:
    number, last = snapshot.sequence_number, draft.raw["last-sequence-number"]
    # As in Java, a snapshot without a parent may have any number: it starts a history of its own (create or replace).
    if number <= last and snapshot.parent_snapshot_id is not None:
        raise CommitFailed(f"Cannot add snapshot with sequence number {number} older than last sequence number {last}")
    draft.put("last-sequence-number", max(last, number))


def _take_row_ids(draft: MetadataDraft, snapshot: Snapshot) -> None:
    first, rows, next_row_id = snapshot.first_row_id, snapshot.added_rows, draft.raw["next-row-id"]
    if first is None:
        raise InvalidInput("Cannot add a snapshot: first-row-id is null")
    if rows is None or rows < 0:
        raise InvalidInput(f"Cannot add a snapshot: added-rows must not be null or negative: {rows}")
    if first < next_row_id:
        raise CommitFailed(f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first} < {next_row_id}")
    # Java adds the rows to next-row-id instead, which assigns ids twice if first-row-id is ahead of it.
    draft.put("next-row-id", first + rows)


def _make_current(draft: MetadataDraft, snapshot: Snapshot) -> None:
    # As in Java: a new snapshot became current when it was made, an old one becomes current now. The log stays in order
    # even if the writers' clocks differ; else time travel would find a snapshot before its predecessor.
    id_, last = snapshot.snapshot_id, draft.rows("snapshot-log").last
    timestamp_ms = snapshot.timestamp_ms if id_ in draft.added_snapshots else draft.updated_ms
    timestamp_ms = max(timestamp_ms, 0 if last is None else last["timestamp-ms"])
    draft.append("snapshot-log", {"timestamp-ms": timestamp_ms, "snapshot-id": id_})
    draft.updated_ms = max(draft.updated_ms, timestamp_ms)
    draft.set_current_snapshot(id_)
    draft.made_current.append(id_)


def _remove_ref(draft: MetadataDraft, name: str) -> None:
    if draft.remove_ref(name) and name == MAIN_BRANCH:
        draft.set_current_snapshot(None)
