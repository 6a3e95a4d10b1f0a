"""Snapshots that can be cherry-picked, on a table whose manifests are in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Change
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import (
    BranchState,
    NewSnapshot,
    SnapshotContent,
    SnapshotOperation,
)
from iceberg_hms.changes.operations.snapshots.cherry_pick import CherryPick
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from tests.changes.tables import BY_LEVEL, UUID, table

NOW = 50_000


def data_file(name: str, level: str = "info") -> DataFile:
    return DataFile(f"file:/data/{name}.parquet", "PARQUET", 10, 100, {"level": level})


class Overwrite(SnapshotOperation):
    """Rewrites all manifests of a branch without some files, and adds others: what engines send as an overwrite."""

    def __init__(
        self, new: NewSnapshot, added: Mapping[str, str], removed: tuple[str, ...], operation: str, dynamic: bool
    ) -> None:
        super().__init__(new)
        self._added = [data_file(name, level) for name, level in added.items()]
        self._removed = {data_file(name).file_path for name in removed}
        self._operation = operation
        self._dynamic = {summaries.REPLACE_PARTITIONS: "true"} if dynamic else {}

    def _content(self, state: BranchState, manifests: Any) -> SnapshotContent:
        base, id_ = state.metadata, self.snapshot_id
        entries = [ManifestEntry(EntryStatus.ADDED, each, snapshot_id=id_) for each in self._added]
        own = list(manifests.write(base, base.schema, base.spec, id_, entries)) if entries else []
        old = []
        for entry in manifests.entries(state.manifests, lambda entry: entry.is_live):
            gone = entry.data_file.file_path in self._removed
            status = EntryStatus.DELETED if gone else EntryStatus.EXISTING
            snapshot_id = id_ if gone else entry.snapshot_id
            old.append(
                ManifestEntry(status, entry.data_file, snapshot_id, entry.sequence_number, entry.file_sequence_number)
            )
        own += list(manifests.write(base, base.schema, base.spec, id_, old)) if old else []
        return SnapshotContent(self._operation, own, self._dynamic, kept=0)


class PickableTable:
    """A table partitioned by level, and the manifests of its snapshots. Each snapshot has the number that it is given.

    metadata: the current one; each call replaces it.
    """

    def __init__(self, version: int = 2) -> None:
        self.metadata: TableMetadata = table(version, spec=BY_LEVEL)
        self.store = MemoryManifestStore()
        self.manifests: MemoryManifests = self.store.open()

    def commit(self, change: Change, base: TableMetadata | None = None) -> TableMetadata:
        """Commit a change. base: an earlier state of the table, on which it was staged before that moved."""
        if base is not None:
            change.check(base)
            change.stage(base, self.manifests)
        change.check(self.metadata)
        staged = change.stage(self.metadata, self.manifests)
        self.staged = staged
        self.metadata = apply(self.metadata, staged.updates, now_ms=NOW).verify()
        return self.metadata

    def new(self, snapshot_id: int, **changes: Any) -> NewSnapshot:
        return NewSnapshot(snapshot_id=snapshot_id, table_uuid=UUID, now_ms=lambda: NOW, **changes)

    def append(self, snapshot_id: int, name: str, level: str = "info", **changes: Any) -> TableMetadata:
        return self.commit(
            Append(
                NewSnapshot(snapshot_id=snapshot_id, table_uuid=UUID, now_ms=lambda: NOW, **changes),
                NewDataFiles([data_file(name, level)], snapshot_id=snapshot_id, schema_id=0, specs={0: None}),
            )
        )

    def stage(self, snapshot_id: int, name: str, level: str = "info", **summary: str) -> TableMetadata:
        return self.append(snapshot_id, name, level, stage_only=True, summary=summary)

    def overwrite(
        self,
        snapshot_id: int,
        added: Mapping[str, str],
        removed: tuple[str, ...] = (),
        *,
        operation: str = "overwrite",
        dynamic: bool = True,
        **changes: Any,
    ) -> TableMetadata:
        changes.setdefault("stage_only", True)
        return self.commit(Overwrite(self.new(snapshot_id, **changes), added, removed, operation, dynamic))

    def pick(self, picked: int | str, snapshot_id: int = 100, base: TableMetadata | None = None) -> TableMetadata:
        return self.commit(CherryPick(self.new(snapshot_id), picked), base)

    def live(self) -> list[str]:
        """The names of main's data files."""
        head = self.metadata.current_snapshot
        listed = () if head is None else self.manifests.list(head)
        paths = [each.data_file.file_path for each in self.manifests.entries(listed) if each.is_live]
        return sorted(path.removeprefix("file:/data/").removesuffix(".parquet") for path in paths)
