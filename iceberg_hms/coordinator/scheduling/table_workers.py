"""The threads that commit to tables: at most one for each table, at most `commit.threads` in all.

Such a thread also waits for its table's lock, which may take minutes while another writer holds it; so the threads that
write files in parallel (`Runtime.gather`) never wait for a lock. When more tables have commits than there are threads,
the others wait in line, and a table goes to the end of the line after each of its groups.
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

#: How often to log that tables wait for a thread.
_LOG_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Table:
    """As `TableWorkers.start` got it."""

    commit_next_group: Callable[[], bool]
    failed: Callable[[Exception], object]


class TableWorkers:
    """Safe for threads. max_threads: how many tables are committed to at the same time."""

    def __init__(self, runtime: Runtime, max_threads: int) -> None:
        self._runtime = runtime
        self._max_threads = max_threads
        self._mutex = runtime.mutex()
        self._running = 0
        self._line: deque[_Table] = deque()
        self._logged_at = float("-inf")

    def start(self, name: object, commit_next_group: Callable[[], bool], failed: Callable[[Exception], object]) -> None:
        """Call `commit_next_group`, which must not raise, on a thread, again and again until it returns False.

        failed: called instead if the table waits in line and there will be no thread. Raises what `Runtime.spawn`
        raises if there is no thread now."""
        table = _Table(commit_next_group, failed)
        with self._mutex:
            must_wait = self._running >= self._max_threads
            if must_wait:
                self._line.append(table)
            else:
                self._running += 1
        if must_wait:
            with log_and_continue("logging that tables wait for a thread", REPORT):
                self._log_waiting()
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

    def _work(self, first: _Table) -> None:
        table: _Table | None = first
        while table is not None:
            has_more = table.commit_next_group()
            table = self._next(table if has_more else None)

    def _next(self, served: _Table | None) -> _Table | None:
        """The table that a thread serves next. served: the one that it has just served, if that has more to do."""
        with self._mutex:
            if served is not None:
                self._line.append(served)
            if self._line:
                return self._line.popleft()
            self._running -= 1
            return None

    def _log_waiting(self) -> None:
        now = self._runtime.now()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            logger.warning(
                "%d tables are committed to and %d wait for a thread: raise `commit.threads`, or see with"
                " `iceberg-hms locks list` which locks they wait for",
                self._max_threads,
                len(self._line),
            )
