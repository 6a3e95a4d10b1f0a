"""What waits and what is held now: commits in the queues of this server, locks in the metastore and ZooKeeper, and the
memory of requests.

The queues are in memory. Locks are listed by their servers, all at once, so at most once in
`rest.lock-metrics-interval-ms`, on a thread, and only when somebody scrapes: a scrape never waits for that, and gets
what the last listing found, with its age. A server that does not let the catalog list its locks has no such figures.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from iceberg_hms.lock_record import LockRecord
from iceberg_hms.rest.counters import of_warehouse, sample, samples_head, single
from iceberg_hms.rest.dispatch import ServerContext

logger = logging.getLogger(__name__)

_ACQUIRED: Final = "ACQUIRED"


class Gauges:
    """The gauges of all warehouses of a server. Only the event loop calls it."""

    def __init__(self, contexts: Sequence[ServerContext]) -> None:
        self._contexts = contexts
        self._locks = [_Locks(context) for context in contexts]

    def render(self) -> str:
        """The gauges as text. Begins to list the locks anew if the last listing is old."""
        for locks in self._locks:
            locks.refresh()
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        server = self._contexts[0]
        held, most = server.memory.held(), server.settings.rest_memory_max_bytes
        yield from single("rest_memory_bytes", "gauge", "Bytes of the memory budget that requests hold.", held)
        yield from single("rest_memory_max_bytes", "gauge", "The memory budget, rest.memory.max-bytes.", most)
        waiting = [(context.warehouse, context.catalog.services.coordinator.waiting()) for context in self._contexts]
        yield from samples_head("rest_commits_waiting", "gauge", "Commits that wait in the queues of their tables.")
        for warehouse, (count, _) in waiting:
            yield sample("rest_commits_waiting", of_warehouse(warehouse), count)
        yield from samples_head("rest_commits_waiting_seconds", "gauge", "How long the oldest of these has waited.")
        for warehouse, (_, seconds) in waiting:
            yield sample("rest_commits_waiting_seconds", of_warehouse(warehouse), seconds)
        listed = [locks for locks in self._locks if locks.found is not None]
        yield from samples_head("rest_locks", "gauge", "Locks of all writers, as the last listing found them.")
        for locks in listed:
            for state, count in (locks.found or {}).items():
                yield sample("rest_locks", {"state": state} | of_warehouse(locks.warehouse), count)
        yield from samples_head("rest_locks_age_seconds", "gauge", "How old the last listing of locks is.")
        for locks in listed:
            yield sample("rest_locks_age_seconds", of_warehouse(locks.warehouse), locks.age)


class _Locks:
    """The locks of one warehouse. found: how many there are of each state; None before they were listed, and where
    they cannot be listed."""

    def __init__(self, context: ServerContext) -> None:
        self.warehouse = context.warehouse
        self.found: Mapping[str, int] | None = None
        self._context = context
        self._listed = 0.0
        self._asked: float | None = None
        self._listing: asyncio.Task[None] | None = None
        self._problem = ""

    @property
    def age(self) -> float:
        """Seconds since the last listing."""
        return self._context.clock.monotonic() - self._listed

    def refresh(self) -> None:
        """Begin to list the locks anew, if that is due."""
        seconds = self._context.settings.rest_lock_metrics_interval_ms / 1000
        now = self._context.clock.monotonic()
        running = self._listing is not None and not self._listing.done()
        if not seconds or running or (self._asked is not None and now - self._asked < seconds):
            return
        self._asked = now
        self._listing = asyncio.create_task(self._list())

    async def _list(self) -> None:
        try:
            listing = await self._context.read_threads.run(lambda: self._context.catalog.locks.list())
        except Exception as error:  # noqa: BLE001 - without a listing there are no figures, and that is all
            self.found = None
            self._tell(str(error))
            return
        self._tell("; ".join(listing.problems))
        self.found = None if listing.problems and not listing.locks else _counted(listing.locks)
        self._listed = self._context.clock.monotonic()

    def _tell(self, problem: str) -> None:
        """Log a problem once, not at each scrape."""
        if problem and problem != self._problem:
            logger.info("the locks of warehouse %s are not counted: %s", self.warehouse, problem)
        self._problem = problem


def _counted(locks: Sequence[LockRecord]) -> dict[str, int]:
    dead = sum(bool(lock.seems_dead) for lock in locks)
    held = sum(lock.state == _ACQUIRED and not lock.seems_dead for lock in locks)
    return {"held": held, "waiting": len(locks) - held - dead, "dead": dead}
