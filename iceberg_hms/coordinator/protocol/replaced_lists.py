"""Deletes clients' files that no snapshot names: a manifest list that the coordinator replaced with its own when it
committed the snapshot, and the files of a refused attempt whose change landed in a later attempt.

Java's client deletes its replaced list; PyIceberg leaves it. The coordinator must keep the list for a while: the client
may send the commit again, or read the list. Both clients delete the files of a refused attempt, unless the answer to
the attempt that landed was lost, the client may not delete files, or it was killed. Such a client has sent another list
with each attempt, under one snapshot id, and each list names the manifests that the client merged for it.

So the coordinator deletes such a file in a commit after `commit.replaced-list-age-ms`, if the table does not name it
then and it is one of the table's own (`own_files`). It forgets these files when its process ends, and never learns of
those of a change that never landed: both kinds are left to an orphan sweep.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, Manifests, Pointer
from iceberg_hms.coordinator.protocol.cleanup import delete_files
from iceberg_hms.coordinator.protocol.outcome import Committed
from iceberg_hms.coordinator.protocol.own_files import RecentOwnFiles
from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit, lost_its_place
from iceberg_hms.errors import IcebergHmsError, MissingFile
from iceberg_hms.format.metadata.metadata_file import folder
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)

#: How many lists to remember for a table; more are left to an orphan sweep.
REMEMBERED_MAX = 10_000
#: How many refused changes to remember for a table; the oldest are forgotten first.
REFUSED_MAX = 1_000
#: How many lists to remember for one refused change; Java and PyIceberg send a commit five times.
_ATTEMPTS_MAX = 16
#: How many lists to delete after one group.
_DELETED_MAX = 64
#: How many lists of refused attempts to read after one group. Most no longer exist, since their clients deleted them;
#: each of the others costs some reads, which delay the next group.
READ_MAX = 4
#: In how many snapshots to search for a manifest. If a table has more that may name it, the manifest is kept.
LOOKED_INTO_MAX = 16


@dataclass(frozen=True, slots=True)
class _AgingList:
    """A list that may be deleted when it is old enough.

    due: when that is, by `Runtime.now()`. changed: the snapshots of the change that landed after an attempt with this
    list was refused; empty for a list that the coordinator replaced.
    """

    due: float
    location: str
    changed: tuple[int, ...] = ()


class ReplacedLists:
    """The lists of one table that may be deleted later. Not safe for threads: a table has one worker at a time.

    Setting: commit.replaced-list-age-ms (0 = never delete).
    """

    def __init__(self, ports: CommitPorts, settings: Settings, own_files: RecentOwnFiles) -> None:
        self._ports = ports
        self._own_files = own_files
        self._age = settings.replaced_list_age_ms / 1000
        self._waiting: deque[_AgingList] = deque()
        #: The lists of changes that were refused, by the ids of their snapshots.
        self._refused: OrderedDict[tuple[int, ...], dict[str, None]] = OrderedDict()

    def add(self, locations: Iterable[str]) -> None:
        """Remember clients' lists whose snapshots the coordinator committed with lists of its own."""
        self._wait(locations)

    def settled(self, commits: Iterable[PendingCommit]) -> None:
        """Note the outcomes of a group. A change that lost its place on its branch may leave a list, which is garbage
        once the change has landed with another list."""
        for commit in commits:
            change = commit.change.identity
            if not change.lists:
                continue
            if lost_its_place(commit):
                lists = self._refused.setdefault(change.snapshot_ids, {})
                if len(lists) < _ATTEMPTS_MAX:
                    lists.update(dict.fromkeys(change.lists))
            elif _landed(commit):
                lists = self._refused.pop(change.snapshot_ids, {})
                self._wait((each for each in lists if each not in change.lists), change.snapshot_ids)
        while len(self._refused) > REFUSED_MAX:
            self._refused.popitem(last=False)

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
        own = self._own_files.of(row, named_at=max(each.due for each in unnamed) - self._age)
        unnamed = [each for each in unnamed if each.location in own]
        refused = [each for each in unnamed if each.changed]
        garbage = [each.location for each in unnamed if not each.changed]
        if refused:
            attempts = _RefusedAttempts(metadata, self._ports.manifests(), refused)
            garbage += [location for each in refused for location in attempts.garbage(each) if location in own]
        delete_files(self._ports.files, garbage)

    def _wait(self, locations: Iterable[str], changed: tuple[int, ...] = ()) -> None:
        if self._age:
            due = self._ports.runtime.now() + self._age
            # Drop the newest if there are too many: the oldest are due first.
            free = REMEMBERED_MAX - len(self._waiting)
            self._waiting.extend(_AgingList(due, location, changed) for location in islice(locations, free))

    def _take_old(self) -> list[_AgingList]:
        now = self._ports.runtime.now()
        old: list[_AgingList] = []
        to_read = 0
        while self._waiting and self._waiting[0].due <= now and len(old) < _DELETED_MAX and to_read < READ_MAX:
            old.append(self._waiting.popleft())
            to_read += bool(old[-1].changed)
        return old


