"""Reads of tables wait on the event loop for a metastore that is away.

Clients load a table before they commit to it, and PyIceberg sends no read again after a 503. A read that waits takes no
thread. Many of them try less often, so that all together ask a metastore that is coming back some times a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from iceberg_hms.clock import Clock, away_waits
from iceberg_hms.errors import MetastoreUnavailable

Answer = TypeVar("Answer")

#: Tries per second of all reads that wait, at most.
TRIES_PER_SECOND: Final = 100


class HeldReads:
    """seconds: how long a read waits after it was received. One event loop calls `run`, so nothing needs a mutex."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._held = 0

    async def run(self, read: Callable[[], Awaitable[Answer]], received: float) -> Answer:
        """What `read` returns, which is called again while it raises MetastoreUnavailable. received:
        `clock.monotonic()` of the request's arrival. Raises what `read` raises; its MetastoreUnavailable once the time
        is over."""
        waits = away_waits()
        while True:
            try:
                return await read()
            except MetastoreUnavailable:
                pause = max(next(waits), self._held / TRIES_PER_SECOND) * (1 - self._clock.jitter() / 2)
                if self._clock.monotonic() + pause >= received + self._seconds:
                    raise
            self._held += 1
            try:
                await asyncio.sleep(pause)
            finally:
                self._held -= 1
