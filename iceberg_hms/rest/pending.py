"""Commits that are under way, waited for on the event loop.

A commit waits in its table's queue for most of its time. A thread that waited with it would do nothing else, and a
group that ends would wake all of its threads at once, to fight for the interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from iceberg_hms.coordinator.protocol.commit_report import CommitReport
    from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit

#: How often the outcome of a commit is asked for beyond its time: whoever settled it may have failed to wake the loop.
LOOK_AGAIN_SECONDS = 5.0

#: Calls a function on a thread, as `Workers.run` does.
Run = Callable[[Callable[[], "CommitReport"]], Awaitable["CommitReport"]]


@dataclass(frozen=True, slots=True)
class Later:
    """What a handler returns instead of a response, when that has to wait for a commit.

    seconds: after which the commit is withdrawn, if no swap carries it by then. answer: makes the response, on the
    event loop.
    """

    commit: PendingCommit
    seconds: float
    answer: Callable[[CommitReport], Response]
    look_again_seconds: float = LOOK_AGAIN_SECONDS

    async def response(self, run: Run) -> Response:
        """Wait for the outcome. run: calls a function on a thread; it may raise QueueFull. Raises what the commit
        raises."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()

        def done() -> None:
            if not settled.done():
                settled.set_result(None)

        def tell() -> None:
            # The loop may have ended meanwhile, and with it whoever waited.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done)

        timers: list[asyncio.TimerHandle] = []

        def give_up() -> None:
            if self.commit.withdraw():
                done()
            else:
                timers[:] = [loop.call_later(self.look_again_seconds, give_up)]
                self.commit.when_settled(tell)

        self.commit.when_settled(tell)
        timers.append(loop.call_later(self.seconds, give_up))
        try:
            await settled
        finally:
            timers[0].cancel()
        # To tell what became of one that was withdrawn takes a look at the table.
        report = await run(self.commit.result) if self.commit.withdrawn else self.commit.result()
        return self.answer(report)
