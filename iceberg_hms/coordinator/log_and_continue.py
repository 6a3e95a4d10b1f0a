"""Runs what must not harm commits: work for a commit whose outcome is decided, or between two commits.

A port may raise what its contract does not name: a driver has a defect, or the process has no memory or no thread left.
A listener may raise what ends threads and tasks, such as SystemExit or asyncio.CancelledError. Uncaught, either would
end the worker of a table's queue, and nobody would serve the commits that wait in it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

logger = logging.getLogger(__name__)

#: What the operator does when nothing else applies.
REPORT: Final = "report it with the trace; no commit is lost"
#: What the operator does about files that were not deleted.
SWEEP: Final = "no file that a table names is affected; a sweep for orphans removes the rest"


@contextmanager
def log_and_continue(what: str, to_do: str) -> Iterator[None]:
    """Log whatever is raised within, but KeyboardInterrupt, and go on. what: the work, for the log. to_do: what the
    operator does about it."""
    try:
        yield
    except KeyboardInterrupt:
        # Only the main thread gets it, which is never a worker.
        raise
    except BaseException:
        logger.exception("%s failed, and the queue goes on; what to do: %s", what, to_do)
