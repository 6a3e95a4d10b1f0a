"""How main of one table went from the snapshot that a watcher saw last to where it is now.

The current metadata usually has both, and the way between them. Where snapshots expired meanwhile, the metadata that
the watcher read last, if its file is still there, has what the current one lost. What both together cannot tell is a
gap, never silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from iceberg_hms.format.metadata.rows import Row
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata


class ChangeKind(StrEnum):
    """What happened to a table, or to its branch main."""

    #: Main gained a snapshot, a child of where it was.
    SNAPSHOT = "snapshot"
    #: Main is at a snapshot that it gained, and the way there is not known: snapshots on it have expired.
    GAP = "gap"
    #: Main left snapshots, for an ancestor of theirs or for none: a rollback, or a replaced history.
    ROLLBACK = "rollback"
    #: The table is new in what is watched; its snapshots follow.
    CREATED = "created"
    #: The table is gone: dropped, or renamed to where nobody watches.
    DROPPED = "dropped"
    #: The table has another name, and is otherwise as it was.
    RENAMED = "renamed"
    #: Another table has the name; its snapshots follow.
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Head:
    """Where main is: at a snapshot with this sequence number (0 in v1), or at none."""

    snapshot_id: int | None = None
    sequence_number: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> Head:
        return cls() if snapshot is None else cls(snapshot.snapshot_id, snapshot.sequence_number)


@dataclass(frozen=True, slots=True)
class HeadMove:
    """One step of main. kind: SNAPSHOT, GAP or ROLLBACK. snapshot: where main is after it; None: it has no snapshot.
    left: the ids of the snapshots that it left, newest first, as far as known. expired: the ids of those on a gap's
    way, oldest first, as far as known."""

    kind: ChangeKind
    snapshot: Snapshot | None
    left: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """A snapshot and its ancestors, newest first. is_whole: it goes back to a snapshot without a parent. Otherwise the
    last id is of a snapshot of which nothing else is known."""

    ids: Sequence[int]
    is_whole: bool


def moves(head: Head, current: TableMetadata, load_seen: Callable[[], TableMetadata | None]) -> Iterator[HeadMove]:
    """The moves from `head` to where main is in `current`, oldest first; none if it is there. After each of them the
    rest follows from its snapshot, so that a watcher may stop anywhere and go on later.

    load_seen: the metadata of the table that had this head; None if its file is gone. It is called if `current` does
    not tell."""
    now = current.current_snapshot_id
    if now == head.snapshot_id:
        return
    rows: Mapping[int, Row] = current.raw_snapshots_by_id
    line = _line(now, rows, until=head.snapshot_id)
    # None is where both a new table and one whose history was replaced begin.
    if head.snapshot_id is None or (line.ids and line.ids[-1] == head.snapshot_id):
        yield from _forward(_newer(line, head.snapshot_id), current)
        return
    before = _line(head.snapshot_id, rows)
    if now is None:
        yield HeadMove(ChangeKind.ROLLBACK, None, tuple(before.ids))
        return
    meeting = _meeting(line, before)
    if meeting is None and not (line.is_whole and before.is_whole):
        seen = load_seen()
        if seen is not None:
            rows = {**seen.raw_snapshots_by_id, **current.raw_snapshots_by_id}
            line, before = _line(now, rows), _line(head.snapshot_id, rows)
            meeting = _meeting(line, before)
    if meeting is None and not (line.is_whole and before.is_whole):
        yield from _unknown(head, current)
        return
    left = tuple(_newer(before, meeting))
    steps = _forward(_newer(line, meeting), current)
    at = None if meeting is None else current.snapshot_by_id(meeting)
    if left and (at is not None or meeting is None):
        yield HeadMove(ChangeKind.ROLLBACK, at, left)
    elif left:
        # It went back to a snapshot that has expired since, so there is no state to go back to.
        first = next(steps)
        yield HeadMove(ChangeKind.GAP, first.snapshot, left, first.expired)
    yield from steps


def _forward(ids: Sequence[int], current: TableMetadata) -> Iterator[HeadMove]:
    """Moves along snapshots, given newest first. Those that are not in the table any more make a gap."""
    expired: list[int] = []
    for id_ in reversed(ids):
        snapshot = current.snapshot_by_id(id_)
        if snapshot is None:
            expired.append(id_)
            continue
        yield HeadMove(ChangeKind.GAP if expired else ChangeKind.SNAPSHOT, snapshot, expired=tuple(expired))
        expired = []


def _unknown(head: Head, current: TableMetadata) -> Iterator[HeadMove]:
    """The moves if nobody knows whether main went on from `head` or left it. A snapshot that descends from the head has
    a higher sequence number, and one with a higher number is no ancestor of it: so it is new. Of the others nobody
    knows. In v1, which has no numbers, only the newest is taken."""
    line = current.ancestors(current.current_snapshot_id)
    new = list(takewhile(lambda each: each.sequence_number > head.sequence_number, line))
    yield HeadMove(ChangeKind.GAP, new[-1] if new else current.current_snapshot)
    for snapshot in reversed(new[:-1]):
        yield HeadMove(ChangeKind.SNAPSHOT, snapshot)


def _line(snapshot_id: int | None, rows: Mapping[int, Row], *, until: int | None = None) -> _Line:
    """A snapshot and its ancestors, no further than `until`."""
    ids: dict[int, None] = {}
    # Parents in a damaged table may form a circle.
    while snapshot_id is not None and snapshot_id not in ids:
        ids[snapshot_id] = None
        row = rows.get(snapshot_id)
        if row is None or snapshot_id == until:
            return _Line(tuple(ids), is_whole=False)
        snapshot_id = row.get("parent-snapshot-id")
    return _Line(tuple(ids), is_whole=snapshot_id is None)


def _meeting(line: _Line, before: _Line) -> int | None:
    """The newest snapshot of both."""
    known = set(before.ids)
    return next((each for each in line.ids if each in known), None)


def _newer(line: _Line, than: int | None) -> Sequence[int]:
    """Those before `than`."""
    return tuple(takewhile(lambda each: each != than, line.ids))
