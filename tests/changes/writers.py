"""Commits of stock clients, which write their own lists and manifests, and assert their branch's snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Change
from iceberg_hms.changes.clients.blind_append import PolicyLookup, default_policy
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from simulation.actors import requests
from simulation.actors.requests import for_update_table
from tests.changes.tables import UUID

NOW = 5_000


def data_file(name: str, records: int = 10, **changes: Any) -> DataFile:
    return DataFile(f"file:/data/{name}.parquet", "PARQUET", records, records * 10, {}, **changes)


class Writer:
    """A client with a view of the table. store: the storage that all share."""

    def __init__(self, store: MemoryManifestStore) -> None:
        self.store = store
        self.manifests: MemoryManifests = store.open()

    def fast_append(
        self, base: TableMetadata, snapshot_id: int, *names: str, branch: str = "main", **summary: str
    ) -> list[dict[str, Any]]:
        """The updates of an append as Java's newFastAppend and PyIceberg's make it."""
        change = Append(
            NewSnapshot(branch=branch, snapshot_id=snapshot_id, table_uuid=UUID, now_ms=lambda: NOW),
            NewDataFiles([data_file(name) for name in names], snapshot_id=snapshot_id, schema_id=0, specs={0: None}),
            check_duplicates=False,
        )
        staged = [dict(update) for update in change.stage(base, self.manifests).updates]
        self.manifests.flush()
        for update in staged:
            if update["action"] == "add-snapshot":
                raw = update["snapshot"]
                update["snapshot"] = {**raw, "summary": {**raw["summary"], **summary}}
        return staged

    def rewrite_list(
        self,
        base: TableMetadata,
        snapshot_id: int,
        operation: str,
        entries: Iterable[tuple[EntryStatus, DataFile]],
        replaced: Sequence[ManifestFile],
        summary: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """The updates of a snapshot whose one manifest has `entries` and stands for `replaced` of the head's."""
        head = base.current_snapshot
        assert head is not None
        known = {entry.data_file.file_path: entry for entry in self.manifests.entries(self.manifests.list(head))}
        made = []
        for status, file in entries:
            old = known.get(file.file_path)
            if old is None:
                made.append(ManifestEntry(status, file, snapshot_id=snapshot_id))
            elif status == EntryStatus.EXISTING:
                made.append(replace(old, status=status))
            else:
                made.append(replace(old, status=status, snapshot_id=snapshot_id))
        own = self.manifests.write(base, base.schema, base.specs[0], snapshot_id, made)
        gone = {each.manifest_path for each in replaced}
        kept = [each for each in self.manifests.list(head) if each.manifest_path not in gone]
        raw: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": head.snapshot_id,
            "sequence-number": base.next_sequence_number,
            "timestamp-ms": NOW,
            "summary": {"operation": operation, **(summary or {})},
            "schema-id": 0,
        }
        if base.format_version > 2:
            raw["first-row-id"] = base.next_row_id
            raw["added-rows"] = sum((each.added_rows_count or 0) + (each.existing_rows_count or 0) for each in own)
        raw["manifest-list"] = self.manifests.stage_list(base, Snapshot(raw), [*own, *kept])
        self.manifests.flush()
        return [
            dict(updates.add_snapshot(raw)),
            dict(updates.set_snapshot_ref("main", snapshot_id)),
        ]

    def live(self, head: Snapshot | None) -> list[str]:
        """The names of a snapshot's live data files, sorted."""
        if head is None:
            return []
        entries = self.manifests.entries(self.manifests.list(head))
        paths = [entry.data_file.file_path for entry in entries if entry.is_live]
        return sorted(path.removeprefix("file:/data/").removesuffix(".parquet") for path in paths)


def request(base: TableMetadata, sent: Sequence[Mapping[str, Any]], default: PolicyLookup = default_policy) -> Change:
    """The commit of updates that were made looking at `base`."""
    return from_request(list(for_update_table(base, sent)), list(sent), rebase_policy=default)


def committed(base: TableMetadata, change: Change, store: MemoryManifestStore) -> TableMetadata:
    """The table after a change, as a coordinator makes it."""
    manifests = store.open()
    change.check(base)
    new = apply(base, change.stage(base, manifests).updates, now_ms=NOW)
    manifests.flush()
    return new


def assert_ref(name: str, snapshot_id: int | None) -> Any:
    return requests.assert_ref_snapshot_id(name, snapshot_id)
