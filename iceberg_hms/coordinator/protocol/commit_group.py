"""One group of changes of one table, from the loaded pointer to the settled outcome.

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

Steps 3 and 4 need no lock, and what the metastore does to grant one takes about as long; so the lock is held for three
metastore calls and what is left of the two. Where other writers keep moving the table that work is thrown away, so such
a group locks first and builds once.

Two facts carry the safety. A member is answered "failed" only if no swap that carried it was sent, or the table's whole
chain lacks it. A file is deleted only if no swap was sent that would have made the table name it. What a refused swap
carried is left to a sweep for orphans, which waits until they are old: one look proves its absence, and a metastore
that answers it from a cache, or from a copy of its database, would make us delete a living table's files.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from iceberg_hms.changes.lineage import Lineage, Presence
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.ports import (
    CommitPorts,
    HeldLock,
    LockUse,
    Pointer,
    Refused,
    SwapAnswer,
    TableName,
    Unanswered,
)
from iceberg_hms.coordinator.protocol.already_committed import AlreadyCommitted, LookupSources, look_back
from iceberg_hms.coordinator.protocol.attempt import CommitAttempt, Draft
from iceberg_hms.coordinator.protocol.caller_timeouts import on_caller_timeout
from iceberg_hms.coordinator.protocol.cleanup import delete_files, expired_metadata_files
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.coordinator.protocol.commit_status import CommitStatus
from iceberg_hms.coordinator.protocol.dependent_refusals import standing
from iceberg_hms.coordinator.protocol.lease_check import renew_if_half_expired, sending_under
from iceberg_hms.coordinator.protocol.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.protocol.pending_commit import Committed, Failed, Outcome, PendingCommit, Unknown
from iceberg_hms.coordinator.protocol.refused_swaps import RefusedSwaps
from iceberg_hms.coordinator.protocol.staging import Staging
from iceberg_hms.coordinator.protocol.swap_outcome import Swap, SwapResolution, may_still_land
from iceberg_hms.coordinator.protocol.unanswered_swaps import leave_locks_to_expire, publish_overdue
from iceberg_hms.coordinator.protocol.usage import Usage, measured
from iceberg_hms.errors import (
    CommitConflict,
    CommitStateUnknown,
    CompareAndSwapUnproven,
    IcebergHmsError,
    LockLost,
    LockNotAcquired,
)
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)

#: A group is built on what the last one left, without a look at the pointer, if that is not older.
REMEMBERED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TableHints:
    """What the last group learned of its table, for the next one.

    lock_first: other writers move the table, so what is built before the lock is wasted.
    last_location: where the pointer was when the last group ended, as far as it knows. ended: when, by `Runtime.now()`.
    """

    lock_first: bool = False
    last_location: str | None = None
    ended: float = 0.0


class GroupCommit:
    """Commits a group of changes to a table that is there; every member has its outcome when `run` returns.

    elsewhere: for changes whose table has left its name.
    keeps: called with each member once it has its outcome; True: somebody else tells its caller, later.
    """

    def __init__(
        self,
        world: CommitPorts,
        cache: MetadataCache,
        settings: Settings,
        name: TableName,
        members: Sequence[PendingCommit],
        elsewhere: LookupSources,
        keeps: Callable[[PendingCommit], bool] = lambda _: False,
    ) -> None:
        self._world = world
        self._elsewhere = elsewhere
        self._keeps = keeps
        self._cache = cache
        self._settings = settings
        self._name = name
        self._members = tuple(members)
        self._waiting = list(members)
        self._outcomes: list[tuple[PendingCommit, Outcome]] = []
        #: Refused, and perhaps committed before; each with the error, and the table on which it was refused.
        self._doubtful: list[tuple[PendingCommit, Exception, TableMetadata]] = []
        #: `Runtime.now()` at which the callers began to be answered.
        self.answered = math.inf
        self._garbage: list[str] = []
        #: What swaps carried that were refused.
        self._kept: set[str] = set()
        #: What each member wrote; in order, so that a simulated run can be replayed.
        self._own_files: dict[PendingCommit, dict[str, None]] = {}
        self._rebased: set[PendingCommit] = set()
        self._landed_as: dict[PendingCommit, tuple[int, ...]] = {}
        self._replaced: list[str] = []
        #: Clients' lists that the landed metadata names no more, for `leftovers`.
        self.leftovers: list[str] = []
        self._started = world.runtime.now()
        self._attempts = 0
        self._moved = 0
        self._contested = False
        #: A metastore that answers too slowly for a short lease must not cost the group one lock after the other.
        self._lost_a_lock = False
        #: As `HeldLock` says of the lock that the group had.
        self.behind_foreign_writer = False
        self._last_location: str | None = None
        self._lock_wait_ms = 0.0
        self._swap_ms = 0.0
        self._refusals = RefusedSwaps(settings.refusal_max_swaps, lambda: world.pointer.accepts_writes(name))
        #: The table as it was last read under the lock.
        self._seen: TableMetadata | None = None
        #: Readers may have seen numbers up to this one, under snapshot ids that come again.
        self._numbers_seen = 0
        #: The callers of the swap that is under way, or was the last, have been answered before it was.
        self._is_overdue = False
        #: For how long its lock is left, since its swap may still be made.
        self.left_seconds = 0.0
        #: Built, and not yet sent, abandoned or landed.
        self._unsent: CommitAttempt | None = None

    def run(self, habit: TableHints) -> TableHints:
        """Commit the group, and return what the next group of this table should know."""
        with measured() as usage:
            try:
                self._commit(habit, usage)
            except Exception as error:  # noqa: BLE001 - whatever it is, every member gets its answer
                self._abandon(self._unsent)
                self._fail_unsent(error)
        self._finish(usage)
        ended = self._world.runtime.now()
        return TableHints(lock_first=self._contested, last_location=self._last_location, ended=ended)

    def _commit(self, habit: TableHints, usage: Usage) -> None:
        lock = None if habit.lock_first else self._build_and_acquire(habit)
        # One more, for a server that is found not to compare: the first lock in a database may be `require_cas`.
        for _ in range(self._settings.commit_retry_num_retries + 2):
            if lock is None:
                self._let_go()
                if not self._waiting and not self._send_next(self._refusals.skipped()):
                    return
                lock = self._acquire()
            try:
                self._commit_locked(lock, habit)
            except LockLost as error:
                # Raised before a swap was sent; what was built is built still.
                self._lost_a_lock = True
                logger.warning("the lock of %s is taken again: %s", self._name, error)
            else:
                if len(self._outcomes) > 1:
                    # The lock is given back while they come back.
                    self._answer(usage)
                return
            finally:
                lock.release()
            lock = None
        raise LockNotAcquired(f"the lock of {self._name} was lost again and again before a swap could be sent")

    def _commit_locked(self, lock: HeldLock, habit: TableHints) -> None:
        """Steps 6 to 8, as often as the table moves. Raises LockLost before a swap is sent."""
        # Each round ends in an outcome, in a withdrawn member, in a proved conflict, or in a part of the group that is
        # sent next, once more if it is a single change; so the bound is their sum.
        tries = self._settings.commit_retry_num_retries + 1 + len(self._waiting)
        for round_ in range(tries + 2 * self._settings.refusal_max_swaps + 2):
            moves = round_ - self._refusals.rounds
            if moves >= tries or (moves > 0 and not lock.exclusive and not self._step_back(moves)):
                break
            base = self._load(None if round_ else lock.row)
            self._seen = base.metadata
            renew_if_half_expired(lock)
            attempt = self._unsent
            if not round_:
                known = attempt.base.pointer.metadata_location if attempt else habit.last_location
                self._contested = base.pointer.metadata_location != known
                self.behind_foreign_writer = lock.behind_foreign_writer
            if attempt is None or attempt.base.pointer.metadata_location != base.pointer.metadata_location:
                self._moved += attempt is not None
                self._abandon(attempt)
                attempt = self._write(self._draft(base, self._stage(base)))
            if attempt is not None:
                lock.ensure_held()
            if attempt is None or not self._take_for_swap(attempt):
                if not self._waiting and not self._send_next(self._refusals.skipped()):
                    return
            elif self._swap(attempt, base, lock):
                return
        self._fail_waiting(
            CommitConflict(
                f"{self._name} moved under every one of {self._moved} attempts"
                + (", although it was locked" if lock.exclusive else ""),
                next_step="another writer swaps without the lock: see `iceberg-hms doctor`; then try again",
            ),
            base.metadata,
        )

    def _step_back(self, round_: int) -> bool:
        """Where nothing is locked, let the others pass before the table is tried again. False: the time is over.

        Under a lock there is no such wait: it would only keep the lock from those that wait for it."""
        settings, runtime = self._settings, self._world.runtime
        wait = min(settings.commit_retry_min_wait_ms * 2 ** (round_ - 1), settings.commit_retry_max_wait_ms) / 1000
        wait *= 1 - runtime.jitter() / 2
        started = min(member.started for member in self._waiting)
        if runtime.now() + wait - started > settings.commit_retry_total_timeout_ms / 1000:
            return False
        runtime.sleep(wait)
        return True

    def _take_for_swap(self, attempt: CommitAttempt) -> bool:
        """Mark every member as sent. False: somebody left meanwhile, so build again without them."""
        taken = [member.take_for_swap() for member in attempt.members]
        if all(taken):
            return True
        for member in attempt.members:
            member.proved_absent()
        self._let_go()
        self._abandon(attempt)
        return False

    def _let_go(self) -> None:
        """Go on without the members that have left: each has its answer, and no swap carries what it wrote."""
        for member in self._waiting:
            if member.withdrawn:
                self._garbage.extend(self._own_files.pop(member, ()))
        self._waiting = [member for member in self._waiting if not member.withdrawn]

    def _remembered(self, habit: TableHints) -> TableVersion | None:
        """The table as the last group left it, if that was just now: good enough to build on, since it is read again
        under the lock."""
        location = habit.last_location
        if location is None or self._world.runtime.now() - habit.ended > REMEMBERED_SECONDS:
            return None
        try:
            return TableVersion(Pointer(self._name, location, None, {}, None), self._cache.get(location))
        except IcebergHmsError:
            # Others may have moved the table since, and deleted the file.
            return None

    def _load(self, row: Pointer | None = None) -> TableVersion:
        pointer = row or self._world.pointer.load(self._name)
        return TableVersion(pointer, self._cache.get(pointer.metadata_location))

    def _build_and_acquire(self, habit: TableHints) -> HeldLock | None:
        """Steps 2 to 5. None if no lock was asked for: each member has its outcome, or has to wait for the lock."""
        remembered = self._remembered(habit)
        base, fresh = remembered or self._load(), remembered is None
        staging = self._stage(base)

        def build() -> None:
            try:
                self._write(self._draft(base, staging, locked=False, fresh=fresh))
            except Exception as error:
                # The lock may be long in coming, and cannot help those that wait.
                answered = len(self._outcomes)
                self._fail_unsent(error)
                for member, outcome in self._outcomes[answered:]:
                    member.settle(outcome)
                raise

        if not staging.begin():
            # Whoever is refused is told so without a lock.
            build()
            return None
        held: list[HeldLock] = []
        try:
            self._world.runtime.run_while_waiting(build, lambda: held.append(self._acquire()))
        except Exception:
            for lock in held:
                lock.release()
            raise
        return held[0]

    def _stage(self, base: TableVersion) -> Staging:
        self._attempts += 1
        self._let_go()
        before = self._above_numbers_seen(base.metadata)
        return Staging(before, self._waiting, self._world.manifests(), self._world.runtime.now_ms)

    def _draft(self, base: TableVersion, staging: Staging, *, locked: bool = True, fresh: bool = True) -> Draft | None:
        """Step 3. None if there is nothing to swap: each member has its outcome, or has to wait for the lock.

        locked: whether the lock covers what is read. Only then may a change be acknowledged because it is in the table:
        whoever holds the lock may be about to swap over it. fresh: whether it was read just now. Only then may a change
        be refused for what is in it.
        """
        before = staging.base
        staging.finish()
        self._rebased, self._replaced = staging.rebased, staging.replaced
        self._landed_as = staging.landed_as
        for member, files in staging.files.items():
            self._own_files.setdefault(member, {}).update(dict.fromkeys(files))
        if not locked and (staging.already or (staging.carried and staging.metadata is before)):
            return None
        if staging.broken and not fresh:
            return None
        for member, error in staging.broken:
            self._refuse(member, error, base.metadata)
        self._waiting = list(staging.carried)
        for member in staging.already:
            self._outcomes.append((member, Committed(self._report(member, base, already=True))))
        if staging.metadata is None or not self._waiting:
            return None
        if staging.metadata is before:
            for member in self._waiting:
                self._outcomes.append((member, Committed(self._report(member, base, already=True))))
            self._waiting = []
            return None
        metadata = staging.metadata.with_metadata_log_entry(
            base.pointer.metadata_location, base.metadata.last_updated_ms
        )
        location = metadata_file.new_location(metadata, base.pointer.metadata_location, self._world.runtime.uuid())
        staged = tuple(each for member in staging.carried for each in staging.files.get(member, ()))
        return Draft(base, metadata, location, metadata_file.encode(metadata), staging.manifests, staged)

    def _above_numbers_seen(self, metadata: TableMetadata) -> TableMetadata:
        """A snapshot that is committed anew gets a number that its first commit cannot have had, so that who saw that
        one is told from who sees this one (`changes.numbers`)."""
        if metadata.format_version == 1 or metadata.last_sequence_number >= self._numbers_seen:
            return metadata
        return metadata.replace(last_sequence_number=self._numbers_seen)

    def _write(self, draft: Draft | None) -> CommitAttempt | None:
        """Step 4. None if there is nothing to write."""
        if draft is None:
            return None
        location, data = draft.location, draft.data
        try:
            lists, _ = self._world.runtime.gather(
                [draft.manifests.flush, lambda: self._world.files.write(location, data)]
            )
        except Exception:
            self._garbage.append(location)
            raise
        members, written = tuple(self._waiting), (location, *lists)
        self._unsent = CommitAttempt(draft.base, draft.metadata, location, members, written, draft.staged)
        self._cache.put(location, draft.metadata)
        return self._unsent

    def _acquire(self) -> HeldLock:
        runtime = self._world.runtime
        started = runtime.now()
        deadline = max((member.deadline for member in self._waiting), default=started)
        try:
            lock = self._world.lock.acquire(
                self._name,
                wait_seconds=max(0.0, deadline - started),
                request=runtime.uuid(),
                use=LockUse.CAS_FULL_LEASE if self._lost_a_lock else LockUse.CAS,
            )
        except IcebergHmsError:
            raise
        except Exception as error:
            # No thread for its heartbeats, for one.
            why = f"The lock of {self._name} could not be taken: {error.__class__.__name__}: {error}"
            raise LockNotAcquired(why) from error
        self._lock_wait_ms = (runtime.now() - started) * 1000
        return lock

    def _swap(self, attempt: CommitAttempt, base: TableVersion, lock: HeldLock) -> bool:
        """Steps 7 and 8. False: proved absent, build again. Otherwise every member of the attempt has its outcome."""
        runtime = self._world.runtime
        started = runtime.now()
        self._unsent, self._is_overdue = None, False
        self._elsewhere.sent.sending(attempt.carried_ids)
        overdue = partial(self._tell_overdue, attempt)
        answer = self._send(attempt, base, lock, overdue)
        sent = Swap(
            TableVersion(base.pointer, attempt.base.metadata), attempt.location, attempt.metadata, attempt.snapshot_ids
        )
        found = SwapResolution(self._world, self._cache, self._settings, sent, lock, overdue=overdue).resolve(answer)
        self._swap_ms += (runtime.now() - started) * 1000
        if may_still_land(answer, found):
            self.left_seconds = leave_locks_to_expire(self._world, self._name, [lock])
        if found is CommitStatus.SUCCESS:
            self._last_location = attempt.location
            self.leftovers += self._replaced
            self._garbage.extend(expired_metadata_files(attempt.base.metadata, attempt.metadata))
            for member in attempt.members:
                self._outcomes.append((member, Committed(self._report(member, base, attempt=attempt))))
            return not self._send_next(self._refusals.landed())
        if found is CommitStatus.UNKNOWN:
            unknown = CommitStateUnknown(f"it is not known whether {attempt.location} became {self._name}: {answer}")
            for member in attempt.members:
                self._outcomes.append((member, Unknown(unknown)))
            self._send_next([])
            return True
        self._proved_absent(attempt)
        self._keep(attempt)
        if self._is_overdue:
            # Their callers left with "unknown", and may look at the table by now. Those set aside still wait.
            return not self._send_next(self._refusals.skipped())
        if not isinstance(answer, Refused):
            # It may have been there for a while.
            self._numbers_seen = max(self._numbers_seen, attempt.metadata.last_sequence_number)
        if isinstance(answer, Refused) and not answer.conflict:
            return not self._send_next(self._refusals.refused(attempt.members, answer.error))
        self._moved += 1
        return False

    def _send_next(self, part: list[PendingCommit]) -> bool:
        """Go on with a part of the group. False: it is empty, so that all that was set aside is refused."""
        self._waiting = part
        if not part and self._seen is not None:
            for member, error in self._refusals.verdicts():
                self._refuse(member, error, self._seen)
        return bool(part)

    def _proved_absent(self, attempt: CommitAttempt) -> None:
        self._elsewhere.sent.proved_absent(attempt.carried_ids)
        for member in attempt.members:
            member.proved_absent()

    def _keep(self, attempt: CommitAttempt) -> None:
        """An attempt whose swap was refused: what it would have named stays."""
        self._kept.update(attempt.written, attempt.staged)
        logger.info("%s was refused: it stays for a sweep for orphans", attempt.location)

    def _send(
        self, attempt: CommitAttempt, base: TableVersion, lock: HeldLock, overdue: Callable[[], None]
    ) -> SwapAnswer:
        try:
            with on_caller_timeout(overdue), sending_under([lock]):
                return self._world.pointer.swap(
                    base.pointer,
                    attempt.location,
                    attempt.metadata,
                    attempt.base.metadata,
                    require_cas=lock.require_cas,
                )
        except IcebergHmsError as error:
            # The port raises its own errors only for what happened before anything was sent.
            self._proved_absent(attempt)
            self._unsent = attempt
            if isinstance(error, CompareAndSwapUnproven) and lock.exclusive:
                raise LockLost(f"it allows only a swap that is atomic: {error.message}") from error
            raise
        except Exception as error:  # noqa: BLE001 - whatever this is, the swap may have been sent
            return Unanswered(error)

    def _tell_overdue(self, attempt: CommitAttempt) -> None:
        """Answer all callers, since the swap goes on without them; the lock is kept meanwhile. Never raises."""
        if self._is_overdue:
            return
        self._is_overdue = True
        error = publish_overdue(self._world, self._name, f"whether {attempt.location} became {self._name}")
        for member in attempt.members:
            member.settle(Unknown(error))
        with log_and_continue(f"answering those of a group of {self._name} whose swap is overdue", REPORT):
            for told in standing(self._outcomes, self._members):
                told[0].settle(told[1])
            self._settle_doubts()

    def _abandon(self, attempt: CommitAttempt | None) -> None:
        """An attempt that no swap carried: its own files are garbage."""
        if attempt is not None:
            self._garbage.extend(attempt.written)
            self._unsent = None

    def _fail_waiting(self, error: Exception, metadata: TableMetadata) -> None:
        for member in self._waiting:
            self._refuse(member, error, metadata)
        self._send_next([])

    def _refuse(self, member: PendingCommit, error: Exception, metadata: TableMetadata) -> None:
        """Note that no swap of this group carried a member. But a change may be here for the second time, and its
        snapshots may have expired since the first: where `metadata`, the table as it is, does not prove that they have
        not, the answer waits for `_settle_doubts`."""
        if isinstance(error, CommitStateUnknown):
            self._outcomes.append((member, Unknown(error)))
        elif Lineage(member.change.identity, metadata).presence is Presence.ABSENT:
            self._outcomes.append((member, Failed(error)))
        else:
            self._doubtful.append((member, error, metadata))

    def _settle_doubts(self) -> None:
        """Answer those of whom the table as it is does not prove that they have failed. Older metadata files are read
        for that, so it is done when the lock is given back and the others are answered."""
        doubtful, self._doubtful = self._doubtful, []
        elsewhere = self._elsewhere.at_once()
        for member, error, metadata in doubtful:
            try:
                doubt = look_back(self._name, member.change.identity, error, metadata, elsewhere)
            except Exception as defect:  # noqa: BLE001 - then nobody can tell
                doubt = broke_off(self._name, defect)
            outcome: Outcome = Failed(error) if doubt is None else Unknown(doubt)
            self._outcomes.append((member, outcome))
            self._tell(member, outcome)

    def _fail_unsent(self, error: Exception) -> None:
        """Nothing that carries those that wait was sent, unless a defect kept its outcome from being noted. A change
        may be here for the second time all the same."""
        doubts = AlreadyCommitted(self._name, lambda: self._load().metadata, self._elsewhere.at_once())
        for member, told in [*((each, error) for each in self._waiting), *self._refusals.verdicts()]:
            if member.sent:
                doubt: CommitStateUnknown | None = broke_off(self._name, error)
            else:
                doubt = doubts.about(member.change.identity, told)
            self._outcomes.append((member, Failed(told) if doubt is None else Unknown(doubt)))
        self._waiting = []

    def _report(
        self, member: PendingCommit, base: TableVersion, *, attempt: CommitAttempt | None = None, already: bool = False
    ) -> CommitReport:
        own = member.change.identity.snapshot_ids
        landed_as = self._landed_as.get(member, own)
        return CommitReport(
            table=self._name,
            metadata_location=attempt.location if attempt else base.pointer.metadata_location,
            metadata=attempt.metadata if attempt else base.metadata,
            previous_metadata_location=base.pointer.metadata_location
            if attempt
            else base.pointer.previous_metadata_location,
            snapshot_ids=landed_as,
            attempts=self._attempts,
            replays=self._moved,
            group_size=len(attempt.members) if attempt else 0,
            rebased=attempt is not None and member in self._rebased,
            queue_wait_ms=(self._started - member.started) * 1000,
            lock_wait_ms=self._lock_wait_ms,
            swap_ms=self._swap_ms,
            total_ms=(self._world.runtime.now() - member.started) * 1000,
            already_committed=already or landed_as != own,
        )

    def _landed_as_another(self, member: PendingCommit, outcome: Outcome) -> bool:
        """Whether a job's change is in the table as the snapshot of another run: then its own was never in it."""
        own = member.change.identity.snapshot_ids
        return isinstance(outcome, Committed) and outcome.report.snapshot_ids != own

    def _answer(self, usage: Usage) -> None:
        """Tell every caller its outcome, which nothing that follows can change."""
        if self.answered == math.inf:
            self.answered = self._world.runtime.now()
            for member, outcome in standing(self._outcomes, self._members):
                self._tell(member, _with_usage(outcome, usage))

    def _tell(self, member: PendingCommit, outcome: Outcome) -> None:
        member.decide(outcome)
        kept = False
        with log_and_continue(f"noting whose turn it is on {self._name}", REPORT):
            kept = self._keeps(member)
        if not kept:
            member.answer()

    def _finish(self, usage: Usage) -> None:
        """Step 9: answer the callers first, then tidy up."""
        self._answer(usage)
        self._settle_doubts()
        for member, outcome in self._outcomes:
            if isinstance(outcome, Failed) or self._landed_as_another(member, outcome):
                self._garbage.extend(self._own_files.get(member, ()))
        delete_files(self._world.files, [each for each in self._garbage if each not in self._kept])
        for _, outcome in self._outcomes:
            if isinstance(outcome, Committed) and not outcome.report.already_committed:
                with log_and_continue(f"telling listeners of {self._name}", REPORT):
                    self._world.events.publish({"event": "committed", "report": outcome.report.with_usage(usage)})


def broke_off(name: TableName, error: Exception) -> CommitStateUnknown:
    """What is told to callers of whom a defect of ours leaves open what became of them."""
    return CommitStateUnknown(f"a commit to {name} broke off: {error.__class__.__name__}: {error}")


def _with_usage(outcome: Outcome, usage: Usage) -> Outcome:
    if isinstance(outcome, Committed):
        return Committed(outcome.report.with_usage(usage))
    return outcome
