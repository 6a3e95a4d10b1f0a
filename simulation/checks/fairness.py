"""Invariants of the order and time in which commits are served, of waits, and of files that are left behind."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from simulation.checks.view import View, name_of
from simulation.world.history import Answer, Pause, WriteAttempt

#: Seconds by which the checker's times may be off: a task notes an event only when it runs.
_SLACK = 0.25
#: Seconds within which a server without faults has committed all that waits.
_WORK = 1.0


def served_in_order(view: View) -> str | None:
    metadata = view.now.metadata
    if not view.in_order or metadata is None or not view.landed:
        return None
    place = {id_: index for index, id_ in enumerate(metadata.raw_snapshots_by_id)}
    for late in view.landed:
        for early in view.history.attempts:
            if (late, len(late.parents_seen)) not in early.ahead or early.lost_at or not early.landed:
                continue
            if place.get(early.snapshot_id or 0, len(place)) < place[late.snapshot_id or 0]:
                return f"{late.operation} was queued before {early.operation}, and landed after it"
    return None


def served_in_time(view: View) -> str | None:
    settings = view.settings
    if settings is None or not view.in_order:
        return None
    waits = (
        settings.retry_priority_max_wait_ms + settings.retry_priority_max_hold_ms + settings.foreign_writer_max_wait_ms
    )
    longest = waits / 1000 + _WORK
    for attempt in view.history.attempts:
        if attempt.waited > longest:
            return f"{attempt.operation} waited {attempt.waited:.1f} s for its answer"
    return None


def client_files_kept(view: View) -> str | None:
    if view.deleted is None or view.settings is None:
        return None
    for attempt in view.history.attempts:
        if view.deleted in attempt.left_files:
            return f"{name_of(view.deleted)} of a refused attempt of {attempt.operation} is deleted"
        if view.deleted not in attempt.lists:
            continue
        if attempt.left_since is None:
            return f"{name_of(view.deleted)} is deleted, and {attempt.operation} may still send it"
        age = view.at - attempt.left_since
        if age + _SLACK < view.settings.replaced_list_age_ms / 1000:
            deleted = name_of(view.deleted)
            return f"{deleted} is deleted {age:.1f} s after {attempt.operation} was committed with another list"
    return None


def priority_waits_in_bounds(view: View) -> str | None:
    settings = view.settings
    if settings is None or not view.steady:
        return None
    return _out_of_bounds(
        "the queue waited for a retry",
        view.history.priority_waits,
        settings.retry_priority_max_wait_ms,
        settings.retry_priority_max_share_percent,
    )


def locks_kept_in_bounds(view: View) -> str | None:
    settings = view.settings
    if settings is None or not view.steady:
        return None
    return _out_of_bounds(
        "the process kept the lock",
        view.history.locks_kept,
        settings.retry_priority_max_wait_ms,
        settings.retry_priority_max_share_percent,
    )


def backoffs_in_bounds(view: View) -> str | None:
    settings = view.settings
    if settings is None or not view.steady:
        return None
    for each in view.history.backoffs:
        if not view.foreign:
            return f"{each.process} backed off at {each.begun:.3f}, and there is no foreign writer"
    return _out_of_bounds(
        "the process backed off",
        view.history.backoffs,
        settings.foreign_writer_max_wait_ms,
        settings.foreign_writer_max_share_percent,
    )


def backoff_after_wasted_lock(view: View) -> str | None:
    """A process that waited behind a wasted lock, and whose own group was the next to change the table, backs off
    before it changes the table again."""
    settings, changes = view.settings, view.history.row_changes
    if settings is None or not view.steady or not view.history.wasted_locks:
        return None
    process = changes[-1][0]
    last = next((index for index in range(len(changes) - 2, 0, -1) if changes[index][0] == process), None)
    if last is None or changes[last - 1][0] != process:
        return None
    since, landed = changes[last - 1][1], changes[last][1]
    if not any(since < each.at < landed and process in each.behind for each in view.history.wasted_locks):
        return None
    for pause in (each for each in view.history.backoffs if each.process == process):
        share_is_used = pause.ended + (pause.ended - pause.begun) * (
            100 / settings.foreign_writer_max_share_percent - 1
        )
        if pause.begun >= landed or landed <= share_is_used + _SLACK:
            return None
    return f"{process} did not back off after {landed:.3f}, though a foreign writer wasted the lock"


def _out_of_bounds(what: str, times: Iterable[Pause], longest_ms: int, percent: int) -> str | None:
    by_process: dict[str, list[Pause]] = {}
    for each in times:
        by_process.setdefault(each.process, []).append(each)
        if each.ended - each.begun > longest_ms / 1000 + _SLACK:
            return f"{what} for {each.ended - each.begun:.1f} s"
    for mine in by_process.values():
        for before, after in pairwise(mine):
            length = before.ended - before.begun
            rest = length * (100 / percent - 1)
            if after.begun - before.ended < rest * 0.9 - _SLACK:
                return f"{what} for {length:.1f} s, and again {after.begun - before.ended:.1f} s after that"
    return None


def priority_waits_for_a_retry(view: View) -> str | None:
    for each in view.history.priority_waits if view.steady else ():
        # The clients of a server that crashed send to the one that is started in its place.
        mine = [attempt for attempt in view.history.attempts if attempt.writer == each.process.rstrip("+")]
        if not any(_is_away(attempt, each) for attempt in mine):
            return f"{each.process} held its queue at {each.begun:.3f}, and no commit that lost a conflict was expected"
    return None


def _is_away(attempt: WriteAttempt, held: Pause) -> bool:
    """Whether it had lost a conflict when the queue began to wait, and did not retry before the wait ended."""
    for lost in attempt.lost_at:
        back = next((sent for sent in attempt.sent_at if sent > lost), None)
        if lost <= held.begun + _SLACK and (back is None or back >= held.ended - _SLACK):
            return True
    return False


def no_garbage_left(view: View) -> str | None:
    if not view.tidy:
        return None
    known = {location for table in view.tables for location in table.needed}
    known.update(location for attempt in view.history.attempts for location in attempt.lists | attempt.left_files)
    # What a refused swap carried stays for a sweep for orphans: one metadata file, and what it names.
    garbage = sorted(view.on_disk - known - view.refused)
    if garbage:
        return f"nothing needs {_names(garbage)}"
    return _overdue(view)


def _overdue(view: View) -> str | None:
    """A replaced list that a client left, and whose time was over when its server committed once more."""
    if view.settings is None or not view.settings.replaced_list_age_ms:
        return None
    needed = {location for table in view.tables for location in table.needed}
    for attempt in view.history.attempts:
        due = None if attempt.left_at is None else attempt.left_at + view.settings.replaced_list_age_ms / 1000 + _SLACK
        left = attempt.lists & view.on_disk - needed
        for later in view.history.attempts if left and due is not None else ():
            committed = later.answer is Answer.COMMITTED and later.writer == attempt.writer
            if committed and later.sent_at and later.sent_at[-1] > (due or 0.0):
                return f"{_names(left)} still exists, though its time was over when {later.operation} was committed"
    return None


def _names(locations: Iterable[str]) -> str:
    return ", ".join(sorted(map(name_of, locations)))
