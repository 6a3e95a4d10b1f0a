"""Keeps a table's lock for a client that lost against a writer outside, until its commit is back.

Retry priority holds back what is behind this server. A writer that is not (another iceberg-hms process, Java's
HiveCatalog) would move the table again while the refused client reads it and builds its commit anew, so a stock client
beside a fast one lands next to nothing: of 26 inserts of Java's RESTCatalog 0 or 1 did. Therefore:

1. If a writer outside beat one of our clients lately, the worker takes the lock before it answers another loser. Until
   that may be done the answer is held.
2. It keeps the lock until that commit is back, for as long as others behind this server would wait for it, and for at
   most the same share of all time. The commit's group has the lock then.
3. Only a lock with a short lease is kept, so that writers outside wait no longer than that for a process that was
   killed.
"""

from __future__ import annotations

import logging
import math
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.ports import CommitPorts, HeldLock, LockUse, TableName
from iceberg_hms.coordinator.scheduling.time_budget import TimeBudget
from iceberg_hms.errors import IcebergHmsError

logger = logging.getLogger(__name__)

#: After a writer outside beat a client, the lock is taken for the next losers for this long.
_BEATEN_LATELY_SECONDS: Final = 30.0
#: After a lock that may not be kept, none is taken for this long: the metastore does not compare atomically, say.
_UNFIT_SECONDS: Final = 300.0


class KeptLock:
    """The lock that a table's worker keeps between two groups, if it keeps one. A table has one worker at a time, but
    an ending one may overlap with the next, so the lock itself is guarded. Times are by `Runtime.now()`.

    Settings: those of retry priority; `lock.short-lease-ms` says which leases are short (0: no lock is kept).
    """

    def __init__(self, ports: CommitPorts, settings: Settings, name: TableName) -> None:
        self._ports = ports
        self._name = name
        self._longest = settings.retry_priority_max_wait_ms / 1000
        self._short_lease = math.ceil(settings.lock_short_lease_ms / 1000)
        self._budget = TimeBudget(settings.retry_priority_max_share_percent)
        self._mutex = ports.runtime.mutex()
        self._lock: HeldLock | None = None
        self._kept_at = self._ended_at = 0.0
        self._beaten_at = self._unfit_until = -math.inf

    def note_beaten(self) -> bool:
        """A writer outside beat a client. True: that happened lately, too, so its answer has to wait for the lock."""
        now = self._ports.runtime.now()
        lately, self._beaten_at = self.is_wanted(now), now
        return lately

    def is_wanted(self, now: float) -> bool:
        """Whether losers need the lock."""
        is_on = self._short_lease > 0 and self._longest > 0 and now >= self._unfit_until
        return is_on and now - self._beaten_at < _BEATEN_LATELY_SECONDS

    def ready_in(self, now: float) -> float:
        """How long losers have to wait before the lock may be taken for one; 0: it may, or they do not need it."""
        return self._budget.seconds_until_allowed(now) if self.is_wanted(now) else 0.0

    def acquire(self) -> None:
        """Take the lock, and keep it if its lease is short. Raises nothing: without the lock the next client that comes
        back may lose again."""
        runtime = self._ports.runtime
        try:
            lock = self._ports.lock.acquire(
                self._name, wait_seconds=self._longest, request=runtime.uuid(), use=LockUse.CAS
            )
        except IcebergHmsError as error:
            logger.info("The lock of %s is not kept for a commit that is to come back: %s", self._name, error)
            return
        if lock.exclusive and lock.require_cas and lock.lease_seconds <= self._short_lease:
            with self._mutex:
                self._lock, self._kept_at = lock, runtime.now()
        else:
            lock.release()
            self._unfit_until = runtime.now() + _UNFIT_SECONDS

    def take(self) -> HeldLock | None:
        """The kept lock, if there is one: it is the caller's then, and may be lost by now."""
        lock = self.detach()
        if lock is not None:
            self._publish()
        return lock

    def detach(self) -> HeldLock | None:
        """As `take`, but tells no listener, so it may be called with a mutex; `give_back` must follow."""
        with self._mutex:
            lock, self._lock = self._lock, None
            if lock is not None:
                self._ended_at = self._ports.runtime.now()
                self._budget.spend(self._kept_at, self._ended_at)
            return lock

    def give_back(self, lock: HeldLock | None) -> None:
        """Release what `detach` returned. Raises nothing."""
        if lock is not None:
            lock.release()
            self._publish()

    def remaining_seconds(self, now: float) -> float:
        """For how long the lock is kept yet; 0: not any longer, or none is kept."""
        return max(0.0, self._kept_at + self._longest - now) if self._lock is not None else 0.0

    def _publish(self) -> None:
        with log_and_continue(f"telling listeners of {self._name}", REPORT):
            seconds = self._ended_at - self._kept_at
            self._ports.events.publish({"event": "lock-kept", "table": self._name, "seconds": seconds})
