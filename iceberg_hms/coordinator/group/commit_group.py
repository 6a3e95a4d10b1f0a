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
metastore calls and the rest of the two. Where other writers keep moving the table that work is thrown away, so such a
group locks first and builds once.

While the metastore is away and nothing was sent, the group begins again (`outages`), as long as its callers wait.

Two facts carry the safety. A caller is answered "failed" only if no swap that carried its change was sent, or the
table's whole chain lacks it (`group_outcomes`, `already_committed`). A file is deleted only if no swap was sent that
would have made the table name it (`group_files`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.group_files import GroupFiles
from iceberg_hms.coordinator.group.group_lock import GroupLock
from iceberg_hms.coordinator.group.group_outcomes import GroupFigures, GroupOutcomes
from iceberg_hms.coordinator.group.moves import Moves
from iceberg_hms.coordinator.group.outages import Outages
from iceberg_hms.coordinator.group.refused_swaps import RefusedSwaps
from iceberg_hms.coordinator.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.outcome.already_committed import LookupSources
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.outcome import Committed, Outcome, Unknown, reason_to_refuse
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.ports import CommitPorts, HeldLock, LockUse, Pointer, Refused, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.sending.status_check import SwapStatusCheck, TableSwap, publish_overdue, send_swap
from iceberg_hms.coordinator.staging.attempt import CommitAttempt, attempt_of, fence, next_metadata, write
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.coordinator.staging.staging import Staging
from iceberg_hms.errors import (
    CommitConflict,
    CommitStateUnknown,
    IcebergHmsError,
    InvalidInput,
    LockLost,
    LockNotAcquired,
    MetastoreUnavailable,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import measured

logger = logging.getLogger(__name__)

#: A group is built on what the last one made of the table, without a look at the pointer, if that is not older.
REMEMBERED_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What the next group of the table, and its queue, need to know of a group.

    location: where its last swap put the pointer; None if none is known to have landed.
    contested: when it acquired the lock the table was not where it was expected: other writers move it, so what is
    built before the lock is wasted.
    behind_foreign_writer: as `HeldLock` says of its lock; False without one.
    answered_at: when its callers began to be answered, by `Runtime.now()`.
    """

    location: str | None = None
    contested: bool = False
    behind_foreign_writer: bool = False
    answered_at: float = 0.0


class CommitGroup:
    """A group of changes to a table that is there. Call `commit` once.

    sources: tell of changes that were committed before. last: the result of the last group of this table.
    holds_back: called with each commit once its outcome is decided; True: the caller of `commit` answers it later.
    outages: those of the process.
    landed: the attempts that landed, in order; several if the group was sent in parts.
    """

    def __init__(
        self,
        ports: CommitPorts,
        cache: MetadataCache,
        settings: Settings,
        name: TableName,
        commits: Sequence[PendingCommit],
        sources: LookupSources,
        last: GroupResult,
        holds_back: Callable[[PendingCommit], bool] = lambda _: False,
        outages: Outages | None = None,
    ) -> None:
        self.landed: list[CommitAttempt] = []
        self._ports = ports
        self._runtime = ports.runtime
        self._cache = cache
        self._settings = settings
        self._name = name
        self._sent = sources.sent
        self._last = last
        self._commits = commits
        #: The commits that the next attempt carries, in the order in which they came.
        self._waiting = list(commits)
        #: Built, and not yet sent, abandoned or landed.
        self._attempt: CommitAttempt | None = None
        #: The table as it was last read under the lock.
        self._under_lock: TableVersion | None = None
        #: All that it sent.
        self._swaps: list[SentSwap] = []
        #: A metastore that answers too slowly for a short lease must not cost the group one lock after the other.
        self._lost_a_lock = False
        self._contested = False
        self._behind_foreign_writer = False
        self._figures = GroupFigures(started=ports.runtime.now())
        self._outcomes = GroupOutcomes(name, commits, sources, holds_back)
        self._refusals = self._new_refusals()
        self._files = GroupFiles(commits)
        self._moves = Moves(ports, name)
        self._lock = GroupLock(ports.runtime, name, commits, self._swaps)
        self._hold = (outages or Outages(ports.runtime)).begin(name)

    def commit(self, kept_lock: HeldLock | None = None) -> GroupResult:
        """Commit the group; every commit has its outcome when this returns. kept_lock: the table's, if it was taken
        before; the group gives it back."""
        with measured() as self._figures.usage:
            try:
                self._load_to_swap_once_there(kept_lock)
            except BaseException as error:  # noqa: BLE001 - whatever it is, every commit gets its answer
                self._abandon()
                self._fail_unsent(reason_to_refuse(self._name, error))
            finally:
                if kept_lock is not None:
                    # For an error before the steps that need it: twice is harmless.
                    kept_lock.release()
        self._answer_and_tidy()
        self._hold.ended()
        location = self.landed[-1].location if self.landed else None
        return GroupResult(location, self._contested, self._behind_foreign_writer, self._outcomes.answered_at)

    def _load_to_swap_once_there(self, kept_lock: HeldLock | None) -> None:
        """Steps 2 to 8, from the beginning as often as they end because the metastore is away, and nothing that was
        sent was made, or ever will be."""
        while True:
            try:
                return self._load_to_swap(kept_lock)
            except MetastoreUnavailable as error:
                if any(swap.status is not CommitStatus.FAILURE for swap in self._swaps):
                    raise
                self._hold.wait(error, self._commits)
            self._abandon()
            self._outcomes.begin_again()
            self._lock.gone()
            self._refusals = self._new_refusals()
            self._waiting = [commit for commit in self._commits if commit.outcome is None]
            # Look at the table first: that costs least while the metastore is away.
            self._last = GroupResult()
            kept_lock = None

    def _load_to_swap(self, kept_lock: HeldLock | None) -> None:
        """Steps 2 to 8. Steps 2 to 4 come first unless the last group found that they would be wasted; steps 5 to 8 are
        done again with another lock if the first one is lost before a swap was sent. A group whose changes are all
        refused needs no lock, unless it has to fence the table."""
        lock = kept_lock
        if lock is not None:
            self._lock.took(lock)
        if lock is not None or self._last.contested:
            self._moves.look_up(self._waiting, None)
        else:
            lock = self._build_and_lock()
        # One more, for a server that is found not to compare: the first lock in a database may be `require_cas`.
        for _ in range(self._settings.commit_retry_num_retries + 2):
            if lock is None:
                self._drop_withdrawn()
                if self._is_decided() and not self._outcomes.to_exclude():
                    self._abandon()
                    return
                lock = self._acquire()
            try:
                self._reload_and_swap(lock)
                self._fence(lock)
            except LockLost as error:
                # Raised before a swap was sent; what was built is built still.
                self._lost_a_lock = True
                logger.warning("the lock of %s is taken again: %s", self._name, error)
            else:
                if len(self._outcomes.known) > 1:
                    # The lock is given back while their clients send the next commits.
                    self._outcomes.answer(self._runtime, self._figures.usage)
                return
            finally:
                lock.release()
            lock = None
        raise LockNotAcquired(f"the lock of {self._name} was lost again and again before a swap could be sent")

    def _new_refusals(self) -> RefusedSwaps:
        pointer, name = self._ports.pointer, self._name
        return RefusedSwaps(self._settings.refusal_max_swaps, lambda: pointer.accepts_writes(name), self._runtime.now)

    # Steps 2 to 4: load, stage, write

    def _build_and_lock(self) -> HeldLock | None:
        """Steps 2 to 5. None if no lock was asked for: each commit has its outcome, or has to wait for the lock."""
        remembered = self._load_remembered()
        base, fresh = remembered or self._load(), remembered is None
        self._moves.look_up(self._waiting, base.metadata.location)
        staging = self._begin_staging(base)

        def build() -> None:
            try:
                self._build(base, staging, locked=False, fresh=fresh)
            except Exception as error:
                # The lock may be long in coming, and cannot help those that wait.
                for commit, outcome in self._fail_unsent(error):
                    commit.settle(outcome)
                raise

        if not staging.begin():
            # A refusal needs no lock.
            build()
            return None
        held: list[HeldLock] = []
        try:
            self._runtime.run_while_waiting(build, lambda: held.append(self._acquire()))
        except BaseException:
            for lock in held:
                lock.release()
            raise
        return held[0]

    def _load_remembered(self) -> TableVersion | None:
        """The table as the last group made it, if that was just now: good enough to build on, since it is read again
        under the lock."""
        location = self._last.location
        if location is None or self._runtime.now() - self._last.answered_at > REMEMBERED_SECONDS:
            return None
        try:
            metadata = self._cache.get(location)
        except IcebergHmsError:
            # Others may have moved the table since, and deleted the file.
            return None
        # The last group's swap set the row's location, too.
        return TableVersion(Pointer(self._name, location, None, {}, None, metadata.location), metadata)

    def _load(self, row: Pointer | None = None) -> TableVersion:
        """Steps 2 and 6. row: if the lock's driver has read it already."""
        row = row or self._ports.pointer.load(self._name)
        self._hold.found()
        return self._cache.version(row)

    def _begin_staging(self, base: TableVersion, *, measure_each: bool = False) -> Staging:
        """A staging of the commits that wait, with none of them staged yet. measure_each: refuse each commit with which
        the metadata would be beyond its bounds, which takes as long for each commit as to write the metadata."""
        self._figures.attempts += 1
        self._drop_withdrawn()
        metadata = base.metadata
        seen = self._sent.highest_number(self._waiting)
        if metadata.format_version > 1 and metadata.last_sequence_number < seen:
            # Recommitting a snapshot id assigns a higher sequence number than its first commit can have had, so readers
            # of the lost commit are detected (`changes.sequence_numbers`).
            metadata = metadata.replace(last_sequence_number=seen)

        def measure(staged: TableMetadata) -> None:
            self._cache.encode(next_metadata(staged, base), base.metadata)

        return Staging(
            metadata,
            self._waiting,
            self._ports.manifests(),
            self._runtime.now_ms,
            base.pointer,
            self._moves.check,
            measure if measure_each else None,
        )

    def _build(self, base: TableVersion, staging: Staging, *, locked: bool = True, fresh: bool = True) -> None:
        """The rest of step 3, and step 4. There is no attempt then if there is nothing to swap: each commit has its
        outcome, or has to wait for the lock.

        locked: whether the lock covers what is read. Only then may a change be acknowledged because it is in the table:
        the writer that holds the lock may be about to swap over it. fresh: whether it was read just now. Only then may
        a change be refused for what is in it.
        """
        try:
            self._stage_and_write(base, staging, locked=locked, fresh=fresh)
        except InvalidInput:
            # Some of the commits make the metadata too large, perhaps only after others: each is measured as it is
            # staged. What is measured last is what is written then.
            self._stage_and_write(base, self._begin_staging(base, measure_each=True), locked=locked, fresh=fresh)

    def _stage_and_write(self, base: TableVersion, staging: Staging, *, locked: bool, fresh: bool) -> None:
        staging.finish()
        self._files.staged(staging.files)
        self._files.wrote(staging.manifests_written)
        for commit in staging.withdrawn:
            self._files.withdrawn(commit)
        adds_nothing = staging.metadata is None or staging.metadata is staging.base
        if not locked and (staging.already or (staging.carried and adds_nothing)):
            return
        if staging.refused and not fresh:
            return
        for commit, error in staging.refused:
            self._outcomes.refuse(commit, error, base)
        self._waiting = [] if adds_nothing else list(staging.carried)
        now = self._runtime.now()
        for commit in [*staging.already, *staging.carried] if adds_nothing else staging.already:
            ids = staging.committed_as.get(commit, commit.identity.snapshot_ids)
            self._outcomes.add(commit, Committed(self._figures.report_already_committed(commit, base, ids, now)))
        if staging.metadata is None or not self._waiting:
            return
        owns_folder = self._moves.may_own(staging.metadata.location)
        attempt = attempt_of(staging, staging.metadata, base, self._runtime.uuid(), owns_folder=owns_folder)
        try:
            self._attempt = write(self._ports, attempt, staging.manifests, self._cache)
        except Exception:
            self._files.not_written(attempt.location)
            raise
        self._cache.put(attempt.location, attempt.metadata)

    # Step 5: lock

    def _acquire(self) -> HeldLock:
        started = self._runtime.now()
        callers = self._waiting or self._outcomes.to_exclude()
        deadline = max((commit.deadline for commit in callers), default=started)
        try:
            lock = self._ports.lock.acquire(
                self._name,
                wait_seconds=max(0.0, deadline - started),
                request=self._runtime.uuid(),
                use=LockUse.CAS_FULL_LEASE if self._lost_a_lock else LockUse.CAS,
            )
        except IcebergHmsError:
            raise
        except Exception as error:
            # No thread for its heartbeats, for one.
            why = f"The lock of {self._name} could not be taken: {error.__class__.__name__}: {error}"
            raise LockNotAcquired(why) from error
        self._figures.lock_wait_ms = (self._runtime.now() - started) * 1000
        self._lock.took(lock)
        return lock

    # Step 6: reload, and build again if the table moved

    def _reload_and_swap(self, lock: HeldLock) -> None:
        """Steps 6 to 8, as often as the table moves. Raises LockLost before a swap is sent."""
        # Each round ends in an outcome, in a withdrawn commit, in a proved conflict, or in a part of the group that is
        # sent next, once more if it is a single change; so the bound is their sum.
        tries = self._settings.commit_retry_num_retries + 1 + len(self._waiting)
        for round_ in range(tries + 2 * self._settings.refusal_max_swaps + 2):
            replays = round_ - self._refusals.rounds
            if replays >= tries or (replays > 0 and not lock.exclusive and not self._back_off(replays)):
                break
            base = self._load(None if round_ else lock.row)
            self._under_lock = base
            renew_if_half_expired(lock)
            if not round_:
                built_on = self._attempt.base.pointer.metadata_location if self._attempt else self._last.location
                self._contested = base.pointer.metadata_location != built_on
                self._behind_foreign_writer = lock.behind_foreign_writer
            attempt = self._attempt
            if attempt is None or attempt.base.pointer.metadata_location != base.pointer.metadata_location:
                self._figures.replays += attempt is not None
                self._abandon()
                self._build(base, self._begin_staging(base))
                attempt = self._attempt
            if attempt is not None:
                lock.ensure_held()
            swap = None if attempt is None else self._begin_swap(attempt, lock)
            if attempt is None or swap is None:
                if self._is_decided():
                    return
            elif self._swap(attempt.on(base.pointer), swap, lock):
                return
        conflict = CommitConflict(
            f"{self._name} moved under every one of {self._figures.replays} attempts"
            + (", although it was locked" if lock.exclusive else ""),
            next_step="another writer swaps without the lock: see `iceberg-hms doctor`; then try again",
        )
        for commit in self._waiting:
            self._outcomes.refuse(commit, conflict, base)
        self._send_next([])

    def _back_off(self, replay: int) -> bool:
        """Where nothing is locked, let the others pass before the table is tried again. False: the time is over.

        Under a lock there is no such wait: it would only keep the lock from those that wait for it."""
        settings = self._settings
        wait = min(settings.commit_retry_min_wait_ms * 2 ** (replay - 1), settings.commit_retry_max_wait_ms) / 1000
        wait *= 1 - self._runtime.jitter() / 2
        started = min(commit.started for commit in self._waiting)
        if self._runtime.now() + wait - started > settings.commit_retry_total_timeout_ms / 1000:
            return False
        self._runtime.sleep(wait)
        return True

    # Steps 7 and 8: swap, outcome

    def _begin_swap(self, attempt: CommitAttempt, lock: HeldLock) -> SentSwap | None:
        """Record the swap that is about to be sent. None: a caller left meanwhile, so build again without its
        commit."""
        swap = attempt.swap(fences=lock.require_cas)
        if self._sent.send(swap, attempt.commits):
            self._swaps.append(swap)
            return swap
        self._drop_withdrawn()
        self._abandon()
        return None

    def _swap(self, attempt: CommitAttempt, sent: SentSwap, lock: HeldLock) -> bool:
        """Steps 7 and 8. False: proved absent, build again. Otherwise every commit of the attempt has its outcome."""
        is_overdue = False

        def overdue() -> None:
            """Answer all callers, since the swap goes on without them; the lock is kept meanwhile. Never raises."""
            nonlocal is_overdue
            if not is_overdue:
                is_overdue = True
                error = publish_overdue(self._ports, self._name, f"whether {attempt.location} became {self._name}")
                for commit in attempt.commits:
                    commit.settle(Unknown(error))
                self._outcomes.answer_early()

        self._send(attempt, sent, lock, overdue)
        answer = sent.answer
        if sent.status is CommitStatus.SUCCESS:
            # Who heard "unknown" may send the same list again.
            self._note_landed(replace(attempt, replaced_lists=()) if is_overdue else attempt)
            return not self._send_next(self._refusals.next_part())
        if sent.status is CommitStatus.UNKNOWN:
            unknown = CommitStateUnknown(f"it is not known whether {attempt.location} became {self._name}: {answer}")
            self._outcomes.unknown(attempt.commits, unknown)
            self._send_next([])
            return True
        if is_overdue:
            # Its callers were answered "unknown", and may look at the table by now. The other parts still wait.
            return not self._send_next(self._refusals.next_part())
        if isinstance(answer, Refused) and not answer.conflict:
            return not self._send_next(self._refusals.refused(attempt.commits, answer.error))
        self._figures.replays += 1
        return False

    def _send(self, attempt: CommitAttempt, sent: SentSwap, lock: HeldLock, overdue: Callable[[], None]) -> None:
        """Send a swap, find out what became of it, and record that. Raises as `send_swap`, if nothing was sent."""
        started = self._runtime.now()
        swap = TableSwap(self._ports, self._cache, attempt)
        self._attempt = None
        try:
            answer = send_swap(swap, lock, overdue)
        except IcebergHmsError:
            self._sent.settle(sent, CommitStatus.FAILURE)
            self._attempt = attempt
            raise
        until = max((commit.deadline for commit in attempt.commits), default=0.0)
        check = SwapStatusCheck(self._ports, self._settings, swap, lock, overdue, until=until)
        found = check.status(answer)
        self._sent.settle(sent, found, answer, lock_stays_seconds=check.locks_stay_seconds)
        self._figures.swap_ms += (self._runtime.now() - started) * 1000

    def _note_landed(self, attempt: CommitAttempt) -> None:
        self.landed.append(attempt)
        now = self._runtime.now()
        for commit in attempt.commits:
            self._outcomes.add(commit, Committed(self._figures.report_landed(commit, attempt, now)))

    def _fence(self, lock: HeldLock) -> None:
        """Exclude that a swap from before brings a change into the table that this group refuses. Where that cannot be
        done, the outcome of the refused change is unknown. An earlier process held a lock for its swaps, too: one that
        allowed swaps without an expected value is over, and under all others each swap carried one."""
        base = self._under_lock
        if base is None or not lock.require_cas or not self._outcomes.to_exclude():
            return
        self._attempt = attempt = fence(base, self._runtime.uuid())
        try:
            self._attempt = attempt = write(self._ports, attempt, self._ports.manifests(), self._cache)
            lock.ensure_held()
            swap = self._begin_swap(attempt, lock)
            if swap is None:
                return
            self._cache.put(attempt.location, attempt.metadata)
            self._send(attempt, swap, lock, self._outcomes.answer_early)
            if swap.status is CommitStatus.SUCCESS:
                self._note_landed(attempt)
                row = replace(base.pointer, metadata_location=attempt.location)
                self._outcomes.excluded(TableVersion(row, attempt.metadata))
            elif isinstance(swap.answer, Refused) and swap.answer.conflict:
                # Another writer moved the table, to a location that no earlier swap expects, either.
                moved = self._load()
                self._sent.note_fence(moved.metadata.uuid)
                self._outcomes.excluded(moved)
        except IcebergHmsError as error:
            logger.warning("%s could not be fenced against earlier swaps: %s", self._name, error)
            self._abandon()

    # Step 9: answer the callers, tidy up, publish

    def _answer_and_tidy(self) -> None:
        self._outcomes.answer(self._runtime, self._figures.usage)
        self._outcomes.answer_unproved()
        ports, known = self._ports, self._outcomes.known
        self._files.delete_garbage(ports, self._name, ports.manifests, known, self._swaps, self.landed)
        self._outcomes.publish(ports.events, self._figures.usage)

    # What waits, and what is not sent

    def _send_next(self, part: list[PendingCommit]) -> bool:
        """Go on with a part of the group. False: it is empty, so what was refused and is not sent again is answered
        so."""
        self._waiting = part
        if not part and self._under_lock is not None:
            for commit, error in self._refusals.verdicts(landed=bool(self.landed)):
                self._outcomes.refuse(commit, error, self._under_lock)
        return bool(part)

    def _is_decided(self) -> bool:
        """Whether nothing waits. If nothing does, the next part of the group waits, if there is one."""
        return not self._waiting and not self._send_next(self._refusals.next_part())

    def _drop_withdrawn(self) -> None:
        """Go on without the commits whose callers have left: each has its answer, and no swap carries what it wrote."""
        for commit in self._waiting:
            if commit.withdrawn:
                self._files.withdrawn(commit)
        self._waiting = [commit for commit in self._waiting if not commit.withdrawn]

    def _abandon(self) -> None:
        """Drop the attempt that no swap carried, if there is one."""
        if self._attempt is not None:
            self._files.never_sent(self._attempt)
            self._attempt = None

    def _fail_unsent(self, error: Exception) -> list[tuple[PendingCommit, Outcome]]:
        """Nothing that carries those that wait was sent. Returns the outcomes of all that had none."""
        refused = [*((commit, error) for commit in self._waiting), *self._refusals.verdicts(landed=bool(self.landed))]
        self._waiting = []
        return self._outcomes.fail_unsent(refused, error)