class _RefusedAttempts:
    """Finds the garbage of refused attempts by the table's current metadata. A client chooses where its manifests lie
    too, so only those in the table's own metadata folder count."""

    def __init__(self, metadata: TableMetadata, manifests: Manifests, refused: Sequence[_AgingList]) -> None:
        self._metadata = metadata
        self._manifests = manifests
        self._heads = {ref.snapshot_id for ref in metadata.refs.values()}
        #: Snapshot id of a refused change -> the snapshots with it as their parent.
        self._made_on: dict[int, set[int]] = {id_: set() for each in refused for id_ in each.changed}
        for row in metadata.snapshot_rows:
            if row.get("parent-snapshot-id") in self._made_on:
                self._made_on[row["parent-snapshot-id"]].add(row["snapshot-id"])

    def garbage(self, attempt: _AgingList) -> list[str]:
        """The list of an attempt, and the manifests that its client merged for it and that no list names. Empty if a
        list cannot be read: the client may have deleted all of its files."""
        list_ = Snapshot({"snapshot-id": attempt.changed[-1], "manifest-list": attempt.location})
        try:
            # A manifest of added files alone may be one that a caller gave to the client, which names it in each
            # attempt.
            merged = {
                each.manifest_path
                for each in self._manifests.list(list_)
                if each.added_snapshot_id in attempt.changed
                and each.existing_files_count
                and _lies_in(self._metadata, each.manifest_path)
            }
            if merged:
                merged = self._unnamed(merged, attempt.changed)
        except MissingFile:
            return []
        except IcebergHmsError as error:
            logger.warning(
                "keeping the files of the refused list %s, since a list cannot be read: %s", attempt.location, error
            )
            return []
        return [*sorted(merged), attempt.location]

    def _unnamed(self, manifests: set[str], changed: Sequence[int]) -> set[str]:
        """The manifests that no list names; empty if the lists do not prove it. Raises MissingFile, CorruptFile,
        StorageError.

        A snapshot's list names manifests of its client and of its parent's list. So this reads the lists of the change
        and of the snapshots built on it. It also reads that of every head that is not older, in case a manifest came
        there in another way."""
        own = self._snapshots(changed)
        if len(own) < len(changed):
            return set()
        oldest = min(each.sequence_number for each in own)
        looked = {*changed, *(id_ for each in changed for id_ in self._made_on[each]), *self._heads}
        snapshots = [each for each in self._snapshots(looked) if each.sequence_number >= oldest]
        if len(snapshots) > LOOKED_INTO_MAX:
            return set()
        return manifests.difference(*({each.manifest_path for each in self._manifests.list(one)} for one in snapshots))

    def _snapshots(self, ids: Iterable[int]) -> list[Snapshot]:
        """The snapshots with these ids that are in the table."""
        return [each for each in map(self._metadata.snapshot_by_id, ids) if each is not None]


def _lies_in(metadata: TableMetadata, location: str) -> bool:
    """Whether a file is in the folder of a table's metadata."""
    return location.rpartition("/")[0] == folder(metadata)


def _landed(commit: PendingCommit) -> bool:
    match commit.outcome:
        case Committed(report=report):
            return not report.already_committed
    return False
