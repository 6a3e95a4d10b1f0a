"""Removes lock entries that nobody may know of: a lock call that was sent and not answered, an unlock that failed.

Such a call may still be carried out, as long as a server keeps it. An entry that appears then would block the table for
everybody until its lease passes, or for ever where no reaper runs (apache/iceberg#2301, #9654).
"""

from __future__ import annotations

import logging
import threading

from iceberg_hms.coordinator.ports import Runtime, TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.locks.lock_entries import LockEntries

logger = logging.getLogger(__name__)

#: Between two looks at the lock table.
LOOK_INTERVAL_SECONDS = 5.0
_END_CHECK_SECONDS = 0.5
#: Attempts that are watched at the same time; beyond it the oldest are left to their lease.
WATCHED_MAX = 1_000


class LostLockCleanup:
    """Looks for entries by their agentInfo until a lease has passed, on one thread that ends when nothing is left."""

    def __init__(self, entries: LockEntries, runtime: Runtime) -> None:
        self._entries = entries
        self._runtime = runtime
        self._closed = runtime.event()
        self._mutex = self._runtime.mutex()
        self._watched: dict[tuple[TableName, str], float] = {}
        self._running = False

    def watch(self, name: TableName, agent_info: str, seconds: float) -> None:
        """Remove every entry of a table with this agentInfo that is there now or appears within `seconds`. The holder
        must be done with it: no entry is spared."""
        with self._mutex:
            self._watched[name, agent_info] = self._runtime.now() + seconds
            while len(self._watched) > WATCHED_MAX:
                del self._watched[next(iter(self._watched))]
            start = not self._running
            self._running = True
        if start:
            try:
                self._runtime.spawn("lock-sweeper", self._sweep, background=True)
            except RuntimeError as error:
                # A good commit must not fail because there is no thread to look after its lock.
                logger.warning("Lost locks are not looked for until the next one is lost: %s", error)
                with self._mutex:
                    self._running = False

    def _sweep(self) -> None:
        while True:
            with self._mutex:
                watched = list(self._watched.items())
                if not watched:
                    self._running = False
                    return
            for (name, agent_info), until in watched:
                over = self._runtime.now() >= until
                self._remove(name, agent_info)
                if over:
                    with self._mutex:
                        self._watched.pop((name, agent_info), None)
            if self._is_to_end():
                self._give_up()

    def _is_to_end(self) -> bool:
        """Wait for the next look. True when nobody shall wait for it: we are closed, or the process is ending."""
        next_look = self._runtime.now() + LOOK_INTERVAL_SECONDS
        while (remaining := next_look - self._runtime.now()) > 0:
            if self._closed.wait(min(remaining, _END_CHECK_SECONDS)) or not threading.main_thread().is_alive():
                return True
        return False

    def close(self) -> None:
        """Look once more and stop: what appears later is left to its lease."""
        self._closed.set()

    def _give_up(self) -> None:
        with self._mutex:
            watched, self._watched = list(self._watched), {}
        for name, agent_info in watched:
            self._remove(name, agent_info)

    def _remove(self, name: TableName, agent_info: str) -> None:
        try:
            for entry in self._entries.own(name, agent_info):
                logger.info("Removing %s on %s, whose reply was lost", entry, name)
                self._entries.remove(entry)
        except MetastoreError as error:
            logger.debug("Looking for lost locks of %s failed and is repeated: %s", name, error.message)
