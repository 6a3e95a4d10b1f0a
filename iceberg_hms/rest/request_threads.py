"""Threads for the blocking work of requests: bounded in number, and in how many requests may wait for one.

There are two pools: requests that take locks may wait long, and must not delay loads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from iceberg_hms.errors import QueueFull
from iceberg_hms.rest.access.authorization import RunOnThread
from iceberg_hms.work_owner import owned_by

#: How many requests may wait for each thread. More would wait longer than their clients.
WAITING_PER_THREAD: Final = 64

Result = TypeVar("Result")


class RequestThreads:
    """A bounded pool of threads. Only one event loop calls `run`, so the count needs no mutex; a forked child has no
    such loop, so it needs no pool."""

    def __init__(self, name: str, threads: int, *, waiting_per_thread: int = WAITING_PER_THREAD) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._limit = threads * (1 + waiting_per_thread)
        self.pending = 0

    async def run(self, function: Callable[[], Result]) -> Result:
        """Call the function on a thread and wait for its result. Raises what the function raises, or QueueFull without
        calling it."""
        if self.pending >= self._limit:
            raise QueueFull(f"{self.pending} requests are waiting already; the server did nothing of this one")
        self.pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function)
        finally:
            self.pending -= 1

    def run_for(self, caller: str) -> RunOnThread:
        """`run`, for the work of this caller: what all share, such as connections, is shared by callers."""

        def run(function: Callable[[], Result]) -> Awaitable[Result]:
            def owned() -> Result:
                with owned_by(f"caller {caller}"):
                    return function()

            return self.run(owned)

        return run

    def close(self) -> None:
        """Take no more work and drop what has not started; running work ends by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)
