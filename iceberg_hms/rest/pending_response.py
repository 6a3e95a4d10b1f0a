"""Waits for queued commits on the event loop.

A commit spends most of its time in its table's queue. A thread for each would sit idle, and the end of a group would
wake all of its threads at once, to contend for the interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from iceberg_hms.coordinator.outcome.outcome import CommitReport
    from iceberg_hms.coordinator.staging.pending_commit import PendingCommit

#: How often to check a commit after its time, in case its worker could not wake the event loop.
RECHECK_SECONDS = 5.0

#: Calls a function on a thread, as `RequestThreads.run` does.
RunOnThread = Callable[[Callable[[], "CommitReport"]], Awaitable["CommitReport"]]


@dataclass(frozen=True, slots=True)
class PendingResponse:
    """What a handler returns instead of a response that depends on a queued commit.

    seconds: withdraw the commit after so long, unless a swap carries it by then. answer: makes the response, on the
    event loop. recheck_seconds: how often to check the commit after that.
    """

    commit: PendingCommit
    seconds: float
    answer: Callable[[CommitReport], Response]
    recheck_seconds: float = RECHECK_SECONDS

    async def response(self, run: RunOnThread) -> Response:
        """Wait for the outcome. run: calls a function on a thread; it may raise QueueFull. Raises as
        `PendingCommit.result`."""
        seconds = self.seconds
        while not await self._is_settled_within(seconds) and not self.commit.withdraw():
            seconds = self.recheck_seconds
        # The outcome of a withdrawn commit needs a status check of the table, which blocks.
        report = await run(self.commit.result) if self.commit.withdrawn else self.commit.result()
        return self.answer(report)

    async def _is_settled_within(self, seconds: float) -> bool:
        """Wait until the commit is settled, at most for so long."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[bool] = loop.create_future()

        def end(is_settled: bool) -> None:
            if not settled.done():
                settled.set_result(is_settled)

        def wake() -> None:
            # The loop may have ended, and the waiting request with it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end, True)

        self.commit.when_settled(wake)
        timer = loop.call_later(seconds, end, False)
        try:
            return await settled
        finally:
            timer.cancel()
