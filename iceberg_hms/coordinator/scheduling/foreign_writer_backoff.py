"""Pauses our commits to a table while a foreign writer waits for its lock.

Writers that go to the metastore by themselves (Java's HiveCatalog) get the lock in their turn, find that the table has
moved since they read it, unlock, read, build and ask again. A table that moves many times a second has moved once more
by then, so they lose until they give up. So when a foreign writer waits for the lock, or held it and lost, our commits
pause until the table has moved, for a bounded time, and for at most a share of all time.

Looking for foreign writers costs a metastore call, so the worker checks from time to time only. A foreign writer waits
for just a moment of each attempt, so while one was seen lately the worker checks after every group.
"""

from __future__ import annotations

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.scheduling.time_budget import TimeBudget
from iceberg_hms.errors import IcebergHmsError

#: After a foreign writer was seen, check after every group for this long.
_SEEN_LATELY_SECONDS = 30.0
#: How often to load the table's pointer during a pause.
_POLL_SECONDS = 0.1


class ForeignWriterBackoff:
    """The pauses of one table. Not safe for threads: a table has one worker at a time.

    Settings, below `commit.foreign-writer-backoff`: check-interval-ms, max-wait-ms (0 = never pause),
    max-share-percent.
    """

    def __init__(self, ports: CommitPorts, settings: Settings, name: TableName) -> None:
        self._ports = ports
        self._name = name
        self._check_interval = settings.foreign_writer_check_interval_ms / 1000
        self._max_wait = settings.foreign_writer_max_wait_ms / 1000
        self._budget = TimeBudget(settings.foreign_writer_max_share_percent)
        self._checked_at = float("-inf")
        self._seen_at = float("-inf")

    def pause_after_group(
        self, location: str | None, *, behind_foreign_writer: bool = False, moved: bool = False
    ) -> bool:
        """Called when a group has ended. Pauses if a check is due and a foreign writer waits or has lost; True if it
        paused.

        location: where the group left the pointer; None if that is unknown.
        behind_foreign_writer: a foreign writer had the lock before the group.
        moved: another writer (perhaps another process of ours) moved the table before the group; if none did, the
        foreign writer lost."""
        runtime = self._ports.runtime
        begun = runtime.now()
        lost = behind_foreign_writer and not moved
        if behind_foreign_writer:
            self._seen_at = begun
        is_due = begun - self._checked_at >= self._check_interval or begun - self._seen_at < _SEEN_LATELY_SECONDS
        if not self._max_wait or location is None or not is_due or not self._budget.allows(begun):
            return False
        self._checked_at = begun
        if not (lost or self._ports.foreign_writer_waits(self._name)):
            return False
        self._seen_at = begun
        while runtime.now() - begun < self._max_wait and self._is_still_at(location):
            runtime.sleep(_POLL_SECONDS)
        ended = runtime.now()
        self._budget.spend(begun, ended)
        self._ports.events.publish({"event": "foreign-writer-backoff", "table": self._name, "seconds": ended - begun})
        return True

    def _is_still_at(self, location: str) -> bool:
        try:
            return self._ports.pointer.load(self._name).metadata_location == location
        except IcebergHmsError:
            return False
