"""What stock clients of the REST server send: snapshots that they made, with lists and manifests on disk.

APPEND     adds a data file: a blind append, because the table promises snapshot isolation only
VALIDATED  adds a data file, by a writer that may have read the table: its summary has a property that says so
MERGE      adds a data file, in one manifest with the files of some manifests of the table, which it replaces
DELETE     removes a data file: writes its manifest again, without it
MASK       deletes the rows of a data file by a delete file; from format version 2 on
REWRITE    replaces two data files by one with the same rows
INVALID    sets a property, adds a snapshot, and has an update that cannot be applied
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Update
from iceberg_hms.changes.clients import blind_append
from iceberg_hms.changes.summary import totals
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from simulation.world.cluster import TABLE, ClusterNode
from simulation.world.history import WriteAttempt

#: An unknown summary property, which may mean that the writer read the table.
_READS = {"flink.max-committed-checkpoint-id": "7"}
#: How many manifests a merge replaces at most.
_MERGED_MAX = 3
#: The bytes of each file.
_FILE_SIZE = 10


class CommitKind(StrEnum):
    APPEND = "append"
    VALIDATED = "validated"
    MERGE = "merge"
    DELETE = "delete"
    MASK = "mask"
    REWRITE = "rewrite"
    INVALID = "invalid"


#: The kinds that a changed table may refuse, whatever its rebase setting.
NEVER_REBASED = frozenset((CommitKind.DELETE, CommitKind.MASK))


@dataclass(frozen=True)
class SentSnapshot:
    """One snapshot as a client sends it. base: the table that the client read. made: the files that only the snapshot
    names, its list first, without its data."""

    base: TableMetadata
    updates: Sequence[Update]
    made: tuple[str, ...]


@dataclass(frozen=True)
class _Before:
    """The head on which a client works. masked: data files with a delete file."""

    snapshot: Snapshot | None
    manifests: Sequence[ManifestFile]
    entries: Sequence[tuple[ManifestFile, ManifestEntry]]
    masked: frozenset[str | None]

    def live(self) -> list[str]:
        """Its data files without a delete file."""
        paths = (entry.data_file.file_path for _, entry in self.entries if entry.data_file.content == FileContent.DATA)
        return [path for path in paths if path not in self.masked]

    def manifests_of(self, paths: Iterable[str]) -> list[ManifestFile]:
        wanted = set(paths)
        found = {each.manifest_path: each for each, entry in self.entries if entry.data_file.file_path in wanted}
        return list(found.values())

    def entries_of(self, manifests: Sequence[ManifestFile]) -> list[ManifestEntry]:
        wanted = {each.manifest_path for each in manifests}
        return [entry for manifest, entry in self.entries if manifest.manifest_path in wanted]


class SnapshotBuilder:
    """Makes the snapshot of one operation, as often as needed: the same snapshot id and data, new manifests and a new
    list.

    It chooses once what it deletes or rewrites; when that has left the table, the client gives up. data: its own files.
    """

    def __init__(self, node: ClusterNode, attempt: WriteAttempt, commit_kind: CommitKind) -> None:
        self._node = node
        self._attempt = attempt
        self._commit_kind = commit_kind
        self._chosen: tuple[str, ...] = ()
        #: What it merged the last time, and what became of it.
        self._merged: tuple[Sequence[ManifestFile], Sequence[ManifestFile]] | None = None
        self.data: dict[str, None] = {}

    def make(self, base: TableMetadata) -> SentSnapshot | None:
        """The snapshot on a table that its client read. None: there is nothing to do, or no longer. Raises StorageError
        and MissingFile."""
        attempt = self._attempt
        ref = base.ref(attempt.branch)
        head = base.current_snapshot if ref is None else base.snapshot_by_id(ref.snapshot_id)
        before = self._look_at(head)
        mode = blind_append.policy_for(base, self._namespace_policy).mode
        attempt.never_rebased = self._commit_kind in NEVER_REBASED or mode == blind_append.NONE
        attempt.never_rebased = attempt.never_rebased or (
            self._commit_kind is CommitKind.VALIDATED and mode != blind_append.ALL
        )
        match self._commit_kind:
            case CommitKind.DELETE:
                made = self._delete(base, before)
            case CommitKind.MASK:
                made = self._mask(base, before)
            case CommitKind.REWRITE:
                made = self._rewrite(base, before)
            case CommitKind.MERGE:
                made = self._merge(base, before)
            case _:
                made = self._append(base, before)
        if made is not None:
            attempt.parents_seen.append(None if head is None else head.snapshot_id)
            attempt.lists.add(made.made[0])
        return made

    def _namespace_policy(self) -> blind_append.RebasePolicy:
        """The namespace's setting, read without a call that could fail."""
        text = self._node.cluster.metastore.database_parameters(TABLE.namespace).get(blind_append.REBASE_APPENDS)
        return (
            blind_append.default_policy()
            if text is None
            else blind_append.RebasePolicy(blind_append.parse_mode(text), "")
        )

    def forget(self) -> None:
        """The manifests of the last attempt are deleted: write new ones."""
        self._merged = None

    def _look_at(self, head: Snapshot | None) -> _Before:
        manifests = self._node.manifests()
        listed = () if head is None else tuple(manifests.list(head))
        entries = [(each, entry) for each in listed for entry in manifests.entries([each]) if entry.is_live]
        masks = (entry.data_file for _, entry in entries if entry.data_file.content != FileContent.DATA)
        return _Before(head, listed, entries, frozenset(each.referenced_data_file for each in masks))

    def _append(self, base: TableMetadata, before: _Before) -> SentSnapshot:
        own = self._write(base, [self._added()])
        extra = _READS if self._commit_kind is CommitKind.VALIDATED else {}
        made = self._snapshot(base, before, own, (), {"operation": "append", **_added_files(1), **extra})
        if self._commit_kind is CommitKind.INVALID:
            marked = updates.set_properties({self._attempt.mark or "": "1"})
            made = replace(made, updates=(marked, *made.updates, updates.set_snapshot_ref(MAIN_BRANCH, 1, kind="tag")))
        return made

    def _merge(self, base: TableMetadata, before: _Before) -> SentSnapshot:
        candidates = [each for each in before.manifests if each.content == ManifestContent.DATA and each.has_live_files]
        there = {each.manifest_path for each in candidates}
        if self._merged is None or not there.issuperset(each.manifest_path for each in self._merged[0]):
            chosen = candidates[: 1 + self._node.random.below(_MERGED_MAX)]
            kept = [replace(each, status=EntryStatus.EXISTING) for each in before.entries_of(chosen)]
            self._merged = chosen, self._write(base, [self._added(), *kept])
        merged, own = self._merged
        return self._snapshot(base, before, own, merged, {"operation": "append", **_added_files(1)})

    def _delete(self, base: TableMetadata, before: _Before) -> SentSnapshot | None:
        if not self._choose(before, 1):
            return None
        self._attempt.deleted_rows = self._rows_of_chosen()
        replaced = before.manifests_of(self._chosen)
        own = self._write(base, self._without_chosen(before, replaced))
        return self._snapshot(base, before, own, replaced, {"operation": "delete", **self._removed_files(before)})

    def _mask(self, base: TableMetadata, before: _Before) -> SentSnapshot | None:
        if base.format_version == 1 or not self._choose(before, 1):
            return None
        self._attempt.deleted_rows = self._rows_of_chosen()
        path = f"file:/t/data/{self._attempt.operation}-deletes.parquet"
        self._own(path)
        deletes = DataFile(
            path, "PARQUET", 1, _FILE_SIZE, content=FileContent.POSITION_DELETES, referenced_data_file=self._chosen[0]
        )
        own = self._write(base, [ManifestEntry(EntryStatus.ADDED, deletes, snapshot_id=self._attempt.snapshot_id)])
        counts = {"added-delete-files": "1", "added-position-delete-files": "1", "added-position-deletes": "1"}
        counts["added-files-size"] = str(_FILE_SIZE)
        return self._snapshot(base, before, own, (), {"operation": "delete", **counts})

    def _rewrite(self, base: TableMetadata, before: _Before) -> SentSnapshot | None:
        if not self._choose(before, 2):
            return None
        rows = tuple(sorted(self._rows_of_chosen()))
        self._node.cluster.storage.carried[self._attempt.data_file or ""] = rows
        replaced = before.manifests_of(self._chosen)
        # With the old sequence number, deletes that land during the rewrite still apply to the new file.
        number = base.last_sequence_number if base.format_version > 1 and self._node.random.chance(0.5) else None
        added = replace(self._added(len(rows)), sequence_number=number)
        own = [*self._write(base, [added]), *self._write(base, self._without_chosen(before, replaced))]
        summary = {"operation": "replace", **_added_files(len(rows)), **self._removed_files(before)}
        return self._snapshot(base, before, own, replaced, summary)

    def _choose(self, before: _Before, count: int) -> bool:
        """Choose the files to delete or rewrite the first time; afterwards, whether they are still live."""
        live = before.live()
        if not self._chosen and len(live) >= count:
            first = self._node.random.below(len(live) - count + 1)
            self._chosen = tuple(live[first : first + count])
        return bool(self._chosen) and set(self._chosen) <= set(live)

    def _rows_of_chosen(self) -> frozenset[str]:
        storage = self._node.cluster.storage
        return frozenset(row for path in self._chosen for row in storage.rows(path))

    def _without_chosen(self, before: _Before, replaced: Sequence[ManifestFile]) -> list[ManifestEntry]:
        made = []
        for entry in before.entries_of(replaced):
            if entry.data_file.file_path in self._chosen:
                made.append(replace(entry, status=EntryStatus.DELETED, snapshot_id=self._attempt.snapshot_id))
            else:
                made.append(replace(entry, status=EntryStatus.EXISTING))
        return made

    def _added(self, rows: int = 1) -> ManifestEntry:
        path = self._attempt.data_file or ""
        self._own(path)
        return ManifestEntry(
            EntryStatus.ADDED, DataFile(path, "PARQUET", rows, _FILE_SIZE), snapshot_id=self._attempt.snapshot_id
        )

    def _removed_files(self, before: _Before) -> dict[str, str]:
        """What a summary says of the chosen files."""
        gone = [entry.data_file for _, entry in before.entries if entry.data_file.file_path in self._chosen]
        return {
            "deleted-data-files": str(len(gone)),
            "deleted-records": str(sum(each.record_count for each in gone)),
            "removed-files-size": str(sum(each.file_size_in_bytes for each in gone)),
        }

    def _own(self, path: str) -> None:
        self.data[path] = None
        self._node.cluster.storage.data.add(path)

    def _write(self, base: TableMetadata, entries: Sequence[ManifestEntry]) -> Sequence[ManifestFile]:
        return self._node.manifests().write(base, base.schema, base.spec, self._attempt.snapshot_id or 0, entries)

    def _snapshot(
        self,
        base: TableMetadata,
        before: _Before,
        own: Sequence[ManifestFile],
        replaced: Sequence[ManifestFile],
        summary: dict[str, str],
    ) -> SentSnapshot:
        """The snapshot with the numbers that its client expects. It does not use the code under test."""
        attempt, parent = self._attempt, before.snapshot
        gone = {each.manifest_path for each in replaced}
        kept = [each for each in before.manifests if each.manifest_path not in gone]
        raw: dict[str, Any] = {"snapshot-id": attempt.snapshot_id}
        if parent is not None:
            raw["parent-snapshot-id"] = parent.snapshot_id
        if base.format_version > 1:
            raw["sequence-number"] = base.last_sequence_number + 1
        if base.format_version > 2:
            # After an upgrade the first list gives row ids to older manifests, too.
            data = [
                each for each in (*own, *kept) if each.content == ManifestContent.DATA and each.first_row_id is None
            ]
            raw["first-row-id"] = base.next_row_id
            raw["added-rows"] = sum((each.added_rows_count or 0) + (each.existing_rows_count or 0) for each in data)
        raw["timestamp-ms"] = self._node.runtime.now_ms()
        raw["summary"] = {**summary, **totals(None if parent is None else parent.summary, summary)}
        raw["schema-id"] = base.current_schema_id
        manifests = self._node.manifests()
        location = manifests.stage_list(base, Snapshot(raw), [*own, *kept])
        raw["manifest-list"] = location
        manifests.flush()
        moved = updates.set_snapshot_ref(attempt.branch, attempt.snapshot_id or 0, retention=base.ref(attempt.branch))
        return SentSnapshot(base, (updates.add_snapshot(raw), moved), (location, *(each.manifest_path for each in own)))


def _added_files(rows: int) -> dict[str, str]:
    """What a summary says of one data file."""
    return {"added-data-files": "1", "added-records": str(rows), "added-files-size": str(_FILE_SIZE)}
