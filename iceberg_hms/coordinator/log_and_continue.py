"""Runs what must not harm commits: work for a commit whose outcome is decided, or between two commits.

A port may raise what its contract does not name: a driver has a defect, or the process has no memory or no thread left.
A listener may raise what ends threads and tasks, such as SystemExit or asyncio.CancelledError. Uncaught, either would
end the worker of a table's queue, and nobody would serve the commits that wait in it.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final

logger = logging.getLogger(__name__)

#: What the operator does when nothing else applies.
REPORT: Final = "report it with the trace; no commit is lost"
#: What the operator does about files that were not deleted.
SWEEP: Final = "no file that a table names is affected; a sweep for orphans removes the rest"


class log_and_continue:  # noqa: N801 - reads as a statement, and runs a dozen times a commit, too often for a generator
    """Log whatever is raised within, but KeyboardInterrupt, and go on. It may be entered again and again. what: the
    work, for the log. to_do: what the operator does about it."""

    __slots__ = ("_to_do", "_what")

    def __init__(self, what: str, to_do: str) -> None:
        self._what = what
        self._to_do = to_do

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        # Only the main thread gets a KeyboardInterrupt, which is never a worker.
        if error is None or isinstance(error, KeyboardInterrupt):
            return False
        logger.error("%s failed, and the queue goes on; what to do: %s", self._what, self._to_do, exc_info=error)
        return True
