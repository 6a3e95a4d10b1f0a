"""Threads for the blocking work of requests: bounded in number, and in how many requests may wait for one.

There are two pools: requests that take locks may wait long, and must not delay loads.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from iceberg_hms.errors import QueueFull
from iceberg_hms.thread_pool import ThreadPool
from iceberg_hms.work import NOBODY, caller_owner, owned_by

#: How many requests may wait for each thread. More would wait longer than their clients.
WAITING_PER_THREAD: Final = 64

Result = TypeVar("Result")


class RequestThreads:
    """A bounded pool of threads. While all are busy callers take turns: the next thread is for the one with the fewest
    running functions, so that many requests of one caller wait for each other, and not the others for them.

    Only one event loop calls `run`, so nothing here needs a mutex; a forked child has no such loop, so it needs no
    pool.
    """

    def __init__(self, name: str, threads: int, *, waiting_per_thread: int = WAITING_PER_THREAD) -> None:
        self._pool = ThreadPool(name, threads)
        self._limit = threads * (1 + waiting_per_thread)
        self.pending = 0
        self._free = threads
        #: Functions on threads by caller, and requests that wait for one; callers without any are not there.
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, function: Callable[[], Result], caller: str = NOBODY) -> Result:
        """Call the function on a thread and wait for its result. caller: for whom; NOBODY: for the server itself.
        Raises what the function raises, or QueueFull without calling it."""
        if self.pending >= self._limit:
            raise QueueFull(f"{self.pending} requests are waiting already; the server did nothing of this one")
        self.pending += 1
        try:
            await self._turn(caller)
            try:
                return await asyncio.wrap_future(self._pool.submit(function))
            finally:
                self._pass_on(caller)
        finally:
            self.pending -= 1

    def run_for(self, caller: str, function: Callable[[], Result]) -> Awaitable[Result]:
        """`run`, for the work of this caller, to whom `work` knows it to belong."""

        def owned() -> Result:
            with owned_by(caller_owner(caller)):
                return function()

        return self.run(owned, caller)

    async def _turn(self, caller: str) -> None:
        """Wait for a thread."""
        if self._free:
            self._free -= 1
            self._running[caller] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._pass_on(caller)
            raise

    def _pass_on(self, caller: str) -> None:
        """A thread of this caller is free: give it to the next one."""
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        while self._waiting:
            following = min(self._waiting, key=lambda each: self._running[each])
            line = self._waiting.pop(following)
            turn = line.popleft()
            if line:
                # At the end, so that others with as few come first.
                self._waiting[following] = line
            if not turn.done():
                self._running[following] += 1
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        """Take no more work and drop what has not started; running work ends by itself."""
        for turn in (turn for line in self._waiting.values() for turn in line):
            turn.cancel()
        self._pool.close()
