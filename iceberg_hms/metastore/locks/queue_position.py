"""The place of a waiter in the queue for a lock, and when it looks at those before it.

The metastore grants waiting locks in the order of their ids, and grants one only when its owner asks (check_lock). So
whoever is next should notice soon that the lock was given back, and nobody else need ask at all. If all ask alike, the
server is busy with asking, one at a time, while the next one sleeps and keeps everybody behind it waiting.

A waiter therefore counts the entries before its own (show_locks, which is cheap and locks nothing), learns from look to
look how long a turn takes, sleeps through most of the time that it must wait in any case, and asks when it is first.
"""

from __future__ import annotations

from typing import Final

from iceberg_hms.coordinator.ports import Runtime

#: How much of the turns that come before ours, after the holder's, is slept through at once. Turns differ, and who
#: oversleeps keeps all behind it waiting; from which they would learn that turns take longer than they do.
_SHARE: Final = 0.5
#: Whoever is next looks again after this share of the time that the holder has had, but not sooner than after this
#: share of a turn.
_NEXT: Final = 0.125
_SOONEST: Final = 0.0625


class QueuePosition:
    """What one waiter knows of the queue before it. first_turn_seconds: what a turn is taken for until one was seen."""

    def __init__(self, runtime: Runtime, first_turn_seconds: float) -> None:
        self._runtime = runtime
        self._turn = first_turn_seconds
        self._moved_at = 0.0
        #: Entries before ours, the holder's included; None when that is not known.
        self.ahead: int | None = None

    def saw(self, ahead: int) -> None:
        """So many are before us now."""
        now, before = self._runtime.now(), self.ahead
        if before is None:
            self._moved_at = now
        elif ahead < before:
            seen = (now - self._moved_at) / (before - ahead)
            # A quick turn is believed at once, a slow one by half: it costs little to look in vain.
            self._turn = min(seen, (self._turn + seen) / 2)
            self._moved_at = now
        self.ahead = ahead

    def lost_sight(self) -> None:
        """It is not known how many are before us."""
        self.ahead = None

    def seconds(self) -> float:
        """How long to sleep before the next look, while somebody is before us."""
        others = (self.ahead or 1) - 1
        taken = self._runtime.now() - self._moved_at
        return max(others * self._turn * _SHARE, taken * _NEXT, self._turn * _SOONEST)
