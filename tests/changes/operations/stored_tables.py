"""Tables whose manifests are real Avro files in memory, and files to put into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Change, StagedChange
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.changes.sequence_numbers import numbered_snapshot
from iceberg_hms.config import Settings
from iceberg_hms.format.manifests.lineage_columns import LINEAGE_COLUMNS
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.manifests import ManifestStore, TableManifests
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.changes.operations.files.test_append import NOW, append
from tests.changes.tables import BY_LEVEL, UUID, table

#: The numbers of a live file that must never change: snapshot, data and file sequence number, first row id.
Numbers = tuple[int | None, int | None, int | None, int | None]


def long_bound(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def data_file(name: str, level: str | None = None, records: int = 10, **changes: Any) -> DataFile:
    """A file of ids; level: its partition; None: the table has no partitions. ids: the lowest and the highest id."""
    ids = changes.pop("ids", None)
    if ids is not None:
        low, high = ids
        changes |= {
            "lower_bounds": {1: long_bound(low)},
            "upper_bounds": {1: long_bound(high)},
            "value_counts": {1: records},
            "null_value_counts": {1: 0},
        }
    partition = {} if level is None else {"level": level}
    return DataFile(f"file:/data/{name}.parquet", "PARQUET", records, records * 10, partition, **changes)


def moved_file(name: str, level: str | None = None, records: int = 10, **changes: Any) -> DataFile:
    """A file of rows that the table has already, which carries their row ids."""
    return data_file(name, level, records, null_value_counts=dict.fromkeys(LINEAGE_COLUMNS, 0), **changes)


def position_deletes(name: str, level: str | None = None, records: int = 2, **changes: Any) -> DataFile:
    return data_file(name, level, records, content=FileContent.POSITION_DELETES, **changes)


def equality_deletes(name: str, level: str | None = None, records: int = 3, **changes: Any) -> DataFile:
    changes.setdefault("equality_ids", (1,))
    return data_file(name, level, records, content=FileContent.EQUALITY_DELETES, **changes)


def deletion_vector(of: str, level: str | None = None, offset: int = 4, records: int = 2, **changes: Any) -> DataFile:
    """A deletion vector of the data file with this name."""
    puffin = DataFile(
        "file:/data/vectors.puffin",
        "PUFFIN",
        records,
        1_000,
        {} if level is None else {"level": level},
        content=FileContent.POSITION_DELETES,
        referenced_data_file=f"file:/data/{of}.parquet",
        content_offset=offset,
        content_size_in_bytes=40,
    )
    return replace(puffin, **changes)


class StoredTable:
    """A table of the columns id and level, and what writers commit to it."""

    def __init__(self, version: int = 2, *, partitioned: bool = False, **changes: Any) -> None:
        self.files = MemoryFiles()
        self.store = ManifestStore(self.files, Settings(), ThreadRuntime())
        self.metadata = table(version, spec=BY_LEVEL if partitioned else None, **changes)

    @property
    def head(self) -> Snapshot:
        found = self.metadata.current_snapshot
        assert found is not None
        return found

    def new(self, snapshot_id: int, **changes: Any) -> NewSnapshot:
        """For an operation that is planned on the table as it is."""
        head = self.metadata.current_snapshot
        changes.setdefault("start_id", None if head is None else head.snapshot_id)
        return NewSnapshot(snapshot_id=snapshot_id, table_uuid=UUID, now_ms=lambda: NOW, **changes)

    def state(self) -> BranchState:
        return BranchState.read(self.metadata, "main", self.store.open())

    def commit(self, change: Change) -> StagedChange:
        change.check(self.metadata)
        manifests = self.store.open()
        staged = change.stage(self.metadata, manifests)
        self.metadata = apply(self.metadata, staged.updates, now_ms=NOW)
        manifests.flush()
        return staged

    def append(self, snapshot_id: int, *files: DataFile) -> None:
        """Each append has files of one spec."""
        self.commit(append(files, snapshot_id, spec_id=files[0].spec_id))

    def write(
        self, snapshot_id: int, entries: Iterable[ManifestEntry], manifests: TableManifests
    ) -> list[ManifestFile]:
        entries = list(entries)
        found: list[ManifestFile] = []
        for spec in self.metadata.specs:
            of_spec = [each for each in entries if each.data_file.spec_id == spec.spec_id]
            found.extend(manifests.write(self.metadata, self.metadata.schema, spec, snapshot_id, of_spec))
        return found

    def foreign(
        self,
        snapshot_id: int,
        operation: str | None,
        *added: DataFile,
        removed: Sequence[str] = (),
        sequence_number: int | None = None,
    ) -> None:
        """Another writer's snapshot. operation: None as in an old snapshot without a summary. removed: names of files.
        sequence_number: of the added files."""
        state, manifests = self.state(), self.store.open()
        paths = {f"file:/data/{name}.parquet" for name in removed}
        kept: list[ManifestFile] = []
        own = self.write(
            snapshot_id,
            [ManifestEntry(EntryStatus.ADDED, each, snapshot_id, sequence_number) for each in added],
            manifests,
        )
        for file in state.manifests:
            entries = list(manifests.entries([file]))
            if paths.isdisjoint(each.data_file.file_path for each in entries if each.is_live):
                kept.append(file)
                continue
            rewritten = [
                replace(each, status=EntryStatus.DELETED, snapshot_id=snapshot_id)
                if each.data_file.file_path in paths
                else replace(each, status=EntryStatus.EXISTING)
                for each in entries
                if each.is_live
            ]
            own += self.write(snapshot_id, rewritten, manifests)
        raw: dict[str, Any] = {"snapshot-id": snapshot_id, "timestamp-ms": NOW, "schema-id": 0}
        if state.parent is not None:
            raw["parent-snapshot-id"] = state.parent.snapshot_id
        raw["summary"] = {"operation": operation or "append"}
        snapshot = numbered_snapshot(self.metadata, raw, [*own, *kept], manifests)
        staged = [updates.add_snapshot(snapshot), updates.set_snapshot_ref("main", snapshot_id)]
        self.metadata = apply(self.metadata, staged, now_ms=NOW)
        if operation is None:
            rows = [{**each.raw, "summary": {}} if each == self.head else each.raw for each in self.metadata.snapshots]
            self.metadata = self.metadata.replace(snapshots=rows)
        manifests.flush()

    def entries(self) -> list[ManifestEntry]:
        """All entries of the head."""
        manifests = self.store.open()
        return list(manifests.entries(manifests.list(self.head)))

    def live(self) -> dict[str, Numbers]:
        """Name of each live file, data or deletes -> its numbers. Fails if one is there twice."""
        found: dict[str, Numbers] = {}
        for each in self.entries():
            if each.is_live:
                name = name_of(each.data_file)
                assert name not in found, f"{name} is there twice"
                numbers = (each.snapshot_id, each.sequence_number, each.file_sequence_number)
                found[name] = (*numbers, each.data_file.first_row_id)
        return found

    def deleted(self) -> dict[str, int | None]:
        """Name of each file that the head's manifests list as deleted -> the snapshot that deleted it."""
        return {name_of(each.data_file): each.snapshot_id for each in self.entries() if not each.is_live}

    def manifest_locations(self) -> set[str]:
        return {location for location in self.files.locations() if "-m" in location}


def name_of(file: DataFile) -> str:
    if file.referenced_data_file is not None and file.file_format == "PUFFIN":
        return f"vector of {file.referenced_data_file.removeprefix('file:/data/').removesuffix('.parquet')}"
    return file.file_path.removeprefix("file:/data/").removesuffix(".parquet")


def new_files(snapshot_id: int, *files: DataFile, sequence_number: int | None = None) -> NewDataFiles:
    """Data files for an operation of this snapshot."""
    specs = {each.spec_id: None for each in files} or {0: None}
    return NewDataFiles(
        files, snapshot_id=snapshot_id, schema_id=0, schema=None, specs=specs, sequence_number=sequence_number
    )


def path_of(name: str) -> str:
    return f"file:/data/{name}.parquet"


def of(name: str) -> dict[str, str]:
    """What a delete file's record says if it is of one data file."""
    return {"referenced_data_file": path_of(name)}
