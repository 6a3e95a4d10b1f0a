"""What other writers committed to a branch since an operation's starting snapshot, and whether it conflicts.

Each check names the snapshot and the file that break an assumption. The rules are those of Java's
MergingSnapshotProducer: only snapshots of some operations count for each check, and of these only the manifests that
they added are read.

A snapshot of operation `replace` adds no rows: a compaction that landed meanwhile moved rows that were there before.
So it conflicts with nothing that only asks for new data or new deletes. It does remove files, which conflicts with all
that names or deletes them. And it may have turned newer equality deletes, which would apply to an operation's new
files, into positions, which do not: `no_positions_for` counts them, and Java does not.

If the starting snapshot is no longer in the branch's history (it expired, or the branch was rolled back), nobody can
tell what happened since, and the operation is refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final, Literal

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.delete_index import DeleteIndex
from iceberg_hms.changes.operations.manifests.file_scope import EveryRow, FileScope
from iceberg_hms.changes.operations.manifests.live_files import OnceRead, listed_names, snapshots_of
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent
from iceberg_hms.format.metadata.snapshot import Snapshot

#: `RequirementFailed.name` of the assumptions.
HISTORY: Final = "starting-snapshot"
NO_NEW_DATA: Final = "no-new-data-files"
NO_REMOVED_DATA: Final = "no-removed-data-files"
NO_NEW_DELETES: Final = "no-new-delete-files"
NO_DELETES_FOR_FILES: Final = "no-new-deletes-for-files"
NO_NEW_VECTORS: Final = "no-new-deletion-vectors"

#: Isolation levels (Java: IsolationLevel). "serializable": rows that others added or deleted, which the operation might
#: have read, conflict with it. "snapshot": only those that others deleted.
Isolation = Literal["serializable", "snapshot"]

#: Which operations' snapshots may add data files, remove some, add deletes, and write delete files of new or old ones.
_ADD_DATA: Final = frozenset({"append", "overwrite"})
_REMOVE_DATA: Final = frozenset({"overwrite", "replace", "delete"})
_ADD_DELETES: Final = frozenset({"overwrite", "delete"})
_WRITE_DELETES: Final = frozenset({"overwrite", "delete", "replace"})


def check_isolation(isolation: str) -> None:
    """Raises InvalidInput for what is no isolation level."""
    if isolation not in ("serializable", "snapshot"):
        raise InvalidInput(f'isolation must be "serializable" or "snapshot", but is {isolation!r}')


@dataclass(frozen=True, slots=True)
class Since:
    """What happened to a branch since an operation's start.

    state: the branch now. snapshots: those of others since then, newest first. sequence_number: that of the starting
    snapshot; 0 without one, and in format version 1. own: those of earlier steps of the same transaction.
    """

    state: BranchState
    snapshots: tuple[Snapshot, ...]
    sequence_number: int
    own: tuple[Snapshot, ...] = ()

    def of(self, operations: frozenset[str]) -> Sequence[Snapshot]:
        """Those of some operations. An old snapshot that does not name its operation may be of any."""
        return [each for each in self.snapshots if each.operation is None or each.operation in operations]


class Conflicts:
    """The checks of one operation. new: what its snapshot has from its caller: branch, starting snapshot, and the
    snapshots of earlier steps of the same transaction, which never conflict."""

    def __init__(self, new: NewSnapshot) -> None:
        self._new = new
        #: By snapshot, whose own manifests never change, and by what else decides.
        self._once: OnceRead[Hashable, Sequence[ManifestEntry]] = OnceRead(())

    def since_start(self, state: BranchState) -> Since:
        """The snapshots of others since the start, newest first. Raises RequirementFailed if the starting snapshot is
        not in the branch's history."""
        found: list[Snapshot] = []
        at = None if state.parent is None else state.parent.snapshot_id
        for snapshot in state.metadata.ancestors(at):
            if snapshot.snapshot_id == self._new.start_id:
                at = snapshot.snapshot_id
                break
            found.append(snapshot)
            at = snapshot.parent_snapshot_id
        if at != self._new.start_id:
            start = "an empty branch" if self._new.start_id is None else f"snapshot {self._new.start_id}"
            raise RequirementFailed(
                HISTORY,
                f"{self._new.branch} no longer has the history since {start}, on which the operation was planned",
                expected=self._new.start_id,
                found=None if state.parent is None else state.parent.snapshot_id,
                next_step="reload the table and plan the operation again",
            )
        others = tuple(each for each in found if each.snapshot_id not in self._new.earlier_ids)
        own = tuple(each for each in found if each.snapshot_id in self._new.earlier_ids)
        return Since(state, others, _start_number(state, at, found), own)

    def no_changes(self, state: BranchState, scope: FileScope, isolation: Isolation, manifests: Manifests) -> None:
        """Raises RequirementFailed if since the start a snapshot changed rows in the scope; with "snapshot" isolation
        it may have added some."""
        since = self.since_start(state)
        if isolation == "serializable":
            self.no_new_data(since, scope, manifests)
        self.no_removed_data(since, scope, manifests)
        self.no_new_deletes(since, scope, manifests)

    def no_new_data(self, since: Since, scope: FileScope, manifests: Manifests) -> None:
        """Raises RequirementFailed if a snapshot added a data file in the scope (Java: validateAddedDataFiles)."""
        for snapshot in since.of(_ADD_DATA):
            found = self._own(_ADDED, snapshot, since, scope, manifests)
            _refuse(NO_NEW_DATA, "added", found, snapshot, scope)

    def no_removed_data(self, since: Since, scope: FileScope, manifests: Manifests) -> None:
        """Raises RequirementFailed if a snapshot removed a data file in the scope (Java: validateDeletedDataFiles)."""
        for snapshot in since.of(_REMOVE_DATA):
            found = self._own(_REMOVED, snapshot, since, scope, manifests)
            _refuse(NO_REMOVED_DATA, "removed", found, snapshot, scope)

    def no_new_deletes(self, since: Since, scope: FileScope, manifests: Manifests) -> None:
        """Raises RequirementFailed if a snapshot added a delete file in the scope (Java: validateNoNewDeleteFiles)."""
        for snapshot in since.of(_ADD_DELETES):
            found = self._own(_NEW_DELETES, snapshot, since, scope, manifests)
            _refuse(NO_NEW_DELETES, "deleted rows with", found, snapshot, scope)

    def no_positions_for(self, since: Since, data_files: Iterable[DataFile], manifests: Manifests) -> None:
        """Raises RequirementFailed if a snapshot, also one of an earlier step, added position deletes that apply to one
        of the data files, all of which the starting snapshot had (Java: validateNoNewDeletesForDataFiles). New equality
        deletes apply to files that keep the starting snapshot's sequence number as to those that they replace."""
        new = [
            entry
            for snapshot in (*since.of(_WRITE_DELETES), *since.own)
            for entry in self._own(_NEW_DELETES, snapshot, since, EveryRow(), manifests)
            if entry.data_file.content == FileContent.POSITION_DELETES
        ]
        if not new:
            return
        index = DeleteIndex(new, since.state.metadata)
        for data_file in data_files:
            for entry in index.applying_to(data_file, since.sequence_number):
                raise RequirementFailed(
                    NO_DELETES_FOR_FILES,
                    f"snapshot {entry.snapshot_id} deleted rows of {data_file.file_path}, which the operation "
                    f"replaces, with {entry.data_file.file_path}",
                    expected="no new deletes for the files",
                    found=entry.data_file.file_path,
                    rests_on=snapshots_of(entry),
                )

    def no_new_vectors(self, since: Since, referenced: frozenset[str], manifests: Manifests) -> None:
        """Raises RequirementFailed if a snapshot added a deletion vector for one of the data files, given by their keys
        (Java: validateAddedDVs)."""
        for snapshot in since.of(_WRITE_DELETES) if referenced else ():
            found = [
                each
                for each in self._own(_ADDED_DELETES, snapshot, since, EveryRow(), manifests)
                if each.data_file.is_deletion_vector
                and file_key(each.data_file.referenced_data_file or "/") in referenced
            ]
            if found:
                path = found[0].data_file.referenced_data_file
                raise RequirementFailed(
                    NO_NEW_VECTORS,
                    f"snapshot {snapshot.snapshot_id} added a deletion vector for {path}, and a data file has only one",
                    expected="no new deletion vector",
                    found=path,
                    rests_on=frozenset({snapshot.snapshot_id}),
                    next_step="reload the table, and merge the deleted positions with those of the new vector",
                )

    def remover_of(self, since: Since, key: str, manifests: Manifests) -> Snapshot | None:
        """The snapshot that removed a data file, given by its key; None if none did since the start."""
        for snapshot in since.of(_REMOVE_DATA):
            found = self._own(_REMOVED, snapshot, since, EveryRow(), manifests)
            if any(file_key(entry.data_file.file_path) == key for entry in found):
                return snapshot
        return None

    def _own(
        self, what: _Entries, snapshot: Snapshot, since: Since, scope: FileScope, manifests: Manifests
    ) -> Sequence[ManifestEntry]:
        """The entries that count, of files in the scope, in the manifests that the snapshot added."""
        # A scope is bound to the schema, by which it finds its columns.
        key = (what, snapshot.snapshot_id, snapshot.manifest_list, str(scope), since.state.metadata.schema.content)
        (found,) = self._once.of([key], lambda _: [(key, self._read(what, snapshot, since, scope, manifests))])
        return found

    def _read(
        self, what: _Entries, snapshot: Snapshot, since: Since, scope: FileScope, manifests: Manifests
    ) -> Sequence[ManifestEntry]:
        # Most snapshots are appends, of whose list only the beginning needs to be read.
        added = manifests.added(snapshot) if snapshot.operation == "append" else None
        listed = manifests.list(snapshot) if added is None else added
        content = ManifestContent.DATA if what in (_ADDED, _REMOVED) else ManifestContent.DELETES
        own = [
            each
            for each in listed
            if each.content == content
            and each.added_snapshot_id == snapshot.snapshot_id
            and scope.may_match_manifest(each)
        ]
        counts = partial(_counts, what, snapshot.snapshot_id, since.sequence_number)
        return [each for each in manifests.entries(own, counts) if scope.may_match(each.data_file)]


