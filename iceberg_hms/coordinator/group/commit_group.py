"""Commits a group of changes to one table, from the loaded pointer to the answered callers.

    2  load      the pointer and the base metadata
    3  stage     every change on the running metadata; invariants
    4  write     manifest lists and one metadata file, side by side, under names never used before
    5  lock      once for the group, asked for as soon as there is something to swap, while the rest is staged
                 and written
    6  reload    moved? stage again on the new base, with the lock held: progress is certain
    7  swap      under the lock, with the base's metadata_location as the expected value
    8  outcome   from the answer, or where there is none or it is a refusal, from the table itself
    9  answer the callers, release (for a lone caller the other way round), delete the files of what was never sent,
       publish

A change that is refused may have been sent before, by a swap that is still under way. Where neither the table nor this
process's own record excludes that (`sent_swaps`), a swap that changes nothing but the metadata file's name does: after
step 8 the group fences the table.

Steps 3 and 4 need no lock, and what the metastore does to grant one takes about as long; so the lock is held for three
metastore calls and what is left of the two. Where other writers keep moving the table that work is thrown away, so such
a group locks first and builds once.

Two facts carry the safety. A caller is answered "failed" only if no swap that carried its change was sent, or the
table's whole chain lacks it (`group_outcomes`, `already_committed`). A file is deleted only if no swap was sent that
would have made the table name it (`group_files`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.group_files import GroupFiles
from iceberg_hms.coordinator.group.build_attempt import begin_staging, build_attempt, load_remembered, load_table
from iceberg_hms.coordinator.group.group_lock import GroupLock
from iceberg_hms.coordinator.group.group_outcomes import GroupFigures, GroupOutcomes
from iceberg_hms.coordinator.group.group_progress import (
    GroupContext,
    GroupProgress,
    GroupResult,
    TableHints,
    abandon,
    drop_withdrawn,
    fail_unsent,
    send_next,
)
from iceberg_hms.coordinator.group.moves import Moves
from iceberg_hms.coordinator.group.refused_swaps import RefusedSwaps
from iceberg_hms.coordinator.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.outcome.already_committed import LookupSources
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.outcome import Committed, Unknown, reason_to_refuse
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.ports import CommitPorts, HeldLock, LockUse, Refused, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.sending.swap_outcome import SwapResolution, TableSwap, send_swap
from iceberg_hms.coordinator.sending.unanswered_swaps import publish_overdue
from iceberg_hms.coordinator.staging.attempt import CommitAttempt, fence, write
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitConflict, CommitStateUnknown, IcebergHmsError, LockLost, LockNotAcquired
from iceberg_hms.work import Usage, measured

logger = logging.getLogger(__name__)


def commit_group(
    ports: CommitPorts,
    cache: MetadataCache,
    settings: Settings,
    name: TableName,
    commits: Sequence[PendingCommit],
    sources: LookupSources,
    hints: TableHints,
    holds_back: Callable[[PendingCommit], bool] = lambda _: False,
    kept_lock: HeldLock | None = None,
) -> GroupResult:
    """Commit a group of changes to a table that is there; every commit has its outcome when this returns.

    sources: tell of changes that were committed before. hints: what the last group of this table returned.
    holds_back: called with each commit once its outcome is decided; True: the caller of this function answers it later.
    kept_lock: the table's, if it was taken before; the group gives it back.
    """
    progress = GroupProgress(list(commits))
    group = GroupContext(
        ports,
        cache,
        settings,
        name,
        sources,
        GroupOutcomes(name, tuple(commits), sources, holds_back),
        RefusedSwaps(settings.refusal_max_swaps, lambda: ports.pointer.accepts_writes(name), ports.runtime.now),
        GroupFiles(commits),
        GroupFigures(started=ports.runtime.now()),
        Moves(ports, name),
        GroupLock(ports.runtime, name, commits, progress.swaps),
    )
    with measured() as usage:
        try:
            _load_to_swap(group, progress, hints, usage, kept_lock)
        except BaseException as error:  # noqa: BLE001 - whatever it is, every commit gets its answer
            abandon(group, progress)
            fail_unsent(group, progress, reason_to_refuse(name, error))
        finally:
            if kept_lock is not None:
                # For an error before the steps that need it: twice is harmless.
                kept_lock.release()
    _answer_and_tidy(group, usage)
    return GroupResult(
        TableHints(progress.contested, progress.last_location, ports.runtime.now()),
        group.outcomes.answered_at,
        progress.behind_foreign_writer,
        progress.replaced_lists,
        progress.landed,
    )


def _load_to_swap(
    group: GroupContext, progress: GroupProgress, hints: TableHints, usage: Usage, kept_lock: HeldLock | None
) -> None:
    """Steps 2 to 8. Steps 2 to 4 come first unless the hints say that they would be wasted; steps 5 to 8 are done again
    with another lock if the first one is lost before a swap was sent. A group whose changes are all refused needs no
    lock, unless it has to fence the table."""
    lock = kept_lock
    if lock is not None:
        group.lock.took(lock)
    if lock is not None or hints.lock_first:
        group.moves.look_up(progress.waiting, None)
    else:
        lock = _build_and_lock(group, progress, hints)
    # One more, for a server that is found not to compare: the first lock in a database may be `require_cas`.
    for _ in range(group.settings.commit_retry_num_retries + 2):
        if lock is None:
            drop_withdrawn(group, progress)
            is_decided = not progress.waiting and not send_next(group, progress, group.refusals.next_part())
            if is_decided and not group.outcomes.to_exclude():
                abandon(group, progress)
                return
            lock = _acquire(group, progress)
        try:
            _reload_and_swap(group, progress, lock, hints)
            _fence(group, progress, lock)
        except LockLost as error:
            # Raised before a swap was sent; what was built is built still.
            progress.lost_a_lock = True
            logger.warning("the lock of %s is taken again: %s", group.name, error)
        else:
            if len(group.outcomes.known) > 1:
                # The lock is given back while their clients send the next commits.
                group.outcomes.answer(group.ports.runtime, usage)
            return
        finally:
            lock.release()
        lock = None
    raise LockNotAcquired(f"the lock of {group.name} was lost again and again before a swap could be sent")


# Steps 2 to 4: load, stage, write


def _build_and_lock(group: GroupContext, progress: GroupProgress, hints: TableHints) -> HeldLock | None:
    """Steps 2 to 5. None if no lock was asked for: each commit has its outcome, or has to wait for the lock."""
    remembered = load_remembered(group, hints)
    base, fresh = remembered or load_table(group), remembered is None
    group.moves.look_up(progress.waiting, base.metadata.location)
    staging = begin_staging(group, progress, base)

    def build() -> None:
        try:
            build_attempt(group, progress, base, staging, locked=False, fresh=fresh)
        except Exception as error:
            # The lock may be long in coming, and cannot help those that wait.
            for commit, outcome in fail_unsent(group, progress, error):
                commit.settle(outcome)
            raise

    if not staging.begin():
        # A refusal needs no lock.
        build()
        return None
    held: list[HeldLock] = []
    try:
        group.ports.runtime.run_while_waiting(build, lambda: held.append(_acquire(group, progress)))
    except BaseException:
        for lock in held:
            lock.release()
        raise
    return held[0]


# Step 5: lock


def _acquire(group: GroupContext, progress: GroupProgress) -> HeldLock:
    runtime = group.ports.runtime
    started = runtime.now()
    callers = progress.waiting or group.outcomes.to_exclude()
    deadline = max((commit.deadline for commit in callers), default=started)
    try:
        lock = group.ports.lock.acquire(
            group.name,
            wait_seconds=max(0.0, deadline - started),
            request=runtime.uuid(),
            use=LockUse.CAS_FULL_LEASE if progress.lost_a_lock else LockUse.CAS,
        )
    except IcebergHmsError:
        raise
    except Exception as error:
        # No thread for its heartbeats, for one.
        why = f"The lock of {group.name} could not be taken: {error.__class__.__name__}: {error}"
        raise LockNotAcquired(why) from error
    group.figures.lock_wait_ms = (runtime.now() - started) * 1000
    group.lock.took(lock)
    return lock


# Step 6: reload, and build again if the table moved


def _reload_and_swap(group: GroupContext, progress: GroupProgress, lock: HeldLock, hints: TableHints) -> None:
    """Steps 6 to 8, as often as the table moves. Raises LockLost before a swap is sent."""
    # Each round ends in an outcome, in a withdrawn commit, in a proved conflict, or in a part of the group that is sent
    # next, once more if it is a single change; so the bound is their sum.
    tries = group.settings.commit_retry_num_retries + 1 + len(progress.waiting)
    for round_ in range(tries + 2 * group.settings.refusal_max_swaps + 2):
        replays = round_ - group.refusals.rounds
        if replays >= tries or (replays > 0 and not lock.exclusive and not _back_off(group, progress, replays)):
            break
        base = load_table(group, None if round_ else lock.row)
        progress.under_lock = base
        renew_if_half_expired(lock)
        if not round_:
            built_on = progress.attempt.base.pointer.metadata_location if progress.attempt else hints.last_location
            progress.contested = base.pointer.metadata_location != built_on
            progress.behind_foreign_writer = lock.behind_foreign_writer
        attempt = progress.attempt
        if attempt is None or attempt.base.pointer.metadata_location != base.pointer.metadata_location:
            group.figures.replays += attempt is not None
            abandon(group, progress)
            build_attempt(group, progress, base, begin_staging(group, progress, base))
            attempt = progress.attempt
        if attempt is not None:
            lock.ensure_held()
        swap = None if attempt is None else _begin_swap(group, progress, attempt, lock)
        if attempt is None or swap is None:
            if not progress.waiting and not send_next(group, progress, group.refusals.next_part()):
                return
        elif _swap(group, progress, attempt.on(base.pointer), swap, lock):
            return
    conflict = CommitConflict(
        f"{group.name} moved under every one of {group.figures.replays} attempts"
        + (", although it was locked" if lock.exclusive else ""),
        next_step="another writer swaps without the lock: see `iceberg-hms doctor`; then try again",
    )
    for commit in progress.waiting:
        group.outcomes.refuse(commit, conflict, base)
    send_next(group, progress, [])


def _back_off(group: GroupContext, progress: GroupProgress, replay: int) -> bool:
    """Where nothing is locked, let the others pass before the table is tried again. False: the time is over.

    Under a lock there is no such wait: it would only keep the lock from those that wait for it."""
    settings, runtime = group.settings, group.ports.runtime
    wait = min(settings.commit_retry_min_wait_ms * 2 ** (replay - 1), settings.commit_retry_max_wait_ms) / 1000
    wait *= 1 - runtime.jitter() / 2
    started = min(commit.started for commit in progress.waiting)
    if runtime.now() + wait - started > settings.commit_retry_total_timeout_ms / 1000:
        return False
    runtime.sleep(wait)
    return True


def _begin_swap(
    group: GroupContext, progress: GroupProgress, attempt: CommitAttempt, lock: HeldLock
) -> SentSwap | None:
    """Record the swap that is about to be sent. None: a caller left meanwhile, so build again without its commit."""
    swap = attempt.swap(fences=lock.require_cas)
    if group.sources.sent.send(swap, attempt.commits):
        progress.swaps.append(swap)
        group.files.sending(swap)
        return swap
    drop_withdrawn(group, progress)
    abandon(group, progress)
    return None


def _fence(group: GroupContext, progress: GroupProgress, lock: HeldLock) -> None:
    """Exclude that a swap from before brings a change into the table that this group refuses. Where that cannot be
    done, the outcome of the refused change is unknown. An earlier process held a lock for its swaps, too: one that
    allowed swaps without an expected value is over, and under all others each swap carried one."""
    base = progress.under_lock
    if base is None or not lock.require_cas or not group.outcomes.to_exclude():
        return
    progress.attempt = attempt = fence(base, group.ports.runtime.uuid())
    try:
        progress.attempt = attempt = write(group.ports, attempt, group.ports.manifests(), group.cache)
        lock.ensure_held()
        swap = _begin_swap(group, progress, attempt, lock)
        if swap is None:
            return
        group.cache.put(attempt.location, attempt.metadata)
        _send(group, progress, attempt, swap, lock, group.outcomes.answer_early)
        if swap.status is CommitStatus.SUCCESS:
            _note_landed(group, progress, attempt)
            row = replace(base.pointer, metadata_location=attempt.location)
            group.outcomes.excluded(TableVersion(row, attempt.metadata))
        elif isinstance(swap.answer, Refused) and swap.answer.conflict:
            # Another writer moved the table, to a location that no earlier swap expects, either.
            moved = load_table(group)
            group.sources.sent.note_fence(moved.metadata.uuid)
            group.outcomes.excluded(moved)
    except IcebergHmsError as error:
        logger.warning("%s could not be fenced against earlier swaps: %s", group.name, error)
        abandon(group, progress)


# Steps 7 and 8: swap, outcome


def _swap(group: GroupContext, progress: GroupProgress, attempt: CommitAttempt, sent: SentSwap, lock: HeldLock) -> bool:
    """Steps 7 and 8. False: proved absent, build again. Otherwise every commit of the attempt has its outcome."""
    callers_left = False

    def overdue() -> None:
        """Answer all callers, since the swap goes on without them; the lock is kept meanwhile. Never raises."""
        nonlocal callers_left
        if not callers_left:
            callers_left = True
            error = publish_overdue(group.ports, group.name, f"whether {attempt.location} became {group.name}")
            for commit in attempt.commits:
                commit.settle(Unknown(error))
            group.outcomes.answer_early()

    _send(group, progress, attempt, sent, lock, overdue)
    answer = sent.answer
    if sent.status is CommitStatus.SUCCESS:
        _note_landed(group, progress, attempt)
        if not callers_left:
            # Who heard "unknown" may send the same list again.
            progress.replaced_lists += attempt.replaced_lists
        return not send_next(group, progress, group.refusals.next_part())
    if sent.status is CommitStatus.UNKNOWN:
        unknown = CommitStateUnknown(f"it is not known whether {attempt.location} became {group.name}: {answer}")
        group.outcomes.unknown(attempt.commits, unknown)
        send_next(group, progress, [])
        return True
    if callers_left:
        # They were answered "unknown", and may look at the table by now. Those set aside still wait.
        return not send_next(group, progress, group.refusals.next_part())
    if isinstance(answer, Refused) and not answer.conflict:
        return not send_next(group, progress, group.refusals.refused(attempt.commits, answer.error))
    group.figures.replays += 1
    return False


def _send(
    group: GroupContext,
    progress: GroupProgress,
    attempt: CommitAttempt,
    sent: SentSwap,
    lock: HeldLock,
    overdue: Callable[[], None],
) -> None:
    """Send a swap, find out what became of it, and record that. Raises as `send_swap`, if nothing was sent."""
    ports, started = group.ports, group.ports.runtime.now()
    swap = TableSwap(ports, group.cache, attempt)
    progress.attempt = None
    try:
        answer = send_swap(swap, lock, overdue)
    except IcebergHmsError:
        group.sources.sent.settle(sent, CommitStatus.FAILURE)
        progress.attempt = attempt
        raise
    resolution = SwapResolution(ports, group.settings, swap, lock, overdue=overdue)
    found = resolution.resolve(answer)
    group.sources.sent.settle(sent, found, answer, lock_stays_seconds=resolution.lock_stays_seconds)
    group.figures.swap_ms += (ports.runtime.now() - started) * 1000


def _note_landed(group: GroupContext, progress: GroupProgress, attempt: CommitAttempt) -> None:
    progress.last_location = attempt.location
    progress.landed.append(attempt)
    group.files.landed(attempt)
    now = group.ports.runtime.now()
    for commit in attempt.commits:
        group.outcomes.add(commit, Committed(group.figures.report_landed(commit, attempt, now)))


# Step 9: answer the callers, tidy up, publish


def _answer_and_tidy(group: GroupContext, usage: Usage) -> None:
    group.outcomes.answer(group.ports.runtime, usage)
    group.outcomes.answer_unproved()
    group.files.delete_garbage(group.ports.files, group.outcomes.known, group.ports.manifests)
    group.outcomes.publish(group.ports.events, usage)
