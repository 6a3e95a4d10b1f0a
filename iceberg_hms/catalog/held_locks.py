"""Locks that are held: several as one, none as one, and what the current thread holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from iceberg_hms.catalog.lock_modes import LockMode
from iceberg_hms.coordinator.coverage import keep_covered
from iceberg_hms.coordinator.ports import HeldLock, Pointer, Runtime, TableName

#: A lease that never ends: no server can take away what is not there.
_FOREVER = 1e9


@runtime_checkable
class SessionLock(Protocol):
    """A held lock that lives in a session: zookeeper.lock.ZooKeeperHeldLock."""

    def check_connected(self) -> None:
        """Raises LockLost when the lock is gone, or while nobody can be asked whether it is."""
        ...


class NoLock:
    """coordinator.ports.HeldLock of a table that takes none: compare-and-swap is all that protects its swaps."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def lease_seconds(self) -> float:
        return _FOREVER

    def covered_since(self) -> float:
        return self._runtime.now()

    def renew(self) -> None:
        return

    def release(self) -> None:
        return


class ChosenHeldLock:
    """coordinator.ports.HeldLock on all locks that were taken; each must hold. on_release: called on each release."""

    def __init__(self, parts: Sequence[HeldLock], mode: LockMode, on_release: Callable[[ChosenHeldLock], None]) -> None:
        self.parts = tuple(parts)
        self.mode = mode
        self._on_release = on_release

    @property
    def lease_seconds(self) -> float:
        """As the port says: the shortest."""
        return min(part.lease_seconds for part in self.parts)

    def covered_since(self) -> float:
        """As the port says: the oldest."""
        return min(part.covered_since() for part in self.parts)

    def renew(self) -> None:
        """As the port says."""
        for part in self.parts:
            part.renew()

    def release(self) -> None:
        """As the port says; the last that was taken goes first."""
        self._on_release(self)
        for part in reversed(self.parts):
            part.release()

    def check_before_swap(self, now: float) -> None:
        """Raises LockLost when a swap must not start: a lock is gone, or its session is SUSPENDED. A lock that was not
        renewed for half of its lease is renewed first. Raises LockUnavailable, MetastoreUnavailable when that fails."""
        for part in self.parts:
            if isinstance(part, SessionLock):
                part.check_connected()
            keep_covered(part, now)


class Under(threading.local):
    """What the current thread holds, and what was read under it. A commit acquires, loads, swaps and releases on one
    thread; others must not get its reads, which may be older than their question."""

    def __init__(self) -> None:
        self._held: dict[TableName, ChosenHeldLock] = {}
        self._rows: dict[TableName, Pointer] = {}

    def begin(self, name: TableName, held: ChosenHeldLock, row: Pointer | None) -> None:
        """A lock was taken; row: the table's, if it was read under the lock just now."""
        self._held[name] = held
        self._rows.pop(name, None)
        if row is not None:
            self._rows[name] = row

    def end(self, held: ChosenHeldLock) -> None:
        """A lock was released."""
        for name in [name for name, other in self._held.items() if other is held]:
            del self._held[name]
            self._rows.pop(name, None)

    def held(self, name: TableName) -> ChosenHeldLock | None:
        """The lock that this thread holds on a table."""
        return self._held.get(name)

    def take_row(self, name: TableName) -> Pointer | None:
        """The row that was read under the lock; only once."""
        return self._rows.pop(name, None)
