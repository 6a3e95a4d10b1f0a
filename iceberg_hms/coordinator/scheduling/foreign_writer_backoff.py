"""Pauses our commits for a moment when a foreign writer waits for the table's lock.

Writers that go to the metastore by themselves (Java's HiveCatalog) get the lock in their turn, find that the table has
moved since they read it, give the lock back, read, build and ask again. A table that moves many times a second has
moved by then once more, so they lose until they give up. So if one of them waits for the lock, or has just had it in
vain, the table rests: until it has moved, for a bounded time, and at most for a share of all time.

The lock's queue is looked at from time to time. As they wait only for a moment of each attempt, it is looked at after
every group while one of them is about.
"""

from __future__ import annotations

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.scheduling.time_budget import TimeBudget
from iceberg_hms.errors import IcebergHmsError

#: For so long after a foreign writer was there it is looked after every group whether it waits.
_ABOUT_SECONDS = 30.0
#: How often the table is looked at while it rests.
_LOOK_SECONDS = 0.1


class ForeignWriterBackoff:
    """The pauses of one table. Not safe for threads: a table has one worker at a time.

    Settings, below `commit.foreign-writer-backoff`: check-interval-ms, max-wait-ms (0 = no pauses), max-share-percent.
    """

    def __init__(self, world: CommitPorts, settings: Settings, name: TableName) -> None:
        self._world = world
        self._name = name
        self._interval = settings.foreign_writer_check_interval_ms / 1000
        self._longest = settings.foreign_writer_max_wait_ms / 1000
        self._share = TimeBudget(settings.foreign_writer_max_share_percent)
        self._looked_at = float("-inf")
        self._seen_at = float("-inf")

    def after_group(self, location: str | None, *, behind_foreign_writer: bool = False, moved: bool = False) -> bool:
        """A group has ended with the pointer at `location`, None if that is not known. Rests, if it is due and a
        foreign writer waits or has lost; True if it did.

        behind_foreign_writer: a foreign writer had the lock before the group. moved: another writer, perhaps another
        process of ours, had moved the table before the group; if not, the foreign writer lost."""
        runtime = self._world.runtime
        begun = runtime.now()
        lost = behind_foreign_writer and not moved
        if behind_foreign_writer:
            self._seen_at = begun
        is_due = begun - self._looked_at >= self._interval or begun - self._seen_at < _ABOUT_SECONDS
        if not self._longest or location is None or not is_due or not self._share.is_left(begun):
            return False
        self._looked_at = begun
        if not (lost or self._world.foreign_writer_waits(self._name)):
            return False
        self._seen_at = begun
        while runtime.now() - begun < self._longest and self._stands_at(location):
            runtime.sleep(_LOOK_SECONDS)
        ended = runtime.now()
        self._share.used(begun, ended)
        self._world.events.publish({"event": "foreign-writer-backoff", "table": self._name, "seconds": ended - begun})
        return True

    def _stands_at(self, location: str) -> bool:
        try:
            return self._world.pointer.load(self._name).metadata_location == location
        except IcebergHmsError:
            return False
