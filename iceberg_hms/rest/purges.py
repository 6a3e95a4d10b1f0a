"""Deletes the files of tables that requests drop with purge.

A request deletes for ANSWER_SECONDS itself, so a small table's files are gone when its client has the answer. What is
left then goes on behind the answer, on one of a few threads; so does a search for other tables in the folder that takes
longer, or that the metastore does not answer, and what finds no memory for a manifest. If too many wait for those
threads, the request goes on itself: nothing here grows with the number of requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from iceberg_hms import work
from iceberg_hms.catalog.purge import Purge
from iceberg_hms.coordinator.files.own_files import SEARCH_ALL_SECONDS
from iceberg_hms.coordinator.log_and_continue import log_and_continue
from iceberg_hms.coordinator.ports import Runtime

#: How long a request deletes before it is answered.
ANSWER_SECONDS: Final = 2.0
#: How long one search for other tables in the folder may take behind an answer: the rows of 46,000 take three minutes.
SEARCH_SECONDS: Final = 600.0
#: How many purges go on behind answers at a time, and how many more wait for that.
THREADS: Final = 2
WAITING_MAX: Final = 16
#: How often one is tried that the metastore does not answer, or for which there is no memory, and how long after.
TRIES: Final = 4
TRY_AGAIN_SECONDS: Final = 30.0
#: How long purges go on once the server stops, and how long each may then take for the file that it is at.
STOP_SECONDS: Final = 2.0

_LEFT: Final = "the next line names the file that leads to those that are left"


class Purges:
    """The purges of a server, of all its warehouses. Safe for threads."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._mutex = runtime.mutex()
        #: All that have not ended, in requests and behind their answers.
        self._under_way: set[Purge] = set()
        #: Those that wait for a thread, and for whom they are.
        self._waiting: deque[tuple[Purge, str]] = deque()
        self._threads = 0
        self._closed = False
        self._stopping = runtime.event()
        #: Set once none is under way after `close` began.
        self._all_ended = runtime.event()

    def run(self, purge: Purge) -> bool:
        """Purge a table for a request, on its thread. False: the purge goes on behind the answer. Raises nothing of
        ours."""
        with self._mutex:
            self._under_way.add(purge)
        now = self._runtime.now
        answer_at = now() + ANSWER_SECONDS

        def stop() -> bool:
            return self._stopping.is_set() or now() >= answer_at

        if self._ends(purge, partial(purge.run, stop, search_seconds=ANSWER_SECONDS, is_last=False)):
            return True
        if self._goes_on_behind(purge):
            return False
        self._finish(purge, SEARCH_ALL_SECONDS, tries=1)
        return True

    def close(self) -> None:
        """Let purges go on for a while, then stop them; each that has not ended says what is left (`Purge.give_up`).
        Blocks for two times STOP_SECONDS at most. Further ones end in their requests."""
        with self._mutex:
            self._closed = True
            if not self._under_way:
                self._all_ended.set()
        self._all_ended.wait(STOP_SECONDS)
        self._stopping.set()
        self._all_ended.wait(STOP_SECONDS)
        with self._mutex:
            left = list(self._under_way)
        for purge in left:
            self._give_up(purge)

    def _goes_on_behind(self, purge: Purge) -> bool:
        with self._mutex:
            if self._closed or len(self._waiting) >= WAITING_MAX:
                return False
            if self._threads < THREADS:
                try:
                    self._runtime.spawn("iceberg-hms-rest-purge", self._work, background=True)
                except RuntimeError:
                    # There is no thread.
                    return False
                self._threads += 1
            self._waiting.append((purge, work.owner()))
            return True

    def _work(self) -> None:
        while (following := self._next()) is not None:
            purge, owner = following
            with work.owned_by(owner):
                self._finish(purge, SEARCH_SECONDS, tries=TRIES)

    def _next(self) -> tuple[Purge, str] | None:
        with self._mutex:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None

    def _finish(self, purge: Purge, search_seconds: float, *, tries: int) -> None:
        for left in reversed(range(tries)):
            run = partial(purge.run, self._stopping.is_set, search_seconds=search_seconds, is_last=not left)
            ended = self._ends(purge, run)
            if ended:
                return
            if ended is None or not left or self._stopping.wait(TRY_AGAIN_SECONDS):
                break
        self._give_up(purge)

    def _ends(self, purge: Purge, run: Callable[[], bool]) -> bool | None:
        """Run a purge. Whether it came to its end; None after a defect of ours."""
        ended = None
        with log_and_continue(f"the purge of {purge.name}", _LEFT):
            ended = run()
        if ended:
            self._leave(purge)
        return ended

    def _give_up(self, purge: Purge) -> None:
        # One that a store held up may get here after `close`.
        if self._leave(purge):
            purge.give_up()

    def _leave(self, purge: Purge) -> bool:
        """Whether the purge was under way until now."""
        with self._mutex:
            was_under_way = purge in self._under_way
            self._under_way.discard(purge)
            if self._closed and not self._under_way:
                self._all_ended.set()
            return was_under_way
