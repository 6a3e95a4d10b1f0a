"""The TableLock port in memory: a fair queue a table, shared by all locks on one `LockTable`."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from contextlib import AbstractContextManager
from typing import Any

from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.coordinator.coverage import keep_covered
from iceberg_hms.coordinator.ports import HeldLock, Pointer, Runtime, TableName
from iceberg_hms.errors import InvalidInput, LockLost, LockNotAcquired

_REQUEST = re.compile(r"[0-9a-z-]{1,36}")
_POLL_SECONDS = 0.002
_BEATS_PER_LEASE = 10


class LockTable:
    """What the metastore keeps: the entries of each table, in the order of their arrival."""

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
        """Take the lock away from whoever holds it, as a metastore does when a lease has passed."""
        with self.mutex:
            if self.entries[name]:
                self.entries[name].pop(0)


class MemoryTableLock:
    """coordinator.ports.TableLock. Locks that share a LockTable exclude one another.

    errors: raised one by one by the next calls of acquire, before anything is done.
    """

    def __init__(
        self, table: LockTable | None = None, *, runtime: Runtime | None = None, lease_seconds: float = 300.0
    ) -> None:
        self.table = table or LockTable(runtime or ThreadRuntime())
        self.errors: deque[Exception] = deque()
        self.acquired = 0
        self._lease_seconds = lease_seconds

    def acquire(self, name: TableName, *, wait_seconds: float, request: str) -> HeldLock:
        """As the port says."""
        if not _REQUEST.fullmatch(request):
            raise InvalidInput(f"not a request: {request!r}")
        if self.errors:
            raise self.errors.popleft()
        runtime = self.table.runtime
        deadline = runtime.now() + wait_seconds
        entry = self.table.enqueue(name, request)
        while not self.table.is_first(name, entry):
            if runtime.now() >= deadline:
                self.table.remove(name, entry)
                raise LockNotAcquired(f"The lock of {name} was not to be had in time")
            runtime.sleep(_POLL_SECONDS)
        self.acquired += 1
        return MemoryHeldLock(self.table, name, entry, self._lease_seconds)


class MemoryHeldLock:
    """coordinator.ports.HeldLock. Set `heartbeats` to False to let its lease run out, as a paused process does."""

    row: Pointer | None = None
    only_fenced = False
    behind_foreign = False

    def __init__(self, table: LockTable, name: TableName, entry: str, lease_seconds: float) -> None:
        self.heartbeats = True
        self._table = table
        self._name = name
        self._entry = entry
        self._lease_seconds = lease_seconds
        self._since = table.runtime.now()

    @property
    def lease_seconds(self) -> float:
        """As the port says."""
        return self._lease_seconds

    def covered_since(self) -> float:
        """As the port says."""
        now = self._table.runtime.now()
        if self.heartbeats:
            self._since = now - (now - self._since) % (self._lease_seconds / _BEATS_PER_LEASE)
        if now - self._since > self._lease_seconds or not self._table.has(self._name, self._entry):
            raise LockLost(f"{self._entry} is no longer there")
        return self._since

    def ensure(self) -> None:
        """As the port says."""
        keep_covered(self, self._table.runtime.now())

    def renew(self) -> None:
        """As the port says."""
        now = self._table.runtime.now()
        if not self._table.has(self._name, self._entry):
            raise LockLost(f"{self._entry} is no longer there")
        self._since = now

    def release(self) -> None:
        """As the port says."""
        self._table.remove(self._name, self._entry)
