"""One attempt to get the metastore's lock: from the first lock call to an acquired entry, or to giving up."""

from __future__ import annotations

import logging
from typing import Final

from iceberg_hms.clock import ClockReading
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import heartbeat_seconds
from iceberg_hms.coordinator.ports import Runtime, TableName, ThreadEvent
from iceberg_hms.errors import LockLost, LockNotAcquired, LockUnavailable, MetastoreError, MetastoreUnavailable
from iceberg_hms.lock_waits import LockWait
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.locks.dead_lock_reaper import LockWatch
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry
from iceberg_hms.metastore.locks.queue_position import PollRate, QueuePosition

logger = logging.getLogger(__name__)

#: Java's factors: between lock calls, and between checks of a waiting entry.
_CREATION_FACTOR: Final = 2.0
_CHECK_FACTOR: Final = 1.5
#: Polling the queue costs the server less than checking our entry, so it may happen this much sooner.
_POLLS_PER_CHECK: Final = 4
#: At most so many heartbeat intervals pass between two polls, however many wait.
_HEARTBEATS_BETWEEN_POLLS: Final = 2.5
#: Errors of the lock API in a row after which it counts as broken; a deadlock in its database is only one.
_FAULTS_MAX: Final = 3
#: An unanswered lock call that took longer is logged with its likely cause.
_SLOW_SECONDS: Final = 5.0


