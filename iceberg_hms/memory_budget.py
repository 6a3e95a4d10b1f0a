"""A bound on the memory of what requests hold: their bodies, the metadata that is read for them, and its responses.

What is held is counted by estimates, for as long as somebody has the `HeldMemory` that counts it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from iceberg_hms.errors import ResourceExhausted
from iceberg_hms.work import NOBODY, owner

#: JSON that takes more memory is parsed and made alone: that keeps the interpreter, and takes memory besides.
LARGE_BYTES: Final = 32 * 1024 * 1024


class MemoryBudget:
    """Safe for threads. max_bytes: of all owners together; None: any. largest: the most that one thing may take.

    One owner gets half of the budget, and room for the largest thing at least; NOBODY gets all."""

    def __init__(self, max_bytes: int | None = None, largest: int = 0) -> None:
        self._max_bytes = max_bytes
        self._max_share = max((max_bytes or 0) // 2, largest)
        self._mutex = threading.Lock()
        self._held: dict[str, int] = {}
        #: The sum of these.
        self._total = 0
        #: Of `HeldMemory` that nobody has any more. The garbage collector may find it in the middle of anything, so it
        #: takes no mutex.
        self._returned: deque[tuple[str, int]] = deque()
        self._caches: list[Callable[[], None]] = []
        self._alone = threading.Lock()

    def add_cache(self, empty: Callable[[], None]) -> None:
        """Call `empty` where memory is short: it drops what nobody needs."""
        self._caches.append(empty)

    def held(self) -> int:
        """Bytes that all owners hold."""
        with self._mutex:
            self._take_back()
            return self._total

    def share(self, of: str | None = None) -> HeldMemory:
        """Nothing so far, for an owner; None: the owner of this thread's work."""
        return HeldMemory(self, owner() if of is None else of)

    @contextmanager
    def alone(self, size: int) -> Iterator[None]:
        """Parse or make JSON whose values take so many bytes; of what is large one thread at a time."""
        if size <= LARGE_BYTES:
            yield
        else:
            with self._alone:
                yield

    def add(self, of: str, size: int) -> bool:
        """Hold so many bytes more. False: that does not fit, and nothing was added. For `HeldMemory`."""
        if self._add(of, size):
            return True
        for empty in self._caches:
            empty()
        return self._add(of, size)

    def add_all_the_same(self, of: str, size: int) -> None:
        """Hold so many bytes more, or fewer, whether they fit or not. For `HeldMemory`."""
        self._returned.append((of, -size))

    def _add(self, of: str, size: int) -> bool:
        with self._mutex:
            if self._returned:
                self._take_back()
            held, total = self._held.get(of, 0) + size, self._total + size
            fits = of == NOBODY or held <= self._max_share
            if self._max_bytes is not None and not (fits and total <= self._max_bytes):
                return False
            self._held[of], self._total = held, total
            return True

    def _take_back(self) -> None:
        while self._returned:
            of, size = self._returned.popleft()
            self._total -= size
            self._held[of] = self._held.get(of, 0) - size
            if not self._held[of]:
                del self._held[of]


class HeldMemory:
    """Bytes of a budget, until nobody has this object any more. One thread at a time changes it."""

    __slots__ = ("_budget", "_owner", "bytes")

    def __init__(self, budget: MemoryBudget, of: str) -> None:
        self._budget = budget
        self._owner = of
        self.bytes = 0

    def resize(self, size: int) -> bool:
        """Hold so many bytes in all. False: they are more and do not fit, and nothing changed."""
        if size > self.bytes and not self._budget.add(self._owner, size - self.bytes):
            return False
        if size < self.bytes:
            self._budget.add_all_the_same(self._owner, size - self.bytes)
        self.bytes = size
        return True

    def require(self, size: int, what: str) -> None:
        """`resize`. what: they are for. Raises ResourceExhausted if they do not fit: try again later."""
        if not self.resize(size):
            raise ResourceExhausted(f"The requests that are running leave no {size} bytes of memory for {what}")

    def set_to(self, size: int) -> None:
        """Hold so many bytes in all, whether they fit or not: for what must not be refused any more."""
        self._budget.add_all_the_same(self._owner, size - self.bytes)
        self.bytes = size

    def __del__(self) -> None:
        if self.bytes:
            self._budget.add_all_the_same(self._owner, -self.bytes)
