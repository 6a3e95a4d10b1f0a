"""Deletes the manifest lists of clients that the coordinator replaced with its own when it committed their snapshots.

Java's client deletes its replaced list; PyIceberg leaves it. The coordinator must keep the list for a while: the client
may send the commit again, or read the list. So it deletes the list in a commit after `commit.replaced-list-age-ms`, if
the table does not name it then and it is one of the table's own (`own_files`). It forgets these lists when its process
ends. They are left to an orphan sweep then, as are the files of refused attempts, which both clients delete themselves
unless they are killed or their answer is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.own_files import RecentOwnFiles, delete_own_files
from iceberg_hms.coordinator.ports import CommitPorts, Pointer
from iceberg_hms.format.metadata.metadata_file import folder
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: How many lists to remember for a table; more are left to an orphan sweep.
REMEMBERED_MAX = 10_000
#: How many lists to delete after one group.
_DELETED_MAX = 64


@dataclass(frozen=True, slots=True)
class _AgingList:
    """A list that may be deleted when it is old enough. due: when that is, by `Runtime.now()`."""

    due: float
    location: str


class ReplacedLists:
    """The lists of one table that may be deleted later. Not safe for threads: a table has one worker at a time.

    Setting: commit.replaced-list-age-ms (0 = never delete).
    """

    def __init__(self, ports: CommitPorts, settings: Settings, own_files: RecentOwnFiles) -> None:
        self._ports = ports
        self._own_files = own_files
        self._age = settings.replaced_list_age_ms / 1000
        self._waiting: deque[_AgingList] = deque()

    def add(self, locations: Iterable[str]) -> None:
        """Remember clients' lists whose snapshots the coordinator committed with lists of its own."""
        if self._age:
            due = self._ports.runtime.now() + self._age
            # Drop the newest if there are too many: the oldest are due first.
            free = REMEMBERED_MAX - len(self._waiting)
            self._waiting.extend(_AgingList(due, location) for location in islice(locations, free))

    def sweep(self, row: Pointer, metadata: TableMetadata) -> None:
        """Delete the lists that are old enough, that the table does not name, and that are its own. Raises
        MetastoreError; then they are left.

        metadata: the table's, as it is. row: as the last commit found it, before it moved the table."""
        old = self._take_old()
        if old:
            self._delete_garbage(old, row, metadata)

    def _delete_garbage(self, old: Sequence[_AgingList], row: Pointer, metadata: TableMetadata) -> None:
        named = {raw.get("manifest-list") for raw in metadata.snapshot_rows}
        # A client chooses where its list lies: a table has its lists in the folder of its metadata alone.
        unnamed = [each for each in old if each.location not in named and _lies_in(metadata, each.location)]
        if not unnamed:
            return
        lists = [each.location for each in unnamed]
        delete_own_files(self._ports, row, self._own_files.of(row), lists, "replaced lists")

    def _take_old(self) -> list[_AgingList]:
        now = self._ports.runtime.now()
        old: list[_AgingList] = []
        while self._waiting and self._waiting[0].due <= now and len(old) < _DELETED_MAX:
            old.append(self._waiting.popleft())
        return old


def _lies_in(metadata: TableMetadata, location: str) -> bool:
    """Whether a file is in the folder of a table's metadata."""
    return location.rpartition("/")[0] == folder(metadata)
