"""The threads on which tables are committed to: one a table, as many as `commit.threads`.

Such a thread also waits for its table's lock, which may take minutes where another writer holds it; so the threads that
write files side by side (`Runtime.gather`) never wait for a lock. Where more tables have commits than there are
threads, the others stand in line, and a table that had a thread for a group goes to the end of the line for its next
one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.ports import Runtime

logger = logging.getLogger(__name__)

#: How often it is logged that tables wait for a thread.
_LOG_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Table:
    """As `TableWorkers.start` got it."""

    step: Callable[[], bool]
    failed: Callable[[Exception], object]


class TableWorkers:
    """Safe for threads."""

    def __init__(self, runtime: Runtime, most: int) -> None:
        self._runtime = runtime
        self._most = most
        self._mutex = runtime.mutex()
        self._running = 0
        self._line: deque[_Table] = deque()
        self._logged = float("-inf")

    def start(self, name: object, step: Callable[[], bool], failed: Callable[[Exception], object]) -> None:
        """Call `step`, which does not raise, on a thread, again and again until it returns False. failed: called
        instead if it stands in line and there will be no thread. Raises what `spawn` raises if there is none now."""
        table = _Table(step, failed)
        with self._mutex:
            stands_in_line = self._running >= self._most
            if stands_in_line:
                self._line.append(table)
            else:
                self._running += 1
        if stands_in_line:
            with log_and_continue("saying that tables wait for a thread", REPORT):
                self._log()
            return
        try:
            self._runtime.spawn(f"commit {name}", lambda: self._work(table))
        except Exception as error:
            with self._mutex:
                self._running -= 1
                stranded = [] if self._running else [self._line.popleft() for _ in range(len(self._line))]
            for each in stranded:
                each.failed(error)
            raise

    def _work(self, table: _Table) -> None:
        next_: _Table | None = table
        while next_ is not None:
            next_ = self._next(next_ if next_.step() else None)

    def _next(self, served: _Table | None) -> _Table | None:
        """The table that a thread serves next. served: the one that it has just served, if that has more to do."""
        with self._mutex:
            if served is not None:
                self._line.append(served)
            if self._line:
                return self._line.popleft()
            self._running -= 1
            return None

    def _log(self) -> None:
        now = self._runtime.now()
        if now - self._logged >= _LOG_SECONDS:
            self._logged = now
            logger.warning(
                "%d tables are committed to and %d wait for a thread: raise `commit.threads`, or see with"
                " `iceberg-hms locks list` which locks they wait for",
                self._most,
                len(self._line),
            )
