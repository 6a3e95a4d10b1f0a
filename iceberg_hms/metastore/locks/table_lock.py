"""The metastore's own table lock: the TableLock port over Thrift.

EXCLUSIVE on TABLE level, outside transactions, as Java's MetastoreLock takes it, so that all writers of a table queue
together. Unlike Java:

    a waiter that gives up          removes its entry (lock_attempt.py)
    an entry whose reply was lost   is searched for until it can no longer appear (lost_lock_cleanup.py)
    a holder                        sends heartbeats at a tenth of its lease, at least every five seconds (heartbeat.py)
    a waiter                        removes entries of dead writers (dead_lock_reaper.py), and sleeps while others are
                                    before it (queue_position.py)
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import HeldLock, LockUse, Runtime, TableName
from iceberg_hms.errors import LockLost, LockNotAcquired, MetastoreError, MetastoreUnavailable
from iceberg_hms.lock_waits import LockWait, LockWaits
from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.storable import require_lockable
from iceberg_hms.metastore.connection.versions import has_wide_columns
from iceberg_hms.metastore.locks.dead_lock_reaper import DeadLockReaper
from iceberg_hms.metastore.locks.heartbeat import HmsHeldLock
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.metastore.locks.lease import ServerLeases
from iceberg_hms.metastore.locks.lock_attempt import HmsLockAttempt
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.lost_lock_cleanup import POLL_INTERVAL_SECONDS, LostLockCleanup
from iceberg_hms.metastore.locks.queue_position import PollRate

logger = logging.getLogger(__name__)

#: How long `close` waits for those that wait for a lock, or hold one.
CLOSE_SECONDS: Final = 10.0
_CLOSE_CHECK_SECONDS: Final = 0.01


class HmsTableLock:
    """coordinator.ports.TableLock on a metastore.

    new_agent_info: the agentInfo of a new entry, from its request, its protection and the lease that it announces.
    cleanup_poll_seconds: how often to search for entries whose reply was lost.
    poll_rate: counts the waiters of the process. waits: hears who holds the locks that they wait for.
    """

    def __init__(
        self,
        pool: ClientPool,
        runtime: Runtime,
        settings: Settings,
        *,
        new_agent_info: Callable[[str, SwapProtection, int | None], str] = agent_info,
        cleanup_poll_seconds: float = POLL_INTERVAL_SECONDS,
        poll_rate: PollRate | None = None,
        waits: LockWaits | None = None,
    ) -> None:
        self._pool = pool
        self._runtime = runtime
        self._settings = settings
        self._leases = ServerLeases(runtime, settings.lock_lease_default_ms / 1000)
        self._entries = LockEntries(pool, settings.user, self._leases)
        self._cleanup = LostLockCleanup(self._entries, runtime, poll_seconds=cleanup_poll_seconds)
        self._reaper = DeadLockReaper(self._entries, runtime, settings.lock_stale_check_interval_ms / 1000)
        self._new_agent_info = new_agent_info
        self._poll_rate = poll_rate or PollRate(runtime, settings.lock_max_checks_per_second)
        self._waits = waits or LockWaits(runtime)
        self._closed = runtime.event()
        self._mutex = self._runtime.mutex()
        self._in_use = 0

    def acquire(self, name: TableName, *, wait_seconds: float, request: str, use: LockUse = LockUse.BLIND) -> HeldLock:
        """As the port says. Raises InvalidInput for a malformed request, and for a table with a name that the metastore
        cannot lock."""
        # The server would say that its lock API is broken.
        require_lockable(name, lambda: self._pool.run(has_wide_columns, idempotent=True))
        held = None
        self._count(1)
        wait = self._waits.begin(name)
        deadline = self._runtime.now() + wait_seconds
        may_be_short = use == LockUse.CAS
        try:
            while held is None:
                try:
                    held = self._acquire(name, deadline, request, wait, use=use, may_be_short=may_be_short)
                except LockLost as error:
                    # The metastore may be too slow for a short lease.
                    may_be_short = False
                    logger.warning("Requesting the lock of %s again: %s", name, error.message)
        except LockNotAcquired as error:
            if self._closed.is_set():
                raise
            waited = f"Timed out after {round(wait_seconds, 1):g} s waiting for the lock on {name}"
            held_by = self._waits.held_by(name)
            raise LockNotAcquired(f"{waited} ({held_by})" if held_by else waited) from error
        finally:
            if held is None:
                self._count(-1)
        wait.ended()
        return held

    def foreign_writer_waits(self, name: TableName) -> bool:
        """Whether a foreign writer waits for a table's lock. False where the metastore does not tell."""
        try:
            entries = self._entries.of(name)
        except MetastoreError as error:
            logger.debug("The waiters for the lock of %s could not be listed: %s", name, error.message)
            return False
        return any(not entry.acquired and entry.is_foreign_writer for entry in entries)

    def close(self) -> None:
        """Let waiters give up and withdraw their entries, wait for holders to release their locks (the caller closes
        the connections next), and search once more for lost entries. Waits no longer than CLOSE_SECONDS."""
        self._closed.set()
        deadline = self._runtime.now() + CLOSE_SECONDS
        while self._in_use > 0 and self._runtime.now() < deadline:
            self._runtime.sleep(_CLOSE_CHECK_SECONDS)
        self._cleanup.close()

    def _acquire(
        self, name: TableName, deadline: float, request: str, wait: LockWait, *, use: LockUse, may_be_short: bool
    ) -> HmsHeldLock:
        """Raises as `HmsLockAttempt.run`. may_be_short: the lease may be short."""
        if self._closed.is_set():
            raise LockNotAcquired(f"The lock of {name} was not requested: the catalog is closed")
        self._ask_for_lease()
        known = self._pool.cas_support.protection(name.namespace)
        may_overwrite = known is SwapProtection.BLIND
        if may_overwrite:
            self._wait_for_removed_locks(name, deadline)
        protection = known if use else SwapProtection.BLIND
        announced = self._short_lease() if may_be_short and protection is not SwapProtection.BLIND else None
        info = self._new_agent_info(request, protection, announced)
        attempt = HmsLockAttempt(
            self._entries,
            self._runtime,
            self._settings,
            name,
            info,
            deadline=deadline,
            lease_seconds=announced or self._leases.shortest,
            watch=self._reaper.watch(name, self._leases.longest, may_overwrite=may_overwrite),
            wait=wait,
            poll_rate=self._poll_rate,
            closed=self._closed,
        )

        def clean_up(removed: bool) -> None:
            if attempt.may_have_lost_entries or not removed:
                self._cleanup.watch(name, info, self._leases.longest)

        def on_release(removed: bool) -> None:
            try:
                clean_up(removed)
            finally:
                self._count(-1)

        def on_let_expire(left: int) -> None:
            try:
                if attempt.may_have_lost_entries:
                    self._cleanup.watch(name, info, self._leases.longest, spare=left)
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
                require_cas=protection is not SwapProtection.BLIND,
                lease_seconds=min(announced or math.inf, self._leases.shortest),
                server_lease=lambda: self._leases.shortest,
                interval_seconds=self._settings.lock_heartbeat_interval_ms / 1000,
                on_release=on_release,
                on_let_expire=on_let_expire,
            )
            held.start()
        except BaseException:
            clean_up(attempt.withdraw())
            raise
        return held

    def _wait_for_removed_locks(self, name: TableName, deadline: float) -> None:
        """Before a swap that may overwrite: let the server's lease pass for the locks that this process removed while
        it did not know that. Raises LockNotAcquired."""
        while (seconds := self._reaper.seconds_until_expired(name, self._leases.longest)) > 0:
            remaining = deadline - self._runtime.now()
            if self._closed.is_set():
                raise LockNotAcquired(f"Gave up waiting for the lock on {name}: the catalog is closed")
            if remaining <= 0:
                raise LockNotAcquired(f"Timed out waiting for the lease of a removed lock on {name}")
            self._runtime.sleep(min(seconds, remaining, self._settings.lock_check_max_wait_ms / 1000))

    def _count(self, change: int) -> None:
        with self._mutex:
            self._in_use += change

    def _short_lease(self) -> int | None:
        """The seconds to announce; None where the server's own lease is no longer, or the setting turns it off."""
        seconds = math.ceil(self._settings.lock_short_lease_ms / 1000)
        return seconds if 0 < seconds < self._leases.shortest else None

    def _ask_for_lease(self) -> None:
        """Ask a server, if none was asked. While none answers, the default is good enough for a waiter: that of the
        connection is asked before the lock is."""
        if not self._leases.is_known:
            with contextlib.suppress(MetastoreUnavailable):
                self._pool.run(self._leases.ask, idempotent=True)
