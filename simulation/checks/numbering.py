"""Invariants of snapshots that got another parent, or other numbers, than their clients gave them."""

from __future__ import annotations

from itertools import pairwise

from iceberg_hms.format.metadata.snapshot import Snapshot
from simulation.checks.contents import Contents
from simulation.checks.view import View, name_of
from simulation.world.history import WriteAttempt


def snapshot_adds_its_own(view: View) -> str | None:
    metadata = view.now.metadata
    for attempt in view.landed:
        snapshot = None if metadata is None else metadata.snapshot_by_id(attempt.snapshot_id or 0)
        if snapshot is not None and (found := _wrong(view, attempt, snapshot)) is not None:
            return found
    return None


def _wrong(view: View, attempt: WriteAttempt, snapshot: Snapshot) -> str | None:
    """The rows that a snapshot lacks, or has beyond its parent's and its own."""
    held = view.now.held
    if view.expires and snapshot.parent_id is not None and snapshot.parent_id not in held:
        # A new branch began at a snapshot that has expired since: its rows are unknown.
        return None
    parent = held.get(snapshot.parent_id or 0, Contents())
    has = held[snapshot.snapshot_id]
    own = {attempt.row: 1} if attempt.row is not None else {}
    deleted = parent.rows.keys() if attempt.deletes_all else attempt.deleted_rows
    # Somebody may delete the rows of a file, and somebody else the file.
    absent = attempt.deleted_rows - parent.rows.keys() - parent.masked
    if absent:
        return f"{attempt.operation} deletes {_names(absent)}, which its parent does not have"
    wanted = {row: count for row, count in parent.rows.items() if row not in deleted} | own
    if has.rows != wanted:
        lacks, more = wanted.keys() - has.rows.keys(), has.rows.keys() - wanted.keys()
        return f"{attempt.operation} lacks {_names(lacks)}, and has {_names(more)} beyond its parent's and its own"
    total = snapshot.summary.get("total-data-files")
    if total is not None and int(total) != has.files.total():
        return f"{attempt.operation} has {has.files.total()} files, and says {total}"
    return None


def sequence_numbers_unique(view: View) -> str | None:
    metadata, before = view.now.metadata, view.before
    if metadata is None or before is None or before.metadata is None or metadata.format_version == 1:
        return None
    # A blind swap of a foreign writer removes what came since it read the table, numbers included.
    follows = view.row_change is not None and view.row_change.process in view.ours
    last = before.metadata.last_sequence_number if follows else 0
    added = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in view.new_snapshots]
    for snapshot in sorted(added, key=lambda each: each.sequence_number):
        id_, number = snapshot.snapshot_id, snapshot.sequence_number
        listed = view.now.held[id_].numbers
        if not listed <= {number} or number > metadata.last_sequence_number:
            return f"snapshot {id_} has number {number} of {metadata.last_sequence_number}, its list {sorted(listed)}"
        # A snapshot without a parent starts a history of its own, whose numbers need not rise above others'.
        if snapshot.parent_id is not None and number <= last:
            return f"snapshot {id_} has sequence number {number}, and the last one was {last}"
        last = number if snapshot.parent_id is not None else last
    return None


def row_ids_unique(view: View) -> str | None:
    metadata = view.now.metadata
    if metadata is None or metadata.format_version < 3:
        return None
    snapshots = [
        (each.first_row_id or 0, (each.first_row_id or 0) + (each.added_rows or 0)) for each in metadata.snapshots
    ]
    manifests = {row_ids for each in view.now.held.values() for row_ids in each.row_ids}
    for ranges in (sorted(snapshots), sorted((first, end) for first, end, _ in manifests)):
        for (_, end), (first, _) in pairwise(ranges):
            if first < end:
                return f"row {first} is in {name_of(view.now.location)} twice"
        if ranges and ranges[-1][1] > metadata.next_row_id:
            return f"row {ranges[-1][1] - 1} is in {name_of(view.now.location)}, whose next is {metadata.next_row_id}"
    return None


def _names(rows: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(map(name_of, rows))) or "nothing"
