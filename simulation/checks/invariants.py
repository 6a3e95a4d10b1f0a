"""What must hold after every step, whatever went wrong before.

Each invariant is a named predicate. It returns None when it holds, else one line that says what it found. A step is
whatever changes what a predicate sees: a move of the pointer, the deletion of a file, an answer to a client, the end.

    pointer-is-whole          what the pointer names is there, with all that it names in turn
    acknowledged-is-there     an acknowledged change is in the table, once
    nothing-twice             no change is in the table twice, acknowledged or not; what is beside all branches, since
                              their history was replaced, does not count
    resent-is-known           a change that is sent again and is in the table is not refused for what it is
    duplicate-is-there        a file that is refused because the table has it is in the table
    sound-is-sound            nobody hears that a sound change is malformed, or would break the table
    refused-is-absent         a change that was answered as failed is not in the table, then or later
    each-adds-its-own         a snapshot has its parent's rows and its own, none more, none less; a rewrite has the same
    numbers-given-once        sequence numbers rise, and a snapshot's list says the snapshot's own
    row-ids-given-once        no two snapshots and no two manifests have the same row ids, and the table's next one is
                              behind them all
    one-chain                 every branch is one line of snapshots to its root, and our swaps follow what they replace
    assumption-held           a change lands only where what it assumed holds, and on the parent that its client saw
                              unless it may be rebased
    nothing-needed-deleted    no file goes that the current metadata names
    list-left-in-peace        a client's list that another replaced stays for its time, and any other is the client's;
                              so do the manifests that it merged, and no others that it left
    answered                  at rest every client of a living process has its answer
    lock-given-back           at rest no living process has a lock entry
    all-committed             where nothing goes wrong, nothing fails
    first-come-first-served   a change that came before another one lands before it, unless the other has a turn
    served-in-time            the longest wait is one turn and one rest, and little more
    held-back-in-bounds       no turn lasts longer than it may, and all together not more than their share of time
    held-back-for-somebody    the queue waits for somebody who lost, and not once more after it is there
    rested-in-bounds          a table rests for foreign writers alone, and within the same two bounds
    rested-for-who-lost       a table rests after a foreign writer had its lock in vain, while there is time for rests
    nothing-left-behind       in fine weather every file is the table's, or its client's, or a refused swap carried it
    nobody-is-robbed          no lock is taken from a process that lives and has not slept, however long the metastore
                              stood still (by the schedule)
    comes-to-rest             no deadlock, and an end within bounds (by the scheduler)

Where tables are moved as well:

    pointer-names-are-new     no swap goes to a file that was a pointer before: nobody's expected value comes back
    same-table                a swap keeps the table's UUID, unless it registers another table over it
    move-told-truly           a move answered as failed was not made, then or later; an acknowledged one was

An acknowledged change is in the table under whatever name it has, until the table is dropped, replaced, or registered
over, or its snapshot expires. What a dropped table names stays, unless it was dropped to be purged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulation.checks import fairness, numbering
from simulation.checks.view import Step, View, name_of
from simulation.world.history import Answer, CommitCall, MoveKind


def pointer_is_whole(view: View) -> str | None:
    missing = [each for each in view.now.missing if each not in view.forgiven]
    if missing:
        return f"{name_of(view.now.location)} names {', '.join(map(name_of, missing))}, which is not there"
    return None


def acknowledged_is_there(view: View) -> str | None:
    for wish, attempts in view.wishes.items():
        acknowledged = any(each.told is Answer.COMMITTED and each.kind in view.promised for each in attempts)
        if not acknowledged or any(each.excused for each in attempts):
            continue
        if not any(table.has_well(each) for table in view.tables for each in attempts):
            return f"{wish} was acknowledged, and is not in {name_of(view.now.location)}"
    return None


def nothing_twice(view: View) -> str | None:
    for wish, attempts in view.wishes.items():
        present = [each for each in attempts if view.now.shows(each)]
        if len(present) > 1:
            return f"{wish} is in {name_of(view.now.location)} {len(present)} times"
    for branch in view.now.branches.values():
        for row, count in branch.rows.items():
            if count > 1:
                return f"{name_of(row)} is in {name_of(view.now.location)} {count} times"
    return None


def refused_is_absent(view: View) -> str | None:
    for attempt in view.history.attempts:
        if attempt.told is Answer.FAILED and attempt.landed:
            return f"{attempt.wish} was answered as failed, and was in the table"
    return None


def resent_is_known(view: View) -> str | None:
    denied = [attempt.wish for attempt in view.history.attempts if attempt.denied and _is_there(view, attempt)]
    return f"{', '.join(denied)} is in the table, was sent again, and was refused" if denied else None


def duplicate_is_there(view: View) -> str | None:
    for attempt in view.history.attempts:
        row = attempt.data_file or ""
        if not attempt.said_there or attempt.excused or attempt.told is Answer.NOTHING:
            continue
        if not any(branch.rows[row] for table in view.tables for branch in table.branches.values()):
            return (
                f"{attempt.wish} was refused because {name_of(row)} is in {name_of(view.now.location)}, and it is not"
            )
    return None


def sound_is_sound(view: View) -> str | None:
    blamed = [attempt.wish for attempt in view.history.attempts if attempt.blamed]
    return f"{', '.join(blamed)} is sound, and was refused as one that is not" if blamed else None


def _is_there(view: View, attempt: CommitCall) -> bool:
    """Whether it, or another run of the same job, is in a table."""
    return any(table.has(each) for table in view.tables for each in view.wishes[attempt.wish])


def one_chain(view: View) -> str | None:
    metadata = view.now.metadata
    if metadata is None:
        return None
    for name, ref in metadata.refs.items():
        chain = list(metadata.ancestors(ref.snapshot_id))
        if not chain or not (chain[-1].parent_id is None or view.expires):
            return f"{name} does not reach the root of its history"
        numbers = [snapshot.sequence_number for snapshot in chain]
        if metadata.format_version > 1 and numbers != sorted(set(numbers), reverse=True):
            return f"{name} has sequence numbers {numbers}, newest first"
    on_branch = {snapshot.snapshot_id for branch in view.now.branches.values() for snapshot in branch.chain}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in on_branch and not view.branches:
            return f"snapshot {snapshot.snapshot_id} is beside every branch's history"
    moved = view.moved
    if (
        moved is not None
        and moved.process in view.ours
        and moved.replaced is not None
        and not (moved.overslept or moved.was_unseen)
    ):
        log = metadata.metadata_log
        follows = log[-1]["metadata-file"] if log else None
        if follows != moved.replaced:
            return (
                f"{name_of(view.now.location)} follows {name_of(follows or '')}, and replaced {name_of(moved.replaced)}"
            )
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
        before = view.before.main.chain[0].snapshot_id if view.before.main.chain else None
        passed = [snapshot.snapshot_id for snapshot in view.now.main.chain]
        newer = passed[: passed.index(before)] if before in passed else passed
        if assumed != before and assumed not in newer:
            return f"{attempt.wish} assumed {assumed} on main, and landed on {before}"
    for attempt in view.landed:
        parent = view.now.metadata.raw_snapshots_by_id[attempt.snapshot_id or 0].get("parent-snapshot-id")
        if attempt.stays and parent not in attempt.seen:
            return f"{attempt.wish} was made on {attempt.seen[-1]}, may not be rebased, and landed on {parent}"
    return None


def nothing_needed_deleted(view: View) -> str | None:
    if view.deleted is None or view.deleted in view.forgiven:
        return None
    for table in view.tables:
        if view.deleted in table.needed:
            return f"{name_of(view.deleted)} is deleted, and {name_of(table.location)} needs it"
    if view.deleted in view.kept:
        return f"{name_of(view.deleted)} is deleted, and belongs to a table that was dropped and not purged"
    return None


def pointer_names_are_new(view: View) -> str | None:
    moved = view.moved
    swapped = moved is not None and moved.replaced is not None and moved.was is None
    if moved is not None and swapped and moved.location in view.pointed:
        return f"{name_of(moved.location or '')} is the pointer once more"
    return None


def same_table(view: View) -> str | None:
    moved, before, now = view.moved, view.before, view.now
    if moved is None or before is None or before.metadata is None or now.metadata is None:
        return None
    over = {move.mover for move in view.history.moves if move.kind is MoveKind.OVERWRITE}
    if before.metadata.uuid != now.metadata.uuid and moved.process not in over:
        return f"{name_of(now.location)} is another table than {name_of(before.location)}"
    return None


def move_told_truly(view: View) -> str | None:
    for move in view.history.moves:
        if move.told is Answer.FAILED and move.made:
            return f"the {move.kind} of {move.name} by {move.mover} was answered as failed, and was made"
        if move.told is Answer.COMMITTED and not move.as_good:
            return f"the {move.kind} of {move.name} by {move.mover} was acknowledged, and was not made"
    return None


def answered(view: View) -> str | None:
    if not view.at_rest:
        return None
    waiting = [each.wish for each in view.history.attempts if each.told is Answer.NOTHING and each.writer in view.alive]
    return f"no answer to {', '.join(waiting)}" if waiting else None


def lock_given_back(view: View) -> str | None:
    left = [process for process in view.locks if process in view.alive] if view.at_rest else []
    return f"{', '.join(left)} lives, has ended its work and still has the lock" if left else None


def all_committed(view: View) -> str | None:
    if not (view.at_rest and view.all_commit):
        return None
    failed = [each.wish for each in view.history.attempts if each.told is not Answer.COMMITTED and _counts(each)]
    return f"nothing went wrong, and yet {', '.join(failed)} did not commit" if failed else None


def _counts(attempt: CommitCall) -> bool:
    """A snapshot; what cannot be applied, and what the table no longer has anything of, fails in any weather."""
    return attempt.snapshot_id is not None and attempt.mark is None and not attempt.moot


@dataclass(frozen=True, slots=True)
class Invariant:
    """name: for messages. predicate: what it found, or None. after: the steps that can break it."""

    name: str
    predicate: Callable[[View], str | None]
    after: tuple[Step, ...]


INVARIANTS: tuple[Invariant, ...] = (
    Invariant("pointer-is-whole", pointer_is_whole, (Step.MOVE,)),
    Invariant("nothing-needed-deleted", nothing_needed_deleted, (Step.DELETION,)),
    Invariant("list-left-in-peace", fairness.list_left_in_peace, (Step.DELETION,)),
    Invariant("refused-is-absent", refused_is_absent, (Step.MOVE, Step.ANSWER)),
    Invariant("resent-is-known", resent_is_known, (Step.MOVE, Step.ANSWER)),
    Invariant("duplicate-is-there", duplicate_is_there, (Step.ANSWER,)),
    Invariant("sound-is-sound", sound_is_sound, (Step.ANSWER,)),
    Invariant("acknowledged-is-there", acknowledged_is_there, (Step.MOVE, Step.ANSWER)),
    Invariant("nothing-twice", nothing_twice, (Step.MOVE,)),
    Invariant("each-adds-its-own", numbering.each_adds_its_own, (Step.MOVE,)),
    Invariant("numbers-given-once", numbering.numbers_given_once, (Step.MOVE,)),
    Invariant("row-ids-given-once", numbering.row_ids_given_once, (Step.MOVE,)),
    Invariant("first-come-first-served", fairness.first_come_first_served, (Step.MOVE,)),
    Invariant("rested-for-who-lost", fairness.rested_for_who_lost, (Step.MOVE,)),
    Invariant("one-chain", one_chain, (Step.MOVE,)),
    Invariant("assumption-held", assumption_held, (Step.MOVE,)),
    Invariant("pointer-names-are-new", pointer_names_are_new, (Step.MOVE,)),
    Invariant("same-table", same_table, (Step.MOVE,)),
    Invariant("move-told-truly", move_told_truly, (Step.MOVE, Step.ANSWER)),
    Invariant("answered", answered, (Step.REST,)),
    Invariant("lock-given-back", lock_given_back, (Step.REST,)),
    Invariant("all-committed", all_committed, (Step.REST,)),
    Invariant("served-in-time", fairness.served_in_time, (Step.REST,)),
    Invariant("held-back-in-bounds", fairness.held_back_in_bounds, (Step.REST,)),
    Invariant("held-back-for-somebody", fairness.held_back_for_somebody, (Step.REST,)),
    Invariant("rested-in-bounds", fairness.rested_in_bounds, (Step.REST,)),
    Invariant("nothing-left-behind", fairness.nothing_left_behind, (Step.REST,)),
)


_AFTER = {step: tuple(each for each in INVARIANTS if step in each.after) for step in Step}


def broken(view: View) -> str | None:
    """The first invariant that does not hold, with what it found."""
    for invariant in _AFTER[view.step]:
        found = invariant.predicate(view)
        if found is not None:
            return f"{invariant.name}: {found}"
    return None
