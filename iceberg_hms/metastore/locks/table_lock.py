"""The metastore's own table lock: the TableLock port over Thrift.

EXCLUSIVE on TABLE level, outside transactions, as Java's MetastoreLock takes it, so that all writers of a table queue
together. What Java does not: whoever gives up removes its entry, entries of lost replies are looked for until they can
no longer appear, a held lock sends a heartbeat at a tenth of its lease and every five seconds at least, and a waiter
removes what the dead left behind and sleeps while others come before it (queue_position.py).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from iceberg_hms.clock import ClockReading
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import HeldLock, LockUse, Runtime, TableName, ThreadEvent
from iceberg_hms.coordinator.protocol.lease_check import heartbeat_seconds
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable, MetastoreError, MetastoreUnavailable
from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.dead_lock_reaper import DeadLockReaper, LockWatch
from iceberg_hms.metastore.locks.heartbeat import HmsHeldLock
from iceberg_hms.metastore.locks.holder_identity import LockHolder, agent_info, has_ended, parse
from iceberg_hms.metastore.locks.lease import lease_or_default
from iceberg_hms.metastore.locks.lock_api_stall import warn_if_slow
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry
from iceberg_hms.metastore.locks.lost_lock_cleanup import LostLockCleanup
from iceberg_hms.metastore.locks.poll_rate import PollRate
from iceberg_hms.metastore.locks.queue_position import QueuePosition

logger = logging.getLogger(__name__)

#: Java's factors: between attempts to ask for the lock, and between looks at one that is waited for.
_CREATION_FACTOR = 2.0
_CHECK_FACTOR = 1.5
#: A look at the queue costs the server less than a look at our entry, so it may come this much sooner.
_LOOKS_PER_CHECK = 4
#: So many beats may pass between two looks, where many wait.
_BEATS_BETWEEN_LOOKS = 2.5
#: Errors of the lock API in a row after which it counts as broken; a deadlock in its database is only one.
_FAULTS_MAX = 3
#: How long `close` waits for those that wait for a lock, or hold one.
CLOSE_SECONDS = 10.0
_CLOSE_CHECK_SECONDS = 0.01


class HmsTableLock:
    """coordinator.ports.TableLock on a metastore.

    new_agent_info: who we are, for a new entry. is_over: whether the holder of an entry is known to have ended.
    """

    def __init__(
        self,
        pool: ClientPool,
        runtime: Runtime,
        settings: Settings,
        *,
        new_agent_info: Callable[[str, SwapProtection, int | None], str] = agent_info,
        is_over: Callable[[LockHolder], bool] = has_ended,
    ) -> None:
        self._pool = pool
        self._runtime = runtime
        self._settings = settings
        self._entries = LockEntries(pool, settings.user)
        self._strays = LostLockCleanup(self._entries, runtime)
        self._stale = DeadLockReaper(
            self._entries, runtime, settings.lock_stale_check_interval_ms / 1000, is_over=is_over
        )
        self._new_agent_info = new_agent_info
        self._crowd = PollRate(runtime, settings.lock_looks_per_second)
        self._lease: float | None = None
        self._closed = runtime.event()
        self._mutex = self._runtime.mutex()
        self._in_use = 0

    def acquire(self, name: TableName, *, wait_seconds: float, request: str, use: LockUse = LockUse.BLIND) -> HeldLock:
        """As the port says. Raises InvalidInput for a malformed request."""
        held = None
        self._count(1)
        deadline = self._runtime.now() + wait_seconds
        short = use == LockUse.CAS
        try:
            while held is None:
                try:
                    held = self._acquire(name, deadline, request, use=use, short=short)
                except LockLost as error:
                    # A metastore may be too slow for a short lease.
                    short = False
                    logger.warning("the lock of %s is asked for again: %s", name, error.message)
        finally:
            if held is None:
                self._count(-1)
        return held

    def _acquire(self, name: TableName, deadline: float, request: str, *, use: LockUse, short: bool) -> HeldLock:
        """Raises LockLost as `_Attempt.run`. short: it may have a short lease."""
        if self._closed.is_set():
            raise LockNotAcquired(f"The lock of {name} is not asked for: the catalog is closed")
        lease = self._likely_lease()
        word = self._pool.cas_support.protection(name.namespace) if use else SwapProtection.BLIND
        announced = self._short_lease(lease) if short and word is SwapProtection.CAS else None
        info = self._new_agent_info(request, word, announced)
        watch = self._stale.watch(name, lease)
        attempt = _Attempt(
            self._entries,
            self._runtime,
            self._settings,
            self._crowd,
            name,
            info,
            deadline,
            announced or lease,
            watch,
            self._closed,
        )

        def look_for_strays(removed: bool) -> None:
            if attempt.may_have_strays or not removed:
                self._strays.watch(name, attempt.agent_info, lease)

        def on_release(removed: bool) -> None:
            try:
                look_for_strays(removed)
            finally:
                self._count(-1)

        try:
            entry, sent = attempt.run()
            held = HmsHeldLock(
                self._entries,
                self._runtime,
                entry,
                sent=sent,
                behind_foreign_writer=attempt.behind_foreign_writer,
                require_cas=word is not SwapProtection.BLIND,
                lease_seconds=min(announced or math.inf, self._told_lease()),
                interval_seconds=self._settings.lock_heartbeat_interval_ms / 1000,
                on_release=on_release,
                on_leave=lambda: self._count(-1),
            )
            held.start()
        except BaseException:
            look_for_strays(attempt.withdraw())
            raise
        return held

    def _count(self, change: int) -> None:
        with self._mutex:
            self._in_use += change

    def foreign_writer_waits(self, name: TableName) -> bool:
        """Whether a writer that is not ours waits for a table's lock. False where the metastore does not tell."""
        try:
            entries = self._entries.of(name)
        except MetastoreError as error:
            logger.debug("it is not known who waits for the lock of %s: %s", name, error.message)
            return False
        return any(not entry.acquired and _is_foreign(entry) for entry in entries)

    def close(self) -> None:
        """Let those that wait for a lock give up and withdraw their entries, wait for those that hold one to release it
        (whoever closes us takes away the connections next), look for lost entries once more, and no longer."""
        self._closed.set()
        deadline = self._runtime.now() + CLOSE_SECONDS
        while self._in_use > 0 and self._runtime.now() < deadline:
            self._runtime.sleep(_CLOSE_CHECK_SECONDS)
        self._strays.close()

    def _short_lease(self, lease: float) -> int | None:
        """The seconds to announce; None where the server's own lease is no longer, or that is what is wanted."""
        seconds = math.ceil(self._settings.lock_short_lease_ms / 1000)
        return seconds if 0 < seconds < lease else None

    def _told_lease(self) -> float:
        """The server's lease, asked for once. Raises MetastoreUnavailable: whoever holds a lock must know for how long,
        or acknowledges what the server has given away."""
        if self._lease is None:
            self._lease = lease_or_default(self._pool, self._settings)
        return self._lease

    def _likely_lease(self) -> float:
        """The same, or the default while nobody can be asked: good enough to wait."""
        try:
            return self._told_lease()
        except MetastoreUnavailable:
            return self._settings.lock_lease_default_ms / 1000


