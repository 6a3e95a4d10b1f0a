"""How often a process polls for the locks that it waits for, all of them together.

Each waiter polls a few times a second. If hundreds of tables are locked for long, that alone would keep all connections
to the metastore busy, and swaps and heartbeats would wait for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from iceberg_hms.coordinator.ports import Runtime


class PollRate:
    """Counts the waiters of a process. Safe for threads. Setting: lock.max-checks-per-second."""

    def __init__(self, runtime: Runtime, max_per_second: int) -> None:
        self._max_per_second = max_per_second
        self._mutex = runtime.mutex()
        self._waiters = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count one more waiter meanwhile."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    @property
    def seconds_between_polls(self) -> float:
        """The shortest time that each waiter leaves between two polls; 0 for a waiter that is alone."""
        return max(0, self._waiters - 1) / self._max_per_second

    def _count(self, change: int) -> None:
        with self._mutex:
            self._waiters += change
