"""A waiter's place in the queue for a lock, and when it polls next.

The metastore grants waiting locks in the order of their ids, and only when their owner asks (check_lock). So the next
in the queue should notice a release soon, and nobody behind it needs to ask at all. If all ask alike, the server is
busy answering them one at a time, while the next one sleeps and delays every waiter behind it.

A waiter therefore counts the entries before its own (show_locks, which is cheap and locks nothing), learns from poll to
poll how long a lock is held, sleeps through most of the time that it must wait in any case, and asks when it is first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from iceberg_hms.coordinator.ports import Runtime

#: How much of the time that the waiters before us will hold the lock is slept through at once. Hold times differ, and
#: oversleeping delays every later waiter, each of which would then believe that locks are held longer than they are.
_SLEPT_SHARE: Final = 0.5
#: The next in the queue polls again after this share of the time that the lock has been held, but not sooner than after
#: this share of a usual hold time.
_NEXT_SHARE: Final = 0.125
_SOONEST_SHARE: Final = 0.0625


class QueuePosition:
    """What one waiter knows of the queue before it. first_hold_seconds: how long a lock is presumed to be held until
    the waiter has seen one released."""

    def __init__(self, runtime: Runtime, first_hold_seconds: float) -> None:
        self._runtime = runtime
        self._hold_seconds = first_hold_seconds
        self._moved_at = 0.0
        #: Entries before ours, the holder's included; None if unknown.
        self.ahead: int | None = None

    def update(self, ahead: int) -> None:
        """So many entries are before ours now."""
        now, before = self._runtime.now(), self.ahead
        if before is None:
            self._moved_at = now
        elif ahead < before:
            seen = (now - self._moved_at) / (before - ahead)
            # A short hold counts at once, a long one by half: a poll too many costs little.
            self._hold_seconds = min(seen, (self._hold_seconds + seen) / 2)
            self._moved_at = now
        self.ahead = ahead

    def forget(self) -> None:
        """The number of entries before ours is unknown now."""
        self.ahead = None

    def seconds_to_next_poll(self) -> float:
        """How long to sleep before the next poll, while somebody is before us."""
        others = (self.ahead or 1) - 1
        held = self._runtime.now() - self._moved_at
        hold = self._hold_seconds
        return max(others * hold * _SLEPT_SHARE, held * _NEXT_SHARE, hold * _SOONEST_SHARE)


class PollRate:
    """How often a process polls for the locks that it waits for, all of them together: counts its waiters.

    Each waiter polls a few times a second. If hundreds of tables are locked for long, that alone would keep all
    connections to the metastore busy, and swaps and heartbeats would wait for one. Safe for threads. Setting:
    lock.max-checks-per-second."""

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
