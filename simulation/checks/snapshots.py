"""Invariants of snapshots: what the checker of a table's history finds, and what only a schedule knows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.testing import history
from simulation.checks.contents import NOTHING
from simulation.checks.view import View, name_of
from simulation.world.faults import short
from simulation.world.history import WriteAttempt


def history_is_sound(view: View) -> str | None:
    metadata, held = view.now.metadata, view.now.held.values()
    if metadata is None:
        return None
    findings = chain(
        (finding for each in held for finding in each.findings),
        history.chain_findings(metadata),
        history.row_id_findings(metadata, [each.listed for each in held if each.listed is not None]),
        _of_the_swap(view),
    )
    # Times fall where the clocks of processes are wrong by hours.
    found = next((each for each in findings if each.rule is not history.HistoryRule.CLOCKS), None)
    return None if found is None else short(str(found))


def _of_the_swap(view: View) -> Iterator[history.HistoryFinding]:
    """What is wrong between the two states, where one of our processes knew the one that it replaced."""
    change, before, now = view.row_change, view.before, view.now
    if change is None or before is None or before.metadata is None or now.metadata is None:
        return iter(())
    knew = change.replaced is not None and not (change.slept_past_lease or change.replaced_unseen)
    if change.process not in view.ours or not knew:
        return iter(())
    return history.swap_findings(before.location, before.metadata, now.location, now.metadata)


def snapshot_adds_its_own(view: View) -> str | None:
    metadata = view.now.metadata
    for attempt in view.landed:
        snapshot = None if metadata is None else metadata.snapshot_by_id(attempt.snapshot_id or 0)
        if snapshot is not None and (found := _wrong_rows(view, attempt, snapshot)) is not None:
            return found
    return None


def _wrong_rows(view: View, attempt: WriteAttempt, snapshot: Snapshot) -> str | None:
    """The rows that a snapshot lacks, or has beyond its parent's and its own."""
    held = view.now.held
    if view.expires and snapshot.parent_snapshot_id is not None and snapshot.parent_snapshot_id not in held:
        # A new branch began at a snapshot that has expired since: its rows are unknown.
        return None
    parent = held.get(snapshot.parent_snapshot_id or 0, NOTHING)
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
    return None


def _names(rows: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(map(name_of, rows))) or "nothing"
