"""The metastore's own table lock: the TableLock port over Thrift.

EXCLUSIVE on TABLE level, outside transactions, as Java's MetastoreLock takes it, so that all writers of a table queue
together. What Java does not: whoever gives up removes its entry, entries of lost replies are looked for until they can
no longer appear, heartbeats come at a tenth of the server's lease, and whoever waits removes what the dead left behind
and sleeps while others come before it (queue_position.py).
"""

from __future__ import annotations

import logging

from iceberg_hms import forks
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Event, HeldLock, Runtime, TableName
from iceberg_hms.errors import LockNotAcquired, LockUnavailable, MetastoreError, MetastoreUnavailable
from iceberg_hms.metastore.entries import Entry, LockEntries
from iceberg_hms.metastore.faults import Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.heartbeat import BEATS_PER_LEASE, HmsHeldLock
from iceberg_hms.metastore.identity import agent_info, parse
from iceberg_hms.metastore.lease import lease_or_default
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.queue_position import QueuePosition
from iceberg_hms.metastore.stale import StaleEntries, Watch
from iceberg_hms.metastore.strays import StraySweeper

logger = logging.getLogger(__name__)

#: Java's factors: between attempts to ask for the lock, and between looks at one that is waited for.
_CREATION_FACTOR = 2.0
_CHECK_FACTOR = 1.5
#: A look at the queue costs the server less than a look at our entry, so it may come this much sooner.
_LOOKS_PER_CHECK = 4
#: Errors of the lock API in a row after which it counts as broken; a deadlock in its database is only one.
_FAULTS_MAX = 3
#: How long `close` waits for those that wait for a lock, or hold one.
CLOSE_SECONDS = 10.0
_CLOSE_CHECK_SECONDS = 0.01