def _is_foreign(entry: LockEntry) -> bool:
    """Whether an entry is a writer's that is not ours."""
    return not entry.reads and parse(entry.agent_info) is None


class _Backoff:
    """Waits that grow by a factor from the first to the longest, each shortened by up to half at random."""

    def __init__(self, runtime: Runtime, first_ms: int, longest_ms: int, factor: float) -> None:
        self._runtime = runtime
        self._next = first_ms / 1000
        self._longest = longest_ms / 1000
        self._factor = factor

    def sleep(self, at_most: float, at_least: float = 0.0) -> None:
        wait = max(at_least, self._next * (1 - self._runtime.jitter() / 2))
        self._next = min(self._next * self._factor, self._longest)
        self._runtime.sleep(max(0.0, min(wait, at_most)))


class _Attempt:
    """One try to get the lock, from asking for it to holding it."""

    def __init__(
        self,
        entries: LockEntries,
        runtime: Runtime,
        settings: Settings,
        crowd: PollRate,
        name: TableName,
        agent_info: str,
        deadline: float,
        lease_seconds: float,
        watch: LockWatch,
        closed: ThreadEvent,
    ) -> None:
        self.agent_info = agent_info
        #: A lock call was sent and not answered well: an entry may be there, or appear, that we do not know of.
        self.may_have_strays = False
        #: A writer that is not ours was before us.
        self.behind_foreign_writer = False
        self._entries = entries
        self._runtime = runtime
        self._settings = settings
        self._crowd = crowd
        self._name = name
        self._deadline = deadline
        self._watch = watch
        self._closed = closed
        self._entry: LockEntry | None = None
        self._sent = runtime.read_clocks()
        self._faults = 0
        self._has_seen_queue = False
        self._checks = self._new_checks()
        self._position = self._new_position()
        self._lease_seconds = lease_seconds
        self._beat_seconds = heartbeat_seconds(lease_seconds)
        #: When the first call was sent whose entry may still be found.
        self._unanswered: ClockReading | None = None

    def run(self) -> tuple[LockEntry, ClockReading]:
        """The acquired entry, and when the call that got it was sent. Raises LockLost when our entry was not renewed
        for its lease: it may be there still, but another waiter may be about to remove it."""
        while True:
            if self._entry is None:
                self._entry = self._ask()
                self._checks = self._new_checks()
                self._position = self._new_position()
                self._has_seen_queue = False
                if not self._entry.acquired:
                    self._look(self._entry)
            if self._entry.acquired:
                return self._entry, self._sent
            self._entry = self._wait(self._entry)

    def withdraw(self) -> bool:
        """Remove our entry, if we have one. False if it may be left behind."""
        if self._entry is not None:
            try:
                self._entries.remove(self._entry)
            except MetastoreError as error:
                logger.warning("%s could not be withdrawn and is looked for again: %s", self._entry, error.message)
                return False
        return True

    @property
    def _check_seconds(self) -> float:
        """A waiting entry is renewed by checks alone, and dead writers are looked for after a check."""
        return min(self._beat_seconds, self._watch.interval_seconds or self._beat_seconds)

    def _new_checks(self) -> _Backoff:
        settings = self._settings
        return _Backoff(self._runtime, settings.lock_check_min_wait_ms, settings.lock_check_max_wait_ms, _CHECK_FACTOR)

    def _new_position(self) -> QueuePosition:
        return QueuePosition(self._runtime, self._settings.lock_check_min_wait_ms / 1000)

    def _ask(self) -> LockEntry:
        """Ask for the lock until there is an entry."""
        settings = self._settings
        waits = _Backoff(
            self._runtime, settings.lock_creation_min_wait_ms, settings.lock_creation_max_wait_ms, _CREATION_FACTOR
        )
        deadline = min(self._deadline, self._runtime.now() + settings.lock_creation_timeout_ms / 1000)
        while True:
            self._sent = self._runtime.read_clocks()
            self._unanswered = self._unanswered or self._sent
            asked = self._runtime.now()
            problem: MetastoreError
            try:
                entry = self._entries.enqueue(self._name, self.agent_info)
            except ServerFault as fault:
                # The server enqueues first and looks whether it is our turn then: the second may have failed.
                self.may_have_strays |= fault.fault is not Fault.UNKNOWN_METHOD
                problem = self._broken(fault)
            except NoAnswer as error:
                self.may_have_strays = True
                problem = MetastoreUnavailable(error.message)
            except MetastoreUnavailable as error:
                problem = error
            except BaseException:
                # Interrupted: the call may have been sent.
                self.may_have_strays = True
                raise
            else:
                self._faults = 0
                if not self.may_have_strays:
                    self._unanswered = None
                return entry
            warn_if_slow(self._name, self._runtime.now() - asked)
            if self.may_have_strays and (found := self._find()) is not None:
                return found
            remaining = deadline - self._runtime.now()
            if remaining <= 0 or self._closed.is_set():
                raise problem
            waits.sleep(remaining)

    def _broken(self, fault: ServerFault) -> LockUnavailable:
        """What a lock call's fault comes to; raised when there were too many in a row."""
        self._faults += 1
        problem = LockUnavailable(f"The metastore's lock API fails: {fault.detail}")
        if self._faults >= _FAULTS_MAX or fault.fault is Fault.UNKNOWN_METHOD:
            raise problem from fault
        return problem

    def _find(self) -> LockEntry | None:
        """Our own entry, by agentInfo. Whether it is acquired is left to the next check, which also renews it."""
        try:
            own = self._entries.own(self._name, self.agent_info)
        except MetastoreError:
            return None
        if not own:
            return None
        # The acquired one, if any; else the one that waits in front. What is behind it is removed after release.
        best = min(own, key=lambda entry: (not entry.acquired, entry.lock_id))
        if self._unanswered is not None and (self._entry is None or best.lock_id != self._entry.lock_id):
            # It was not renewed since, as far as we know.
            self._sent = self._unanswered
        return LockEntry(best.lock_id, False, best.agent_info, best.user, best.host)

    def _wait(self, entry: LockEntry) -> LockEntry | None:
        """Sleep, and look once: at the queue while others are before us, else at our entry. None when that is gone."""
        remaining = self._deadline - self._runtime.now()
        if self._closed.is_set():
            raise LockNotAcquired(f"The lock of {self._name} is no longer waited for: the catalog is closed")
        if remaining <= 0:
            raise LockNotAcquired(f"The lock of {self._name} was not to be had in time{self._holder()}")
        with self._crowd.joined():
            return self._wait_in_crowd(entry, remaining)

    def _wait_in_crowd(self, entry: LockEntry, remaining: float) -> LockEntry | None:
        # A waiting entry must be renewed within its lease, however many wait.
        between = min(self._crowd.seconds_between_looks, self._beat_seconds * _BEATS_BETWEEN_LOOKS)
        if self._position.ahead:
            self._sleep_until_next_look(between, remaining)
        else:
            self._checks.sleep(min(remaining, max(self._check_seconds, between)), between)
        if self.may_have_strays:
            entry = self._find() or entry
        if self._position.ahead and self._runtime.read_clocks().max_seconds_since(self._sent) < self._check_seconds:
            self._look(entry)
            if self._position.ahead:
                return entry
        return self._check(entry)

    def _check(self, entry: LockEntry) -> LockEntry | None:
        """Ask for our entry, which renews it. None when it is gone."""
        sent = self._runtime.read_clocks()
        try:
            entry = self._entries.check(entry)
            silent = self._runtime.read_clocks().max_seconds_since(self._sent)
            if silent > self._lease_seconds:
                raise LockLost(f"{entry} was not renewed for {silent:.0f} s while it waited")
            self._sent = sent
            self._faults = 0
        except ServerFault as fault:
            if fault.fault is Fault.NO_SUCH_LOCK:
                logger.info("%s was removed while it waited; asking again", entry)
                return None
            self._broken(fault)
        except MetastoreUnavailable as error:
            if self._runtime.now() >= self._deadline:
                raise
            logger.debug("looking at %s failed and is repeated: %s", entry, error.message)
        if not entry.acquired:
            if self._watch.look(entry):
                self._checks = self._new_checks()
            if self._position.ahead is None:
                self._look(entry)
        return entry

    def _sleep_until_next_look(self, at_least: float, at_most: float) -> None:
        settings = self._settings
        shortest = settings.lock_check_min_wait_ms / 1000 / _LOOKS_PER_CHECK
        longest = min(settings.lock_check_max_wait_ms / 1000, self._check_seconds)
        wait = min(max(self._position.seconds(), shortest), longest)
        self._runtime.sleep(min(max(wait, at_least), at_most))

    def _look(self, entry: LockEntry) -> None:
        """See how many are before us. Where that cannot be seen our entry alone is looked at, as Java does."""
        sent = self._runtime.read_clocks()
        try:
            found = self._entries.of(self._name)
        except MetastoreError as error:
            logger.debug("The locks of %s could not be listed: %s", self._name, error.message)
            self._position.lost_sight()
        else:
            ahead = [other for other in found if other.lock_id < entry.lock_id]
            self._position.saw(len(ahead))
            if not self._has_seen_queue:
                self._watch.saw(ahead, sent)
                self._has_seen_queue = True
            self.behind_foreign_writer |= any(map(_is_foreign, ahead))

    def _holder(self) -> str:
        try:
            holders = [entry for entry in self._entries.of(self._name) if entry.acquired]
        except MetastoreError:
            return ""
        return f"; it is held by {holders[0]}" if holders else ""
