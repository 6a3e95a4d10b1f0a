"""Deletes clients' files that no snapshot names: manifest lists that we replaced with our own when we committed their
snapshot, and what a refused attempt left behind, once its change has landed by a later attempt.

Java's client deletes a replaced list, PyIceberg leaves it. It must stay for a while: its client may still send the
commit again, or read the list that it sent. Both clients delete what a refused attempt left, unless the answer to the
attempt that landed was lost, they may not delete, or they were killed. Such a client has sent another list with each
attempt, under one snapshot id, and in each list the manifests that it had merged for it.

So we delete these files after an age, if nothing names them then, when the table is next committed to. A sweep for
orphans removes what a process had not deleted when it ended, and what belongs to a change that never landed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, Manifests
from iceberg_hms.coordinator.protocol.cleanup import delete_files
from iceberg_hms.coordinator.protocol.outcome import Committed
from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit, lost_its_place
from iceberg_hms.errors import IcebergHmsError, MissingFile
from iceberg_hms.format.metadata.metadata_file import folder
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)

#: How many lists to remember for a table; further ones stay.
REMEMBERED_MAX = 10_000
#: How many refused changes to remember for a table; the oldest are forgotten first.
REFUSED_MAX = 1_000
#: How many lists to remember of one of them; Java and PyIceberg send a commit five times.
_ATTEMPTS_MAX = 16
#: How many to delete after one group.
_DELETED_MAX = 64
#: How many lists of refused attempts to read after one group. Most are gone, since their clients delete them; each of
#: the others costs some reads, which delay the next group.
READ_MAX = 4
#: How many snapshots to search for the name of a manifest. A table with more new refs than that keeps the manifest.
LOOKED_INTO_MAX = 16


@dataclass(frozen=True, slots=True)
class _Left:
    """A list that waits for its age.

    due: when it is old enough, by `Runtime.now()`. changed: the snapshots of the change that landed after this list was
    refused; empty for the list of a snapshot that landed with another one.
    """

    due: float
    location: str
    changed: tuple[int, ...] = ()


class ReplacedLists:
    """The lists of one table. Not safe for threads: a table has one worker at a time.

    Setting: commit.replaced-list-age-ms (0 = they are left).
    """

    def __init__(self, ports: CommitPorts, settings: Settings) -> None:
        self._ports = ports
        self._age = settings.replaced_list_age_ms / 1000
        self._waiting: deque[_Left] = deque()
        #: The lists of changes that were refused, by the ids of their snapshots.
        self._refused: OrderedDict[tuple[int, ...], dict[str, None]] = OrderedDict()

    def add(self, locations: Iterable[str]) -> None:
        """Snapshots were committed whose clients' lists these are."""
        self._wait(locations)

    def settled(self, commits: Iterable[PendingCommit]) -> None:
        """The outcomes of a group are known: a change that lost its place on its branch leaves a list, which is useless
        once the change has landed with another one."""
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

    def sweep(self, current: Callable[[], TableMetadata]) -> None:
        """Delete those that are old enough and that nothing of the table names. current: the table's metadata, read
        only if something is due."""
        old = self._take_old()
        if old:
            metadata = current()
            named = {raw.get("manifest-list") for raw in metadata.snapshot_rows}
            # Where its list is, is what a client says: only what lies in the table's own folder is taken for one.
            unnamed = [each for each in old if each.location not in named and _lies_in(metadata, each.location)]
            refused = [each for each in unnamed if each.changed]
            garbage = [each.location for each in unnamed if not each.changed]
            if refused:
                attempts = _RefusedAttempts(metadata, self._ports.manifests(), refused)
                garbage += [location for each in refused for location in attempts.garbage(each)]
            delete_files(self._ports.files, garbage)

    def _wait(self, locations: Iterable[str], changed: tuple[int, ...] = ()) -> None:
        if self._age:
            due = self._ports.runtime.now() + self._age
            # The newest are not remembered: the oldest are about to be old enough.
            free = REMEMBERED_MAX - len(self._waiting)
            self._waiting.extend(_Left(due, location, changed) for location in islice(locations, free))

    def _take_old(self) -> list[_Left]:
        now = self._ports.runtime.now()
        old: list[_Left] = []
        to_read = 0
        while self._waiting and self._waiting[0].due <= now and len(old) < _DELETED_MAX and to_read < READ_MAX:
            old.append(self._waiting.popleft())
            to_read += bool(old[-1].changed)
        return old


class _RefusedAttempts:
    """What is garbage of attempts that were refused, by the table as it is now. Which manifests are its own is what a
    client says, too."""

    def __init__(self, metadata: TableMetadata, manifests: Manifests, refused: Sequence[_Left]) -> None:
        self._metadata = metadata
        self._manifests = manifests
        self._heads = {ref.snapshot_id for ref in metadata.refs.values()}
        #: The snapshots that were made on those of the changes.
        self._made_on: dict[int, set[int]] = {id_: set() for each in refused for id_ in each.changed}
        for row in metadata.snapshot_rows:
            if row.get("parent-snapshot-id") in self._made_on:
                self._made_on[row["parent-snapshot-id"]].add(row["snapshot-id"])

    def garbage(self, attempt: _Left) -> list[str]:
        """The list of an attempt, and the manifests that were merged for it and that nothing names. Neither if a list
        cannot be read: it may be gone because its client has deleted all of it."""
        list_ = Snapshot({"snapshot-id": attempt.changed[-1], "manifest-list": attempt.location})
        try:
            # One that holds added files alone may have been handed to its client, which then names it every time.
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
            logger.warning("what %s leaves is kept, since a list cannot be read: %s", attempt.location, error)
            return []
        return [*sorted(merged), attempt.location]

    def _unnamed(self, manifests: set[str], changed: Sequence[int]) -> set[str]:
        """Those of the manifests that no list names; none of them if the lists do not prove it. Raises
        MissingFile, CorruptFile, StorageError.

        A manifest comes into a list from its client or from the parent's list. So this reads the lists of the change
        and of the snapshots built on it; and of every head that is not older, in case there is another way."""
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
        """Those of them that are in the table."""
        return [each for each in map(self._metadata.snapshot_by_id, ids) if each is not None]


def _lies_in(metadata: TableMetadata, location: str) -> bool:
    """Whether a file is in the folder of a table's metadata."""
    return location.rpartition("/")[0] == folder(metadata)


def _landed(commit: PendingCommit) -> bool:
    match commit.outcome:
        case Committed(report=report):
            return not report.already_committed
    return False
