"""What must hold after every step, whatever went wrong before.

Each invariant is a named predicate. It returns None when it holds, else one line that says what it found. A step is
whatever changes what a predicate sees: a move of the pointer, the deletion of a file, an answer to a client, the end.

    pointer-is-whole          what the pointer names is there, with all that it names in turn
    acknowledged-is-there     an acknowledged change is in the table, once
    nothing-twice             no change is in the table twice, acknowledged or not
    resent-is-known           a change that is sent again and is in the table is not refused for what it is
    refused-is-absent         a change that was answered as failed is not in the table, then or later
    row-ids-given-once        no two manifests have the same row ids, and the table's next one is behind them all
    one-chain                 every branch is one line of snapshots to its root, and our swaps follow what they replace
    assumption-held           a change lands only where what it assumed holds
    nothing-needed-deleted    no file goes that the current metadata names
    answered                  at rest every client of a living process has its answer
    lock-given-back           at rest no living process has a lock entry
    all-committed             where nothing goes wrong, nothing fails
    comes-to-rest             no deadlock, and an end within bounds (by the scheduler)

Where tables are moved as well:

    pointer-names-are-new     no swap goes to a file that was a pointer before: nobody's expected value comes back
    same-table                a swap keeps the table's UUID, unless it registers another table over it
    move-told-truly           a move answered as failed was not made, then or later; an acknowledged one was

An acknowledged change is in the table under whatever name it has, until the table is dropped, replaced, or registered
over. What a dropped table names stays, unless it was dropped to be purged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from iceberg_hms.testing.simulation.faults import short
from iceberg_hms.testing.simulation.history import Attempt, History, Kind, MoveKind, Told
from iceberg_hms.testing.simulation.metastore import Moved
from iceberg_hms.testing.simulation.table_state import TableState


class Step(Enum):
    """What happened since the invariants were looked at last."""

    MOVE = auto()
    DELETION = auto()
    ANSWER = auto()
    REST = auto()


@dataclass(frozen=True)
class View:
    """What a predicate sees.

    before, now: the table before and after the last move. moved: the last move, if this step is one.
    tables: all that there are. pointed: what was a pointer before this step.
    kept: files of tables that were dropped and not purged. forgiven: files that were purged on purpose, under one of
    two names. branches: main may begin anew, and leave its history beside it.
    deleted: the file that is about to go, if this step is a deletion.
    promised: the kinds of writers whose acknowledged changes must be kept. at_rest: nothing runs any more.
    alive: processes that did not crash. locks: the processes that have lock entries. all_commit: none may fail.
    """

    now: TableState
    tables: tuple[TableState, ...]
    history: History
    before: TableState | None = None
    moved: Moved | None = None
    deleted: str | None = None
    promised: frozenset[Kind] = frozenset((Kind.OURS,))
    kept: frozenset[str] = frozenset()
    pointed: frozenset[str] | set[str] = frozenset()
    forgiven: frozenset[str] | set[str] = frozenset()
    branches: bool = False
    at_rest: bool = False
    alive: frozenset[str] = frozenset()
    locks: tuple[str, ...] = ()
    all_commit: bool = False
    ours: frozenset[str] = frozenset()

    @property
    def step(self) -> Step:
        """What this view was taken after."""
        if self.at_rest:
            return Step.REST
        if self.deleted is not None:
            return Step.DELETION
        return Step.ANSWER if self.moved is None else Step.MOVE

    @cached_property
    def wishes(self) -> dict[str, list[Attempt]]:
        """The attempts, by what they are for."""
        return self.history.by_wish()


def pointer_is_whole(view: View) -> str | None:
    missing = [each for each in view.now.missing if each not in view.forgiven]
    if missing:
        return f"{_file(view.now.location)} names {', '.join(map(_file, missing))}, which is not there"
    return None


def acknowledged_is_there(view: View) -> str | None:
    for wish, attempts in view.wishes.items():
        acknowledged = any(each.told is Told.COMMITTED and each.kind in view.promised for each in attempts)
        if not acknowledged or any(each.excused for each in attempts):
            continue
        if not any(table.has_well(each) for table in view.tables for each in attempts):
            return f"{wish} was acknowledged, and is not in {_file(view.now.location)}"
    return None


def nothing_twice(view: View) -> str | None:
    for wish, attempts in view.wishes.items():
        present = [each for each in attempts if view.now.has(each)]
        if len(present) > 1:
            return f"{wish} is in {_file(view.now.location)} {len(present)} times"
    for path, count in view.now.live.items():
        if count > 1:
            return f"{_file(path)} is in {_file(view.now.location)} {count} times"
    return None


def row_ids_given_once(view: View) -> str | None:
    metadata, end = view.now.metadata, 0
    for first, last in view.now.rows:
        if first < end:
            return f"row {first} is in {_file(view.now.location)} twice"
        end = last
    if metadata is not None and end > metadata.next_row_id:
        return f"row {end - 1} is in {_file(view.now.location)}, whose next is {metadata.next_row_id}"
    return None


def refused_is_absent(view: View) -> str | None:
    for attempt in view.history.attempts:
        # Beside a writer that swaps blindly without a lock what landed may be gone without a trace: then it did not.
        was_there = attempt.landed if view.promised else view.now.has(attempt)
        if attempt.told is Told.FAILED and was_there:
            return f"{attempt.wish} was answered as failed, and was in the table"
    return None


def resent_is_known(view: View) -> str | None:
    denied = [attempt.wish for attempt in view.history.attempts if attempt.denied and _is_there(view, attempt)]
    return f"{', '.join(denied)} is in the table, was sent again, and was refused" if denied else None


def _is_there(view: View, attempt: Attempt) -> bool:
    return any(table.has(attempt) for table in view.tables)


def one_chain(view: View) -> str | None:
    metadata = view.now.metadata
    if metadata is None:
        return None
    for name, ref in metadata.refs.items():
        chain = list(metadata.ancestors(ref.snapshot_id))
        if not chain or chain[-1].parent_id is not None:
            return f"{name} does not reach the root of its history"
        numbers = [snapshot.sequence_number for snapshot in chain]
        if numbers != sorted(set(numbers), reverse=True):
            return f"{name} has sequence numbers {numbers}, newest first"
    on_main = {snapshot.snapshot_id for snapshot in view.now.chain}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in on_main and not view.branches:
            return f"snapshot {snapshot.snapshot_id} is beside main's history"
    moved = view.moved
    if moved is not None and moved.process in view.ours and moved.replaced is not None:
        log = metadata.metadata_log
        follows = log[-1]["metadata-file"] if log else None
        if follows != moved.replaced:
            return f"{_file(view.now.location)} follows {_file(follows or '')}, and replaced {_file(moved.replaced)}"
    return None


def assumption_held(view: View) -> str | None:
    if view.moved is None or view.before is None or view.now.metadata is None:
        return None
    if view.before.metadata is not None and view.before.metadata.uuid != view.now.metadata.uuid:
        # Another table was registered over this one, with all that had landed in it.
        return None
    for attempt in view.history.attempts:
        cares, assumed = attempt.assumes_main
        if not cares or view.before.has(attempt) or not view.now.has(attempt):
            continue
        before = view.before.chain[0].snapshot_id if view.before.chain else None
        passed = [snapshot.snapshot_id for snapshot in view.now.chain]
        newer = passed[: passed.index(before)] if before in passed else passed
        if assumed != before and assumed not in newer:
            return f"{attempt.wish} assumed {assumed} on main, and landed on {before}"
    return None


def nothing_needed_deleted(view: View) -> str | None:
    if view.deleted is None or view.deleted in view.forgiven:
        return None
    for table in view.tables:
        if view.deleted in table.needed:
            return f"{_file(view.deleted)} is deleted, and {_file(table.location)} needs it"
    if view.deleted in view.kept:
        return f"{_file(view.deleted)} is deleted, and belongs to a table that was dropped and not purged"
    return None


def pointer_names_are_new(view: View) -> str | None:
    moved = view.moved
    swapped = moved is not None and moved.replaced is not None and moved.was is None
    if moved is not None and swapped and moved.location in view.pointed:
        return f"{_file(moved.location or '')} is the pointer once more"
    return None


def same_table(view: View) -> str | None:
    moved, before, now = view.moved, view.before, view.now
    if moved is None or before is None or before.metadata is None or now.metadata is None:
        return None
    over = {move.mover for move in view.history.moves if move.kind is MoveKind.OVERWRITE}
    if before.metadata.uuid != now.metadata.uuid and moved.process not in over:
        return f"{_file(now.location)} is another table than {_file(before.location)}"
    return None


def move_told_truly(view: View) -> str | None:
    for move in view.history.moves:
        if move.told is Told.FAILED and move.made:
            return f"the {move.kind} of {move.name} by {move.mover} was answered as failed, and was made"
        if move.told is Told.COMMITTED and not move.as_good:
            return f"the {move.kind} of {move.name} by {move.mover} was acknowledged, and was not made"
    return None


def answered(view: View) -> str | None:
    if not view.at_rest:
        return None
    waiting = [each.wish for each in view.history.attempts if each.told is Told.NOTHING and each.writer in view.alive]
    return f"no answer to {', '.join(waiting)}" if waiting else None


def lock_given_back(view: View) -> str | None:
    left = [process for process in view.locks if process in view.alive] if view.at_rest else []
    return f"{', '.join(left)} lives, has ended its work and still has the lock" if left else None


def all_committed(view: View) -> str | None:
    if not (view.at_rest and view.all_commit):
        return None
    failed = [each.wish for each in view.history.attempts if each.told is not Told.COMMITTED and each.snapshot_id]
    return f"nothing went wrong, and yet {', '.join(failed)} did not commit" if failed else None


@dataclass(frozen=True, slots=True)
class Invariant:
    """name: for messages. predicate: what it found, or None. after: the steps that can break it."""

    name: str
    predicate: Callable[[View], str | None]
    after: tuple[Step, ...]


INVARIANTS: tuple[Invariant, ...] = (
    Invariant("pointer-is-whole", pointer_is_whole, (Step.MOVE,)),
    Invariant("nothing-needed-deleted", nothing_needed_deleted, (Step.DELETION,)),
    Invariant("refused-is-absent", refused_is_absent, (Step.MOVE, Step.ANSWER)),
    Invariant("resent-is-known", resent_is_known, (Step.MOVE, Step.ANSWER)),
    Invariant("acknowledged-is-there", acknowledged_is_there, (Step.MOVE, Step.ANSWER)),
    Invariant("nothing-twice", nothing_twice, (Step.MOVE,)),
    Invariant("row-ids-given-once", row_ids_given_once, (Step.MOVE,)),
    Invariant("one-chain", one_chain, (Step.MOVE,)),
    Invariant("assumption-held", assumption_held, (Step.MOVE,)),
    Invariant("pointer-names-are-new", pointer_names_are_new, (Step.MOVE,)),
    Invariant("same-table", same_table, (Step.MOVE,)),
    Invariant("move-told-truly", move_told_truly, (Step.MOVE, Step.ANSWER)),
    Invariant("answered", answered, (Step.REST,)),
    Invariant("lock-given-back", lock_given_back, (Step.REST,)),
    Invariant("all-committed", all_committed, (Step.REST,)),
)


_AFTER = {step: tuple(each for each in INVARIANTS if step in each.after) for step in Step}


def broken(view: View) -> str | None:
    """The first invariant that does not hold, with what it found."""
    for invariant in _AFTER[view.step]:
        found = invariant.predicate(view)
        if found is not None:
            return f"{invariant.name}: {found}"
    return None


def _file(location: str) -> str:
    return short(location) or "nothing"