class HmsTableLock:
    """coordinator.ports.TableLock on a metastore."""

    def __init__(self, pool: ClientPool, runtime: Runtime, settings: Settings) -> None:
        self._pool = pool
        self._runtime = runtime
        self._settings = settings
        self._entries = LockEntries(pool, settings.user)
        self._strays = StraySweeper(self._entries, runtime)
        self._stale = StaleEntries(pool, self._entries, runtime, settings.lock_stale_check_interval_ms / 1000)
        self._lease: float | None = None
        self._closed = runtime.event()
        self.begin_in_forked_child()
        forks.tell(self)

    def begin_in_forked_child(self) -> None:
        """What the parent holds or waits for is the parent's."""
        self._mutex = self._runtime.mutex()
        self._in_use = 0

    def acquire(self, name: TableName, *, wait_seconds: float, request: str) -> HeldLock:
        """As the port says. Raises InvalidInput for a malformed request."""
        held = None
        self._count(1)
        try:
            held = self._acquire(name, wait_seconds, request)
        finally:
            if held is None:
                self._count(-1)
        return held

    def _acquire(self, name: TableName, wait_seconds: float, request: str) -> HeldLock:
        if self._closed.is_set():
            raise LockNotAcquired(f"The lock of {name} is not asked for: the catalog is closed")
        deadline = self._runtime.now() + wait_seconds
        lease = self._lease_seconds()
        info = agent_info(request, self._pool.verdicts.word)
        watch = self._stale.watch(name, lease)
        attempt = _Attempt(
            self._entries, self._runtime, self._settings, name, info, deadline, lease, watch, self._closed
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
            entry, sent_at = attempt.run()
            held = HmsHeldLock(
                self._entries,
                self._runtime,
                entry,
                sent_at=sent_at,
                behind_foreign=attempt.behind_foreign,
                lease_seconds=lease,
                interval_seconds=self._settings.lock_heartbeat_interval_ms / 1000,
                on_release=on_release,
            )
            held.start()
        except BaseException:
            look_for_strays(attempt.withdraw())
            raise
        return held

    def _count(self, change: int) -> None:
        with self._mutex:
            self._in_use += change

    def foreign_waits(self, name: TableName) -> bool:
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

    def _lease_seconds(self) -> float:
        if self._lease is None:
            try:
                self._lease = lease_or_default(self._pool, self._settings)
            except MetastoreUnavailable:
                return self._settings.lock_lease_default_ms / 1000
        return self._lease


def _is_foreign(entry: Entry) -> bool:
    """Whether an entry is a writer's that is not ours."""
    return not entry.reads and parse(entry.agent_info) is None


class _Backoff:
    """Waits that grow by a factor from the first to the longest, each shortened by up to half at random."""

    def __init__(self, runtime: Runtime, first_ms: int, longest_ms: int, factor: float) -> None:
        self._runtime = runtime
        self._next = first_ms / 1000
        self._longest = longest_ms / 1000
        self._factor = factor

    def sleep(self, at_most: float) -> None:
        wait = self._next * (1 - self._runtime.jitter() / 2)
        self._next = min(self._next * self._factor, self._longest)
        self._runtime.sleep(max(0.0, min(wait, at_most)))


class _Attempt:
    """One try to get the lock, from asking for it to holding it."""

    def __init__(
        self,
        entries: LockEntries,
        runtime: Runtime,
        settings: Settings,
        name: TableName,
        agent_info: str,
        deadline: float,
        lease_seconds: float,
        watch: Watch,
        closed: Event,
    ) -> None:
        self.agent_info = agent_info
        #: A lock call was sent and not answered well: an entry may be there, or appear, that we do not know of.
        self.may_have_strays = False
        #: A writer that is not ours was before us.
        self.behind_foreign = False
        self._entries = entries
        self._runtime = runtime
        self._settings = settings
        self._name = name
        self._deadline = deadline
        self._watch = watch
        self._closed = closed
        self._entry: Entry | None = None
        self._sent_at = 0.0
        self._faults = 0
        self._checks = self._new_checks()
        self._position = self._new_position()
        # A waiting entry is renewed by checks alone, and dead writers are looked for after a check.
        self._check_seconds = lease_seconds / BEATS_PER_LEASE
        if settings.lock_stale_check_interval_ms:
            self._check_seconds = min(self._check_seconds, settings.lock_stale_check_interval_ms / 1000)

    def run(self) -> tuple[Entry, float]:
        """The acquired entry, and when the call that got it was sent."""
        while True:
            if self._entry is None:
                self._entry = self._ask()
                self._checks = self._new_checks()
                self._position = self._new_position()
                if not self._entry.acquired:
                    self._look(self._entry)
            if self._entry.acquired:
                return self._entry, self._sent_at
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

    def _new_checks(self) -> _Backoff:
        settings = self._settings
        return _Backoff(self._runtime, settings.lock_check_min_wait_ms, settings.lock_check_max_wait_ms, _CHECK_FACTOR)

    def _new_position(self) -> QueuePosition:
        return QueuePosition(self._runtime, self._settings.lock_check_min_wait_ms / 1000)

    def _ask(self) -> Entry:
        """Ask for the lock until there is an entry."""
        settings = self._settings
        waits = _Backoff(
            self._runtime, settings.lock_creation_min_wait_ms, settings.lock_creation_max_wait_ms, _CREATION_FACTOR
        )
        deadline = min(self._deadline, self._runtime.now() + settings.lock_creation_timeout_ms / 1000)
        while True:
            self._sent_at = self._runtime.now()
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
                return entry
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

    def _find(self) -> Entry | None:
        """Our own entry, by agentInfo. Whether it is acquired is left to the next check, which also renews it."""
        try:
            own = self._entries.own(self._name, self.agent_info)
        except MetastoreError:
            return None
        if not own:
            return None
        # The acquired one, if any; else the one that waits in front. What is behind it is removed after release.
        best = min(own, key=lambda entry: (not entry.acquired, entry.lock_id))
        return Entry(best.lock_id, False, best.agent_info, best.user, best.host)

    def _wait(self, entry: Entry) -> Entry | None:
        """Sleep, and look once: at the queue while others are before us, else at our entry. None when that is gone."""
        remaining = self._deadline - self._runtime.now()
        if self._closed.is_set():
            raise LockNotAcquired(f"The lock of {self._name} is no longer waited for: the catalog is closed")
        if remaining <= 0:
            raise LockNotAcquired(f"The lock of {self._name} was not to be had in time{self._holder()}")
        if self._position.ahead:
            self._sleep_until_next_look(remaining)
        else:
            self._checks.sleep(remaining)
        if self.may_have_strays:
            entry = self._find() or entry
        if self._position.ahead and self._runtime.now() - self._sent_at < self._check_seconds:
            self._look(entry)
            if self._position.ahead:
                return entry
        return self._check(entry)

    def _check(self, entry: Entry) -> Entry | None:
        """Ask for our entry, which renews it. None when it is gone."""
        sent_at = self._runtime.now()
        try:
            entry = self._entries.check(entry)
            self._sent_at = sent_at
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

    def _sleep_until_next_look(self, at_most: float) -> None:
        settings = self._settings
        shortest = settings.lock_check_min_wait_ms / 1000 / _LOOKS_PER_CHECK
        longest = min(settings.lock_check_max_wait_ms / 1000, self._check_seconds)
        self._runtime.sleep(min(max(self._position.seconds(), shortest), longest, at_most))

    def _look(self, entry: Entry) -> None:
        """See how many are before us. Where that cannot be seen our entry alone is looked at, as Java does."""
        try:
            found = self._entries.of(self._name)
        except MetastoreError as error:
            logger.debug("The locks of %s could not be listed: %s", self._name, error.message)
            self._position.lost_sight()
        else:
            ahead = [other for other in found if other.lock_id < entry.lock_id]
            self._position.saw(len(ahead))
            self.behind_foreign |= any(map(_is_foreign, ahead))

    def _holder(self) -> str:
        try:
            holders = [entry for entry in self._entries.of(self._name) if entry.acquired]
        except MetastoreError:
            return ""
        return f"; it is held by {holders[0]}" if holders else ""