def _start_number(state: BranchState, start_id: int | None, later: Sequence[Snapshot]) -> int:
    start = None if start_id is None else state.metadata.snapshot_by_id(start_id)
    if start is not None:
        return start.sequence_number
    # It has expired. No file of the branch has a number between its own and the next snapshot's.
    return 0 if start_id is None or not later else max(0, later[-1].sequence_number - 1)


class _Entries(Enum):
    """Which entries of a snapshot's own manifests count."""

    ADDED = auto()
    REMOVED = auto()
    ADDED_DELETES = auto()
    #: Also those that an earlier snapshot since the start added, in a manifest that this one rewrote.
    NEW_DELETES = auto()


_ADDED, _REMOVED, _ADDED_DELETES, _NEW_DELETES = _Entries


def _counts(what: _Entries, snapshot_id: int, start: int, entry: ManifestEntry) -> bool:
    match what:
        case _Entries.NEW_DELETES:
            return entry.is_live and (entry.sequence_number or 0) > start
        case _Entries.REMOVED:
            return entry.status == EntryStatus.DELETED and entry.snapshot_id == snapshot_id
        case _:
            return entry.status == EntryStatus.ADDED and entry.snapshot_id == snapshot_id


def _refuse(name: str, did: str, found: Sequence[ManifestEntry], snapshot: Snapshot, scope: FileScope) -> None:
    if not found:
        return
    paths = [entry.data_file.file_path for entry in found]
    raise RequirementFailed(
        name,
        f"snapshot {snapshot.snapshot_id} {did} {listed_names(paths)} in {scope} since the operation was planned",
        expected="no such file",
        found=tuple(paths),
        rests_on=frozenset({snapshot.snapshot_id}),
    )
