"""What must hold after every step, whatever went wrong before.

Each invariant is a named predicate. It returns None when it holds, else one line that says what it found. A step is an
event that can break an invariant: a table row changes, a file is deleted, a client gets an answer, the schedule ends.

    pointer-is-whole            every file that the current metadata names, directly or not, exists
    acknowledged-is-there       an acknowledged change is in the table, once
    nothing-twice               no change is in the table twice, acknowledged or not; snapshots beside all branches,
                                which a replaced history leaves, do not count
    resent-is-recognized        a change that is sent again while it is in the table is not refused as invalid
    duplicate-is-there          a file that is refused as a duplicate is in the table
    valid-not-called-invalid    no valid change is answered as malformed, or as one that would break the table
    refused-is-absent           a change that was answered as failed is not in the table, then or later
    snapshot-adds-its-own       a snapshot has exactly its parent's rows and its own; a rewrite has its parent's
    history-is-sound            the checker of a table's history (iceberg_hms.testing.history) finds nothing: sequence
                                numbers rise, lists, manifests and summaries agree, no row id is given twice, no data
                                file has two deletion vectors, our swaps follow the file that they replace
    one-chain                   every branch is one line of snapshots to its root
    lands-whole                 all snapshots of a transaction come into the table by one swap
    requirement-held            a change lands only where its requirements hold, and on a parent that its client saw
                                unless it may be rebased
    nothing-needed-deleted      no file is deleted that the current metadata names
    client-files-kept           a client's replaced list is kept for its time, and its other lists for good; so are the
                                manifests that it merged, and no others that it left
    every-client-answered       at the end every client of a living process has its answer
    lock-released               at the end no living process has a lock entry
    all-committed               where nothing goes wrong, nothing fails
    served-in-order             changes land in the order in which they came, unless one has retry priority
    served-in-time              no client waits much longer than one retry-priority wait and one backoff
    priority-waits-in-bounds    no wait for a retry exceeds its limit, and all together stay within their time budget
    priority-waits-for-a-retry  the queue waits only while a commit that lost a conflict is expected back
    locks-kept-in-bounds        a process keeps the lock for a refused commit within the same two bounds
    backoffs-in-bounds          a process backs off only for foreign writers, and within the same two bounds
    backoff-after-wasted-lock   a process backs off after a foreign writer held the lock and did not swap, while its
                                time budget allows it
    no-garbage-left             without faults every file is named by the table, kept by its client, or was carried by
                                a refused swap
    live-locks-kept             no lock is removed from a living process that did not sleep, however long the metastore
                                stalled (checked by the schedule)
    terminates                  no deadlock, and an end within bounds (checked by the scheduler)
    recovers                    after the last fault a new writer can commit (checked by the auditor)

Where tables are renamed, dropped, created or registered meanwhile:

    locations-never-reused      no swap goes to a file that was current before, so no expected value becomes valid
                                again, unless a caller registers the file of a table that was dropped
    same-table                  a swap keeps the table's UUID, unless it registers another table over it
    catalog-answer-is-true      an operation answered as failed was not made, then or later; an acknowledged one was

An acknowledged change is in the table under whatever name the table has, until the table is dropped, replaced, or
registered over, or the change's snapshot expires. The files of a dropped table stay, unless it was purged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulation.checks import fairness, snapshots
from simulation.checks.view import StepKind, View, name_of
from simulation.world.history import Answer, CatalogCallKind, WriteAttempt


def pointer_is_whole(view: View) -> str | None:
    missing = [each for each in view.now.missing if each not in view.excused_files]
    if missing:
        return f"{name_of(view.now.location)} names {', '.join(map(name_of, missing))}, which is not there"
    return None


def acknowledged_is_there(view: View) -> str | None:
    for operation, attempts in view.attempts_by_operation.items():
        acknowledged = any(each.answer is Answer.COMMITTED and each.kind in view.protected for each in attempts)
        if not acknowledged or any(each.excused for each in attempts):
            continue
        if not any(table.has_well(each) for table in view.tables for each in attempts):
            return f"{operation} was acknowledged, and is not in {name_of(view.now.location)}"
    return None


def nothing_twice(view: View) -> str | None:
    for operation, attempts in view.attempts_by_operation.items():
        present = [each for each in attempts if view.now.shows(each)]
        if len(present) > 1:
            return f"{operation} is in {name_of(view.now.location)} {len(present)} times"
    for branch in view.now.branches.values():
        for row, count in branch.rows.items():
            if count > 1:
                return f"{name_of(row)} is in {name_of(view.now.location)} {count} times"
    return None


def refused_is_absent(view: View) -> str | None:
    for attempt in view.history.attempts:
        if attempt.answer is Answer.FAILED and attempt.landed:
            return f"{attempt.operation} was answered as failed, and was in the table"
    return None


def resent_is_recognized(view: View) -> str | None:
    refused_while_present = [
        attempt.operation
        for attempt in view.history.attempts
        if attempt.refused_while_present and _is_there(view, attempt)
    ]
    return (
        f"{', '.join(refused_while_present)} is in the table, was sent again, and was refused as invalid"
        if refused_while_present
        else None
    )


def duplicate_is_there(view: View) -> str | None:
    for attempt in view.history.attempts:
        row = attempt.data_file or ""
        if not attempt.refused_as_duplicate or attempt.excused or attempt.answer is Answer.NOTHING:
            continue
        if not any(branch.rows[row] for table in view.tables for branch in table.branches.values()):
            where = name_of(view.now.location)
            return f"{attempt.operation} was refused because {name_of(row)} is in {where}, which lacks it"
    return None


def valid_not_called_invalid(view: View) -> str | None:
    called_invalid = [attempt.operation for attempt in view.history.attempts if attempt.called_invalid]
    return f"{', '.join(called_invalid)} is valid, and was refused as invalid" if called_invalid else None


def _is_there(view: View, attempt: WriteAttempt) -> bool:
    """Whether it, or another run of the same job, is in a table."""
    return any(table.has(each) for table in view.tables for each in view.attempts_by_operation[attempt.operation])


def one_chain(view: View) -> str | None:
    metadata = view.now.metadata
    if metadata is None:
        return None
    for name, ref in metadata.refs.items():
        chain = list(metadata.ancestors(ref.snapshot_id))
        if not chain or not (chain[-1].parent_snapshot_id is None or view.expires):
            return f"{name} does not reach the root of its history"
    on_branch = {snapshot.snapshot_id for branch in view.now.branches.values() for snapshot in branch.chain}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in on_branch and not view.branches:
            return f"snapshot {snapshot.snapshot_id} is on no branch"
    return None


def requirement_held(view: View) -> str | None:
    if view.row_change is None or view.before is None or view.now.metadata is None:
        return None
    if view.before.metadata is not None and view.before.metadata.uuid != view.now.metadata.uuid:
        # Another table was registered over this one, with its own history.
        return None
    for attempt in view.history.attempts:
        cares, assumed = attempt.requires_main
        if not cares or view.before.has(attempt) or not view.now.has(attempt):
            continue
        before = view.before.main.chain[0].snapshot_id if view.before.main.chain else None
        passed = [snapshot.snapshot_id for snapshot in view.now.main.chain]
        newer = passed[: passed.index(before)] if before in passed else passed
        if assumed != before and assumed not in newer:
            return f"{attempt.operation} requires {assumed} on main, and landed on {before}"
    for attempt in view.landed:
        parent = view.now.metadata.raw_snapshots_by_id[attempt.snapshot_id or 0].get("parent-snapshot-id")
        if attempt.never_rebased and parent not in attempt.parents_seen:
            seen = attempt.parents_seen[-1]
            return f"{attempt.operation} was made on {seen}, may not be rebased, and landed on {parent}"
    return None


def lands_whole(view: View) -> str | None:
    for attempt in view.history.attempts:
        other = attempt.committed_with
        if other is not None and attempt.landed is not other.landed:
            return f"of {attempt.operation} and {other.operation}, which are one transaction, one is in the table"
    return None


def nothing_needed_deleted(view: View) -> str | None:
    if view.deleted is None or view.deleted in view.excused_files:
        return None
    for table in view.tables:
        if view.deleted in table.needed:
            return f"{name_of(view.deleted)} is deleted, and {name_of(table.location)} needs it"
    if view.deleted in view.kept_files:
        return f"{name_of(view.deleted)} is deleted, and belongs to a table that was dropped and not purged"
    return None


def locations_never_reused(view: View) -> str | None:
    change = view.row_change
    swapped = change is not None and change.replaced is not None and change.renamed_from is None
    is_again = change is not None and change.replaced in view.registered_again
    if change is not None and swapped and change.location in view.past_locations and not is_again:
        return f"{name_of(change.location or '')} is current for a second time"
    return None


def same_table(view: View) -> str | None:
    change, before, now = view.row_change, view.before, view.now
    if change is None or before is None or before.metadata is None or now.metadata is None:
        return None
    over = {call.caller for call in view.history.catalog_calls if call.kind is CatalogCallKind.OVERWRITE}
    if before.metadata.uuid != now.metadata.uuid and change.process not in over:
        return f"{name_of(now.location)} is another table than {name_of(before.location)}"
    return None


def catalog_answer_is_true(view: View) -> str | None:
    for call in view.history.catalog_calls:
        if call.answer is Answer.FAILED and call.made:
            return f"the {call.kind} of {call.name} by {call.caller} was answered as failed, and was made"
        if call.answer is Answer.COMMITTED and not call.effect_seen:
            return f"the {call.kind} of {call.name} by {call.caller} was acknowledged, and was not made"
    return None


def every_client_answered(view: View) -> str | None:
    if not view.at_rest:
        return None
    waiting = [
        each.operation for each in view.history.attempts if each.answer is Answer.NOTHING and each.writer in view.alive
    ]
    return f"no answer to {', '.join(waiting)}" if waiting else None


def lock_released(view: View) -> str | None:
    left = [process for process in view.locks if process in view.alive] if view.at_rest else []
    return f"{', '.join(left)} has ended its work, and still holds the lock" if left else None


def all_committed(view: View) -> str | None:
    if not (view.at_rest and view.all_commit):
        return None
    failed = [each.operation for each in view.history.attempts if each.answer is not Answer.COMMITTED and _counts(each)]
    return f"without any fault, {', '.join(failed)} did not commit" if failed else None


def _counts(attempt: WriteAttempt) -> bool:
    """Whether it must commit without faults: an invalid or an obsolete attempt fails in any case."""
    return attempt.snapshot_id is not None and attempt.mark is None and not attempt.obsolete


@dataclass(frozen=True, slots=True)
class StepInvariant:
    """name: for messages. predicate: returns what it found, or None. after: the steps that can break it."""

    name: str
    predicate: Callable[[View], str | None]
    after: tuple[StepKind, ...]


INVARIANTS: tuple[StepInvariant, ...] = (
    StepInvariant("pointer-is-whole", pointer_is_whole, (StepKind.MOVE,)),
    StepInvariant("nothing-needed-deleted", nothing_needed_deleted, (StepKind.DELETION,)),
    StepInvariant("client-files-kept", fairness.client_files_kept, (StepKind.DELETION,)),
    StepInvariant("refused-is-absent", refused_is_absent, (StepKind.MOVE, StepKind.ANSWER)),
    StepInvariant("resent-is-recognized", resent_is_recognized, (StepKind.MOVE, StepKind.ANSWER)),
    StepInvariant("duplicate-is-there", duplicate_is_there, (StepKind.ANSWER,)),
    StepInvariant("valid-not-called-invalid", valid_not_called_invalid, (StepKind.ANSWER,)),
    StepInvariant("acknowledged-is-there", acknowledged_is_there, (StepKind.MOVE, StepKind.ANSWER)),
    StepInvariant("nothing-twice", nothing_twice, (StepKind.MOVE,)),
    StepInvariant("snapshot-adds-its-own", snapshots.snapshot_adds_its_own, (StepKind.MOVE,)),
    StepInvariant("served-in-order", fairness.served_in_order, (StepKind.MOVE,)),
    StepInvariant("backoff-after-wasted-lock", fairness.backoff_after_wasted_lock, (StepKind.MOVE,)),
    StepInvariant("one-chain", one_chain, (StepKind.MOVE,)),
    StepInvariant("requirement-held", requirement_held, (StepKind.MOVE,)),
    StepInvariant("lands-whole", lands_whole, (StepKind.MOVE,)),
    StepInvariant("locations-never-reused", locations_never_reused, (StepKind.MOVE,)),
    StepInvariant("same-table", same_table, (StepKind.MOVE,)),
    StepInvariant("history-is-sound", snapshots.history_is_sound, (StepKind.MOVE,)),
    StepInvariant("catalog-answer-is-true", catalog_answer_is_true, (StepKind.MOVE, StepKind.ANSWER)),
    StepInvariant("every-client-answered", every_client_answered, (StepKind.REST,)),
    StepInvariant("lock-released", lock_released, (StepKind.REST,)),
    StepInvariant("all-committed", all_committed, (StepKind.REST,)),
    StepInvariant("served-in-time", fairness.served_in_time, (StepKind.REST,)),
    StepInvariant("priority-waits-in-bounds", fairness.priority_waits_in_bounds, (StepKind.REST,)),
    StepInvariant("priority-waits-for-a-retry", fairness.priority_waits_for_a_retry, (StepKind.REST,)),
    StepInvariant("locks-kept-in-bounds", fairness.locks_kept_in_bounds, (StepKind.REST,)),
    StepInvariant("backoffs-in-bounds", fairness.backoffs_in_bounds, (StepKind.REST,)),
    StepInvariant("no-garbage-left", fairness.no_garbage_left, (StepKind.REST,)),
)


_AFTER = {step: tuple(each for each in INVARIANTS if step in each.after) for step in StepKind}


def broken(view: View) -> str | None:
    """The first invariant that does not hold, and what it found; None if all hold."""
    for invariant in _AFTER[view.step]:
        found = invariant.predicate(view)
        if found is not None:
            return f"{invariant.name}: {found}"
    return None
