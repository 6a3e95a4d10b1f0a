"""How often a process looks at the locks that it waits for, all of them together.

Each wait looks a few times a second. Hundreds of tables that are locked for long would keep the metastore's connections
busy with that, and the swaps of the others, and the heartbeats of what is held, would wait for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from iceberg_hms.coordinator.ports import Runtime


class PollRate:
    """Those of a process that wait for locks. Safe for threads.

    Setting: lock.max-checks-per-second.
    """

    def __init__(self, runtime: Runtime, looks_per_second: int) -> None:
        self._looks_per_second = looks_per_second
        self._mutex = runtime.mutex()
        self._waiting = 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        """One more waits."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    @property
    def seconds_between_looks(self) -> float:
        """The shortest time that each waiter leaves between two looks; 0 for a waiter that is alone."""
        return max(0, self._waiting - 1) / self._looks_per_second

    def _count(self, change: int) -> None:
        with self._mutex:
            self._waiting += change
