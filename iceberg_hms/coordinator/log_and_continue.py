"""What is done for a commit whose outcome is decided, or between two of them, must not harm the commits.

A port may raise what its contract does not name: a driver has a defect, or the process has no memory or no thread left.
Where that is not caught, the worker of a table's queue ends, and nobody is there for those that wait in it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

logger = logging.getLogger(__name__)

#: What is to be done where nothing else is.
REPORT: Final = "report it with the trace; no commit is lost"
#: What is to be done about files that were not deleted.
SWEEP: Final = "nothing that a table names is concerned; a sweep for orphans removes what was left"


@contextmanager
def log_and_continue(what: str, to_do: str) -> Iterator[None]:
    """Whatever is raised within is logged, and the caller goes on. what: is done within. to_do: for an operator."""
    try:
        yield
    except Exception:
        logger.exception("%s failed, and the queue goes on; what to do: %s", what, to_do)
