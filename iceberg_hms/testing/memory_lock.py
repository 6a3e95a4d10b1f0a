"""The TableLock port in memory, on the lock queues of a metastore in memory."""

from __future__ import annotations

import re
from collections import deque

from iceberg_hms.coordinator.lease_check import LeaseCheck, renew_if_half_expired
from iceberg_hms.coordinator.ports import HeldLock, LockUse, Pointer, Runtime, TableName
from iceberg_hms.errors import InvalidInput, LockLost, LockNotAcquired
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.memory_metastore import LockQueues

_REQUEST = re.compile(r"[0-9a-z-]{1,36}")
_POLL_SECONDS = 0.002


class MemoryTableLock:
    """coordinator.ports.TableLock. Locks that share `queues` exclude one another.

    errors: the next calls of acquire raise them, one each, before they do anything. short_lease_seconds: the lease of a
    lock for compare-and-swap, if it is shorter.
    """

    def __init__(
        self, queues: LockQueues | None = None, *, runtime: Runtime | None = None, lease_seconds: float = 300.0
    ) -> None:
        self.runtime = runtime or ThreadRuntime()
        self.queues = LockQueues(self.runtime.now) if queues is None else queues
        self.errors: deque[Exception] = deque()
        self.acquired = 0
        self.short_lease_seconds = lease_seconds
        self._lease_seconds = lease_seconds

    def acquire(
        self,
        name: TableName,
        *,
        wait_seconds: float,
        request: str,
        use: LockUse = LockUse.BLIND,
    ) -> HeldLock:
        """As the port says."""
        if not _REQUEST.fullmatch(request):
            raise InvalidInput(f"not a request id: {request!r}")
        if self.errors:
            raise self.errors.popleft()
        deadline = self.runtime.now() + wait_seconds
        entry = self.queues.enqueue(name, request).id
        while not self._is_first(entry):
            if self.runtime.now() >= deadline:
                self.queues.remove(entry)
                raise LockNotAcquired(f"Timed out after {wait_seconds:g} s waiting for the lock on {name}")
            self.runtime.sleep(_POLL_SECONDS)
        self.acquired += 1
        lease = min(self.short_lease_seconds, self._lease_seconds) if use == LockUse.CAS else self._lease_seconds
        held = MemoryHeldLock(self.queues, self.runtime, entry, lease)
        held.require_cas = lease < self._lease_seconds
        return held

    def _is_first(self, entry: int) -> bool:
        try:
            return self.queues.check(entry)
        except LockLost:
            return False


class MemoryHeldLock:
    """coordinator.ports.HeldLock. Set `heartbeats` to False to let its lease expire, as in a paused process."""

    row: Pointer | None = None
    exclusive = True
    require_cas = False
    behind_foreign_writer = False

    def __init__(self, queues: LockQueues, runtime: Runtime, entry: int, lease_seconds: float) -> None:
        self.heartbeats = True
        self.left = False
        self._queues = queues
        self._runtime = runtime
        self._entry = entry
        self._lease_seconds = lease_seconds
        self._cover = self._new_cover()

    @property
    def lease_seconds(self) -> float:
        """As the port says."""
        return self._lease_seconds

    def seconds_since_renewal(self) -> float:
        """As the port says."""
        if self.heartbeats:
            self._cover = self._new_cover()
        self._queues.renew(self._entry)
        return self._cover.seconds_since_renewal()

    def ensure_held(self, *, blind: bool = False) -> None:  # noqa: ARG002 - the port's
        """As the port says."""
        renew_if_half_expired(self)

    def renew(self) -> None:
        """As the port says."""
        self.seconds_since_renewal()
        self._cover.record_renewal(self._runtime.read_clocks())

    def _new_cover(self) -> LeaseCheck:
        return LeaseCheck(self._runtime, self._lease_seconds, f"lock {self._entry}", self._runtime.read_clocks())

    def release(self) -> None:
        """As the port says."""
        if not self.left:
            self._queues.remove(self._entry)

    def let_expire(self) -> None:
        """As the port says; only `LockQueues.reap` removes it."""
        self.left = True
        self.heartbeats = False
