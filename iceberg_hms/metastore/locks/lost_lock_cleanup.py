"""Removes lock entries whose lock call was not answered or whose unlock failed.

A server that still has such a call may carry it out later. The entry that appears then would block the table for
everybody until its lease ends, or for ever where no reaper runs (apache/iceberg#2301, #9654).
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Final

from iceberg_hms.coordinator.ports import Runtime, TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.locks.lock_entries import LockEntries

logger = logging.getLogger(__name__)

#: Between two polls of the lock table.
POLL_INTERVAL_SECONDS: Final = 5.0
_END_CHECK_SECONDS: Final = 0.5
#: Entries that are searched for at the same time; beyond it the oldest are left to their lease.
WATCHED_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Watch:
    """until: by `Runtime.now()`. spare: as `LostLockCleanup.watch`."""

    until: float
    spare: int | None


class LostLockCleanup:
    """Searches for entries by agentInfo until a lease has passed, on one thread that ends when nothing is left."""

    def __init__(self, entries: LockEntries, runtime: Runtime, *, poll_seconds: float = POLL_INTERVAL_SECONDS) -> None:
        self._entries = entries
        self._runtime = runtime
        self._poll_seconds = poll_seconds
        self._closed = runtime.event()
        self._mutex = self._runtime.mutex()
        self._watched: dict[tuple[TableName, str], _Watch] = {}
        self._running = False

    def watch(self, name: TableName, agent_info: str, seconds: float, *, spare: int | None = None) -> None:
        """Remove every entry of a table with this agentInfo that is there now or appears within `seconds`. The caller
        must be done with the lock. spare: the id of an entry that stays, since its lock is left to its lease."""
        with self._mutex:
            self._watched[name, agent_info] = _Watch(self._runtime.now() + seconds, spare)
            while len(self._watched) > WATCHED_MAX:
                del self._watched[next(iter(self._watched))]
            start = not self._running
            self._running = True
        if start:
            try:
                self._runtime.spawn("lock-sweeper", self._sweep, background=True)
            except RuntimeError as error:
                # A good commit must not fail because no thread can clean up after its lock.
                logger.warning("Lost locks stay until the next one is lost: no thread could be started: %s", error)
                with self._mutex:
                    self._running = False

    def close(self) -> None:
        """Search once more and stop: what appears later is left to its lease."""
        self._closed.set()

    def _sweep(self) -> None:
        ending = False
        while True:
            with self._mutex:
                watched = list(self._watched.items())
                if not watched:
                    self._running = False
                    return
            for (name, agent_info), watch in watched:
                over = ending or self._runtime.now() >= watch.until
                self._remove(name, agent_info, watch.spare)
                if over:
                    with self._mutex:
                        self._watched.pop((name, agent_info), None)
            ending = ending or self._must_end()

    def _must_end(self) -> bool:
        """Wait until the next poll. True if nobody may wait for it: we are closed, or the process is ending."""
        next_poll = self._runtime.now() + self._poll_seconds
        while (remaining := next_poll - self._runtime.now()) > 0:
            if self._closed.wait(min(remaining, _END_CHECK_SECONDS)) or not threading.main_thread().is_alive():
                return True
        return False

    def _remove(self, name: TableName, agent_info: str, spare: int | None) -> None:
        try:
            for entry in self._entries.own(name, agent_info):
                if entry.lock_id == spare:
                    continue
                logger.info("Removing %s on %s, whose reply was lost", entry, name)
                self._entries.remove(entry)
        except MetastoreError as error:
            logger.debug("Searching for lost locks of %s failed and is repeated: %s", name, error.message)
