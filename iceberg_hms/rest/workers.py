"""Threads that do the blocking work of requests, bounded in number and in how many requests may wait for one.

Two pools are used: requests that move a table's pointer wait for locks, and must not keep loads from being answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from iceberg_hms.errors import QueueFull

#: How many requests may wait for each thread. More would wait longer than their clients do.
WAITING_PER_THREAD: Final = 64

Result = TypeVar("Result")


class RequestThreads:
    """A bounded pool of threads. `run` is called on one event loop only, so the count needs no lock; and since a forked
    child has no such loop, it needs no pool of its own either."""

    def __init__(self, name: str, threads: int, *, waiting_per_thread: int = WAITING_PER_THREAD) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._limit = threads * (1 + waiting_per_thread)
        self.pending = 0

    async def run(self, function: Callable[[], Result]) -> Result:
        """Call the function on a thread and wait for its result. Raises what it raises, and QueueFull before anything
        was begun."""
        if self.pending >= self._limit:
            raise QueueFull(f"{self.pending} requests are waiting already; nothing of this one was done")
        self.pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function)
        finally:
            self.pending -= 1

    def close(self) -> None:
        """Take no more work and drop what was not begun; work that was begun ends by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)
