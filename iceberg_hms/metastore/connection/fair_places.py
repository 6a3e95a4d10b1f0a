"""A semaphore that owners of work share fairly, however many of their threads wait.

A caller with a hundred requests in flight must not make everybody else wait for a hundred calls. So a place that
becomes free goes to the owner who holds the fewest places, of these to the one whose calls took the least time since
the places became scarce, and of that owner to the thread that waits for longest. While nobody else waits, one owner has
them all.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.work import owner

#: Owners whose time is remembered. Beyond it, those are forgotten who neither hold a place nor wait for one.
OWNERS_MAX: Final = 4_096


class Turn:
    """What a thread waits for. One lock is quicker than an Event, and the connection idles until the thread wakes."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, timeout: float) -> bool:
        """Whether it was given within so many seconds. Only one thread waits, once."""
        return self._lock.acquire(timeout=timeout)

    def give(self) -> None:
        """End the wait."""
        self._lock.release()

    @property
    def is_given(self) -> bool:
        """For a thread whose wait was over before."""
        return not self._lock.locked()


class _Owner:
    """held: places. used: seconds that its calls took, or as much as the least of those who waited when it began to."""

    __slots__ = ("held", "used", "waiting")

    def __init__(self, used: float) -> None:
        self.held = 0
        self.used = used
        self.waiting: deque[Turn] = deque()


class FairPlaces:
    """As threading.BoundedSemaphore, for threads that work for owners (`work`). The thread that takes a place
    gives it back. now: the monotonic clock, in seconds. waiting: how many threads wait for a place. owners: those who
    hold one, wait for one, or did so since the places became scarce."""

    def __init__(self, places: int, now: Callable[[], float] = SYSTEM_CLOCK.monotonic) -> None:
        self._places = self._free = places
        self._now = now
        self._mutex = threading.Lock()
        self.owners: dict[str, _Owner] = {}
        self.waiting = 0
        #: The time used by the owner who got the last place. An owner who begins to wait has used as much.
        self._least = 0.0
        self._mine = threading.local()

    def acquire(self, *, timeout: float) -> bool:
        """Take a place; False if there was none for `timeout` seconds."""
        name = owner()
        with self._mutex:
            mine = self._owner(name)
            if self._free:
                self._free -= 1
                mine.held += 1
                turn = None
            else:
                turn = Turn()
                mine.waiting.append(turn)
                self.waiting += 1
        if turn is not None and not self._wait(mine, turn, timeout):
            return False
        self._mine.held = (name, self._now())
        return True

    def release(self) -> None:
        """Give the place back. Raises ValueError if it was not taken."""
        name, since = self._mine.__dict__.pop("held", (owner(), None))
        with self._mutex:
            mine = self.owners.get(name)
            if self._free == self._places or mine is None or not mine.held:
                raise ValueError("released without a place")
            mine.held -= 1
            if since is not None:
                mine.used += self._now() - since
            if self.waiting:
                self._grant()
            else:
                self._free += 1
                # Nobody has to wait: nobody owes anybody time.
                self.owners = {each: kept for each, kept in self.owners.items() if kept.held}
                for kept in self.owners.values():
                    kept.used = 0.0
                self._least = 0.0

    def _owner(self, name: str) -> _Owner:
        found = self.owners.get(name)
        if found is None:
            if len(self.owners) >= OWNERS_MAX:
                self.owners = {each: kept for each, kept in self.owners.items() if kept.held or kept.waiting}
            found = self.owners[name] = _Owner(self._least)
        elif not found.held and not found.waiting:
            found.used = max(found.used, self._least)
        return found

    def _grant(self) -> None:
        """Hand the place that became free to one who waits."""
        least = min((each for each in self.owners.values() if each.waiting), key=lambda each: (each.held, each.used))
        least.held += 1
        self.waiting -= 1
        self._least = max(self._least, least.used)
        least.waiting.popleft().give()

    def _wait(self, mine: _Owner, turn: Turn, timeout: float) -> bool:
        try:
            return turn.wait(timeout) or self._leave(mine, turn)
        except BaseException:
            if self._leave(mine, turn):
                self.release()
            raise

    def _leave(self, mine: _Owner, turn: Turn) -> bool:
        """Wait no longer. True: the place was handed over meanwhile."""
        with self._mutex:
            if turn.is_given:
                return True
            mine.waiting.remove(turn)
            self.waiting -= 1
            return False
