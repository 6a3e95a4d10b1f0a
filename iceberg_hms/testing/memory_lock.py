"""The TableLock port in memory: one fair queue per table, shared by all locks on one `LockQueues`."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from contextlib import AbstractContextManager
from typing import Any

from iceberg_hms.coordinator.lease_check import LeaseCheck, renew_if_half_expired
from iceberg_hms.coordinator.ports import HeldLock, LockUse, Pointer, Runtime, TableName
from iceberg_hms.errors import InvalidInput, LockLost, LockNotAcquired
from iceberg_hms.runtime import ThreadRuntime

_REQUEST = re.compile(r"[0-9a-z-]{1,36}")
_POLL_SECONDS = 0.002


class LockQueues:
    """The lock table of a metastore: the entries of each table in the order of their arrival."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.mutex: AbstractContextManager[Any] = runtime.mutex()
        self.entries: defaultdict[TableName, list[str]] = defaultdict(list)
        self._last = 0

    def enqueue(self, name: TableName, request: str) -> str:
        with self.mutex:
            self._last += 1
            entry = f"{self._last}/{request}"
            self.entries[name].append(entry)
            return entry

    def is_first(self, name: TableName, entry: str) -> bool:
        with self.mutex:
            queue = self.entries[name]
            return bool(queue) and queue[0] == entry

    def has(self, name: TableName, entry: str) -> bool:
        with self.mutex:
            return entry in self.entries[name]

    def remove(self, name: TableName, entry: str) -> None:
        with self.mutex:
            if entry in self.entries[name]:
                self.entries[name].remove(entry)

    def reap(self, name: TableName) -> None:
        """Remove the holder's lock, as a metastore does after a lease."""
        with self.mutex:
            if self.entries[name]:
                self.entries[name].pop(0)


class MemoryTableLock:
    """coordinator.ports.TableLock. Locks that share a LockQueues exclude one another.

    errors: the next calls of acquire raise them, one each, before they do anything. short_lease_seconds: the lease of a
    lock for compare-and-swap, if it is shorter.
    """

    def __init__(
        self, table: LockQueues | None = None, *, runtime: Runtime | None = None, lease_seconds: float = 300.0
    ) -> None:
        self.table = table or LockQueues(runtime or ThreadRuntime())
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
        runtime = self.table.runtime
        deadline = runtime.now() + wait_seconds
        entry = self.table.enqueue(name, request)
        while not self.table.is_first(name, entry):
            if runtime.now() >= deadline:
                self.table.remove(name, entry)
                raise LockNotAcquired(f"Timed out after {wait_seconds:g} s waiting for the lock on {name}")
            runtime.sleep(_POLL_SECONDS)
        self.acquired += 1
        lease = min(self.short_lease_seconds, self._lease_seconds) if use == LockUse.CAS else self._lease_seconds
        held = MemoryHeldLock(self.table, name, entry, lease)
        held.require_cas = lease < self._lease_seconds
        return held


class MemoryHeldLock:
    """coordinator.ports.HeldLock. Set `heartbeats` to False to let its lease expire, as in a paused process."""

    row: Pointer | None = None
    exclusive = True
    require_cas = False
    behind_foreign_writer = False

    def __init__(self, table: LockQueues, name: TableName, entry: str, lease_seconds: float) -> None:
        self.heartbeats = True
        self.left = False
        self._table = table
        self._name = name
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
        self._check_exists()
        return self._cover.seconds_since_renewal()

    def ensure_held(self, *, blind: bool = False) -> None:  # noqa: ARG002 - the port's
        """As the port says."""
        renew_if_half_expired(self)

    def renew(self) -> None:
        """As the port says."""
        self.seconds_since_renewal()
        self._cover.record_renewal(self._table.runtime.read_clocks())

    def _check_exists(self) -> None:
        if not self._table.has(self._name, self._entry):
            raise LockLost(f"{self._entry} no longer exists")

    def _new_cover(self) -> LeaseCheck:
        runtime = self._table.runtime
        return LeaseCheck(runtime, self._lease_seconds, self._entry, runtime.read_clocks())

    def release(self) -> None:
        """As the port says."""
        if not self.left:
            self._table.remove(self._name, self._entry)

    def let_expire(self) -> None:
        """As the port says; only `LockQueues.reap` removes it."""
        self.left = True
        self.heartbeats = False