class HmsLockAttempt:
    """Requests the lock under one agentInfo, and waits for it.

    deadline: by `Runtime.now()`. lease_seconds: a waiting entry that is not renewed for so long may be removed.
    watch: what this waiter knows of the other entries. wait: hears who holds the lock. poll_rate: shared by the
    waiters of a process. closed: set when all waiters must give up.
    """

    def __init__(
        self,
        entries: LockEntries,
        runtime: Runtime,
        settings: Settings,
        name: TableName,
        agent_info: str,
        *,
        deadline: float,
        lease_seconds: float,
        watch: LockWatch,
        wait: LockWait,
        poll_rate: PollRate,
        closed: ThreadEvent,
    ) -> None:
        #: A lock call was not answered well: entries that we do not know of may be there, or appear.
        self.may_have_lost_entries = False
        #: A foreign writer was before us.
        self.behind_foreign_writer = False
        self._entries = entries
        self._runtime = runtime
        self._settings = settings
        self._name = name
        self._agent_info = agent_info
        self._deadline = deadline
        self._lease_seconds = lease_seconds
        self._heartbeat_seconds = heartbeat_seconds(lease_seconds)
        self._watch = watch
        self._waiting = wait
        self._poll_rate = poll_rate
        self._closed = closed
        self._entry: LockEntry | None = None
        #: When the call was sent that last renewed our entry.
        self._sent = runtime.read_clocks()
        #: When the first call was sent whose entry may still be found.
        self._unanswered: ClockReading | None = None
        self._faults = 0
        self._has_polled = False
        self._checks = self._new_checks()
        self._position = self._new_position()

    def run(self) -> tuple[LockEntry, ClockReading]:
        """The acquired entry, and when the call that got it was sent.

        Raises LockNotAcquired (timed out, or closed), LockUnavailable, MetastoreUnavailable; and LockLost when our
        entry was not renewed for its lease: it may still be there, but another waiter may be about to remove it. Then
        call `withdraw`.
        """
        while True:
            if self._entry is None:
                self._entry = self._request()
                self._checks = self._new_checks()
                self._position = self._new_position()
                self._has_polled = False
                if not self._entry.acquired:
                    self._poll_queue(self._entry)
            if self._entry.acquired:
                return self._entry, self._sent
            self._entry = self._wait(self._entry)

    def withdraw(self) -> bool:
        """Remove our entry, if we have one. False if it may be left behind."""
        if self._entry is not None:
            try:
                self._entries.remove(self._entry)
            except MetastoreError as error:
                logger.warning("%s could not be withdrawn; it is removed later: %s", self._entry, error.message)
                return False
        return True

    @property
    def _check_seconds(self) -> float:
        """The longest time between two checks: only checks renew a waiting entry, and dead writers are searched for
        after a check."""
        return min(self._heartbeat_seconds, self._watch.interval_seconds or self._heartbeat_seconds)

    def _new_checks(self) -> _Backoff:
        settings = self._settings
        return _Backoff(self._runtime, settings.lock_check_min_wait_ms, settings.lock_check_max_wait_ms, _CHECK_FACTOR)

    def _new_position(self) -> QueuePosition:
        return QueuePosition(self._runtime, self._settings.lock_check_min_wait_ms / 1000)

    def _request(self) -> LockEntry:
        """Call `lock` until there is an entry."""
        settings = self._settings
        waits = _Backoff(
            self._runtime, settings.lock_creation_min_wait_ms, settings.lock_creation_max_wait_ms, _CREATION_FACTOR
        )
        deadline = min(self._deadline, self._runtime.now() + settings.lock_creation_timeout_ms / 1000)
        while True:
            answer = self._call_lock()
            if isinstance(answer, LockEntry):
                return answer
            if self.may_have_lost_entries and (found := self._find_own()) is not None:
                return found
            remaining = deadline - self._runtime.now()
            if remaining <= 0 or self._closed.is_set():
                raise answer
            waits.sleep(remaining)

    def _call_lock(self) -> LockEntry | MetastoreError:
        """One lock call: our new entry, or why we know of none."""
        self._sent = self._runtime.read_clocks()
        self._unanswered = self._unanswered or self._sent
        began = self._runtime.now()
        problem: MetastoreError
        try:
            entry = self._entries.enqueue(self._name, self._agent_info)
        except ServerFault as fault:
            # The server enqueues the entry and then checks it: the check alone may have failed.
            self.may_have_lost_entries |= fault.fault is not Fault.UNKNOWN_METHOD
            problem = self._count_fault(fault)
        except NoAnswer as error:
            self.may_have_lost_entries = True
            problem = MetastoreUnavailable(error.message)
        except MetastoreUnavailable as error:
            problem = error
        except BaseException:
            # Interrupted: the call may have been sent.
            self.may_have_lost_entries = True
            raise
        else:
            self._faults = 0
            if not self.may_have_lost_entries:
                self._unanswered = None
            return entry
        _warn_if_slow(self._name, self._runtime.now() - began)
        return problem

    def _count_fault(self, fault: ServerFault) -> LockUnavailable:
        """The error that a fault of the lock API amounts to; raised after too many in a row."""
        self._faults += 1
        problem = LockUnavailable(f"The metastore's lock API fails: {fault.detail}")
        if self._faults >= _FAULTS_MAX or fault.fault is Fault.UNKNOWN_METHOD:
            raise problem from fault
        return problem

    def _find_own(self) -> LockEntry | None:
        """Our own entry, by its agentInfo. It counts as waiting until the next check, which also renews it."""
        try:
            own = self._entries.own(self._name, self._agent_info)
        except MetastoreError:
            return None
        if not own:
            return None
        # The acquired one, if any; else the first in the queue. Those behind it are removed after release.
        best = min(own, key=lambda entry: (not entry.acquired, entry.lock_id))
        if self._unanswered is not None and (self._entry is None or best.lock_id != self._entry.lock_id):
            # As far as we know it was not renewed since.
            self._sent = self._unanswered
        return LockEntry(best.lock_id, False, best.agent_info, best.user, best.host)

    def _wait(self, entry: LockEntry) -> LockEntry | None:
        """Sleep, then poll the queue while others are before us, else check our entry. None when the entry is gone."""
        remaining = self._deadline - self._runtime.now()
        if self._closed.is_set():
            raise LockNotAcquired(f"Gave up waiting for the lock on {self._name}: the catalog is closed")
        if remaining <= 0:
            raise LockNotAcquired(f"Timed out waiting for the lock on {self._name}")
        with self._poll_rate.waiting():
            self._sleep(remaining)
            if self.may_have_lost_entries:
                entry = self._find_own() or entry
            if self._position.ahead and self._seconds_unrenewed() < self._check_seconds:
                self._poll_queue(entry)
                if self._position.ahead:
                    return entry
            return self._check(entry)

    def _sleep(self, remaining: float) -> None:
        settings = self._settings
        # A waiting entry must be renewed within its lease, however many wait.
        between = min(self._poll_rate.seconds_between_polls, self._heartbeat_seconds * _HEARTBEATS_BETWEEN_POLLS)
        if not self._position.ahead:
            self._checks.sleep(min(remaining, max(self._check_seconds, between)), between)
            return
        shortest = settings.lock_check_min_wait_ms / 1000 / _POLLS_PER_CHECK
        longest = min(settings.lock_check_max_wait_ms / 1000, self._check_seconds)
        wait = min(max(self._position.seconds_to_next_poll(), shortest), longest)
        self._runtime.sleep(min(max(wait, between), remaining))

    def _check(self, entry: LockEntry) -> LockEntry | None:
        """Check our entry, which renews it. None when it is gone."""
        sent = self._runtime.read_clocks()
        try:
            entry = self._entries.check(entry)
            silent = self._seconds_unrenewed()
            if silent > self._lease_seconds:
                raise LockLost(f"{entry} was not renewed for {silent:.0f} s while it waited")
            self._sent = sent
            self._faults = 0
        except ServerFault as fault:
            if fault.fault is Fault.NO_SUCH_LOCK:
                logger.info("%s was removed while it waited; requesting the lock again", entry)
                return None
            self._count_fault(fault)
        except MetastoreUnavailable as error:
            if self._runtime.now() >= self._deadline:
                raise
            logger.debug("Checking %s failed and is repeated: %s", entry, error.message)
        if not entry.acquired:
            if self._watch.remove_dead_if_due(entry):
                self._checks = self._new_checks()
            if self._position.ahead is None:
                self._poll_queue(entry)
        return entry

    def _seconds_unrenewed(self) -> float:
        return self._runtime.read_clocks().max_seconds_since(self._sent)

    def _poll_queue(self, entry: LockEntry) -> None:
        """See how many are before us. Where the server does not show it, we only check our own entry, as Java does."""
        sent = self._runtime.read_clocks()
        try:
            found = self._entries.of(self._name)
        except MetastoreError as error:
            logger.debug("The locks of %s could not be listed: %s", self._name, error.message)
            self._position.forget()
            self._waiting.saw(None)
            return
        ahead = [other for other in found if other.lock_id < entry.lock_id]
        self._position.update(len(ahead))
        holder = next((other for other in ahead if other.acquired), None)
        self._waiting.saw(None if holder is None else holder.record(self._name))
        if not self._has_polled:
            self._watch.observe(ahead, sent)
            self._has_polled = True
        self.behind_foreign_writer |= any(other.is_foreign_writer for other in ahead)


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


def _warn_if_slow(name: TableName, unanswered_seconds: float) -> None:
    """Log the likely cause of a lock call that was not answered for so long.

    A lock call takes a connection to the metastore's database, and on Derby a lock inside the metastore too. With more
    calls than connections, those that have a connection wait for that lock, and its holder waits for a connection,
    until it gives up after half a minute and the next one takes its place. Writers cannot end that: with waits of up to
    a minute before each retry, 24 writers fared as badly as without."""
    if unanswered_seconds >= _SLOW_SECONDS:
        logger.warning(
            "The metastore did not answer a call for the lock of %s for %.0f s. It may have fewer connections to its "
            "database than lock calls, which then wait for each other: set datanucleus.connectionPool.maxPoolSize (10 "
            "by default) on the metastore to more than the connections of all writers together",
            name,
            unanswered_seconds,
        )
