"""Invariants of who is served when, of who waits for whom, and of what is left behind."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from iceberg_hms.coordinator.protocol.replaced_lists import READ_MAX
from simulation.checks.view import View, name_of
from simulation.world.history import Answer, Pause, WriteAttempt

#: Seconds by which a judge's times may be off: who is told of something notes it when it is its turn to run.
_SLACK = 0.25
#: Seconds within which a server that nothing goes wrong with has done all that waits.
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
                return f"{late.operation} stood before {early.operation} in the queue, and came into the table after it"
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
        if attempt.left_manifests.get(view.deleted) is False:
            return f"{name_of(view.deleted)} is deleted, and {attempt.operation} may have been handed it"
        if view.deleted not in attempt.lists and view.deleted not in attempt.left_manifests:
            continue
        if attempt.left_at is None:
            return f"{name_of(view.deleted)} is deleted, and {attempt.operation} has it in its hands"
        age = view.at - attempt.left_at
        if age + _SLACK < view.settings.replaced_list_age_ms / 1000:
            deleted = name_of(view.deleted)
            return f"{deleted} is deleted {age:.1f} s after {attempt.operation} was committed with another list"
    return None


def priority_waits_in_bounds(view: View) -> str | None:
    settings = view.settings
    if settings is None or not view.steady:
        return None
    return _out_of_bounds(
        "the queue was held back",
        view.history.priority_waits,
        settings.retry_priority_max_wait_ms,
        settings.retry_priority_max_share_percent,
    )


def backoffs_in_bounds(view: View) -> str | None:
    settings = view.settings
    if settings is None or not view.steady:
        return None
    for each in view.history.backoffs:
        if not view.foreign:
            return f"{each.process} let the table rest at {each.begun:.3f}, and there is nobody to rest for"
    return _out_of_bounds(
        "the table rested",
        view.history.backoffs,
        settings.foreign_writer_max_wait_ms,
        settings.foreign_writer_max_share_percent,
    )


def backoff_after_wasted_lock(view: View) -> str | None:
    """A process that waited behind a lock which was had in vain, and whose own group was the next to move the table,
    has let the table rest before it moves it again."""
    settings, catalog_calls = view.settings, view.history.row_changes
    if settings is None or not view.steady or not view.history.wasted_locks:
        return None
    process = catalog_calls[-1][0]
    last = next((index for index in range(len(catalog_calls) - 2, 0, -1) if catalog_calls[index][0] == process), None)
    if last is None or catalog_calls[last - 1][0] != process:
        return None
    since, landed = catalog_calls[last - 1][1], catalog_calls[last][1]
    if not any(since < each.at < landed and process in each.behind for each in view.history.wasted_locks):
        return None
    for rest in (each for each in view.history.backoffs if each.process == process):
        share_is_used = rest.ended + (rest.ended - rest.begun) * (100 / settings.foreign_writer_max_share_percent - 1)
        if rest.begun >= landed or landed <= share_is_used + _SLACK:
            return None
    return f"{process} did not let the table rest after {landed:.3f}, and a foreign writer had had the lock in vain"


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
                return f"{what} for {length:.1f} s, and once more {after.begun - before.ended:.1f} s after that"
    return None


def priority_waits_for_a_retry(view: View) -> str | None:
    for each in view.history.priority_waits if view.steady else ():
        mine = [attempt for attempt in view.history.attempts if attempt.writer == each.process]
        if not any(_is_away(attempt, each) for attempt in mine):
            return f"{each.process} held its queue back at {each.begun:.3f}, and nobody was away whose turn it was"
    return None


def _is_away(attempt: WriteAttempt, held: Pause) -> bool:
    """Whether it had lost its place when the queue began to wait, and did not come back before it went on."""
    for lost in attempt.lost_at:
        back = next((sent for sent in attempt.sent_at if sent > lost), None)
        if lost <= held.begun + _SLACK and (back is None or back >= held.ended - _SLACK):
            return True
    return False


def no_garbage_left(view: View) -> str | None:
    if not view.tidy:
        return None
    known = {location for table in view.tables for location in table.needed}
    known.update(
        location for attempt in view.history.attempts for location in (*attempt.lists, *attempt.left_manifests)
    )
    # A sweep for orphans finds what was sent, when it is old: one metadata file for each refusal, and what it names.
    left_manifests = sorted(view.on_disk - known - view.refused)
    if left_manifests:
        return f"{_names(left_manifests)} is left behind"
    return _left_for_ever(view)


def _left_for_ever(view: View) -> str | None:
    """What a client left, and whose time was over when its server committed once more.

    A server looks after a few refused attempts at a time, in the order in which they were left: all else may wait once
    it has looked after as many."""
    if view.settings is None or not view.settings.replaced_list_age_ms:
        return None
    needed = {location for table in view.tables for location in table.needed}
    if sum(max(0, len(each.lost_at) - len(each.lists & view.on_disk)) for each in view.history.attempts) >= READ_MAX:
        return None
    for attempt in view.history.attempts:
        due = None if attempt.left_at is None else attempt.left_at + view.settings.replaced_list_age_ms / 1000 + _SLACK
        merged = {location for location, is_merged in attempt.left_manifests.items() if is_merged}
        left = (attempt.lists | merged) & view.on_disk - needed
        for later in view.history.attempts if left and due is not None else ():
            committed = later.answer is Answer.COMMITTED and later.writer == attempt.writer
            if committed and later.sent_at and later.sent_at[-1] > (due or 0.0):
                return f"{_names(left)} is still there, and its time was over when {later.operation} was committed"
    return None


def _names(locations: Iterable[str]) -> str:
    return ", ".join(sorted(map(name_of, locations)))
