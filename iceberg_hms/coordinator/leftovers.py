"""Manifest lists of clients that no snapshot names, because their snapshot was committed with another one.

Java's client deletes its own, PyIceberg leaves it. It must stay for a while: its client may still send the commit
again, or look at what it sent. So it is deleted after an age, if no snapshot names it then, when the table is next
committed to. What a process that ends has not deleted is left to a sweep for orphans.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.garbage import delete_files
from iceberg_hms.coordinator.world import World
from iceberg_hms.format.metadata import TableMetadata

#: How many are remembered for a table; more than that are left.
REMEMBERED_MAX = 10_000
#: How many are deleted after one group.
_DELETED_MAX = 64


class Leftovers:
    """Those of one table. Not safe for threads: a table has one worker at a time.

    Setting: commit.replaced-list-age-ms (0 = they are left).
    """

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._age = settings.replaced_list_age_ms / 1000
        self._waiting: deque[tuple[float, str]] = deque()

    def add(self, locations: Iterable[str]) -> None:
        """Snapshots were committed whose clients' lists these are."""
        if self._age:
            due = self._world.runtime.now() + self._age
            self._waiting.extend((due, location) for location in locations)
            while len(self._waiting) > REMEMBERED_MAX:
                self._waiting.popleft()

    def sweep(self, current: Callable[[], TableMetadata]) -> None:
        """Delete those that are old enough and that no snapshot of the table names. current: the table's metadata, read
        only if something is due."""
        now = self._world.runtime.now()
        old: list[str] = []
        while self._waiting and self._waiting[0][0] <= now and len(old) < _DELETED_MAX:
            old.append(self._waiting.popleft()[1])
        if old:
            named = {raw.get("manifest-list") for raw in current().snapshot_rows}
            delete_files(self._world.files, [location for location in old if location not in named])
