"""Pauses: a foreign writer that waits for the table's lock gets a moment in which nobody of ours moves the table.

Writers that go to the metastore by themselves (Java's HiveCatalog) get the lock in their turn, find that the table has
moved since they read it, give the lock back, read, build and ask again. A table that moves many times a second has
moved by then once more, so they lose until they give up. So every few groups the lock's queue is looked at, and if one
of them waits the table rests: until it has moved, for a bounded time, and at most for a share of all time.
"""

from __future__ import annotations

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.share import TimeShare
from iceberg_hms.coordinator.world import World
from iceberg_hms.errors import IcebergHmsError

#: How often the table is looked at while it rests.
_LOOK_SECONDS = 0.1


class Pauses:
    """The pauses of one table. Not safe for threads: a table has one worker at a time.

    Settings: commit.pause.every-groups (0 = no pauses), commit.pause.max-wait-ms, commit.pause.max-share-percent.
    """

    def __init__(self, world: World, settings: Settings, name: TableName) -> None:
        self._world = world
        self._name = name
        self._every = settings.pause_every_groups
        self._longest = settings.pause_max_wait_ms / 1000
        self._share = TimeShare(settings.pause_max_share_percent)
        self._groups = 0

    def after_group(self, location: str | None) -> bool:
        """A group has ended with the pointer at `location`, None if that is not known. Rests, if it is due and a
        foreign writer waits; True if it did."""
        self._groups += 1
        if not self._every or location is None or self._groups < self._every:
            return False
        runtime = self._world.runtime
        begun = runtime.now()
        if not self._share.is_left(begun):
            return False
        self._groups = 0
        if not self._world.foreign_waits(self._name):
            return False
        while runtime.now() - begun < self._longest and self._stands_at(location):
            runtime.sleep(_LOOK_SECONDS)
        self._share.used(begun, runtime.now())
        return True

    def _stands_at(self, location: str) -> bool:
        try:
            return self._world.pointer.load(self._name).metadata_location == location
        except IcebergHmsError:
            return False
