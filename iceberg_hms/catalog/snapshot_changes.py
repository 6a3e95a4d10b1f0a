"""What changed between two snapshots of a table: the files that each snapshot added and removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from iceberg_hms.catalog.maintenance.reports import FileKind
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.manifest_delta import added_manifests
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.partition_text import partition_values
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning.snapshot_line import snapshots_after

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of one Arrow batch.
_BATCH_ROWS: Final = 10_000


class FileOperation(StrEnum):
    """What a snapshot did to a file."""

    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that a snapshot added or removed.

    snapshot_id: of the snapshot that did it. snapshot_operation: that snapshot's (`append`, `overwrite`, `delete`, or
    `replace`, which changes no row); None for old v1 snapshots.
    content: data, or deletes. partition: the values by the names of the fields of its spec, as text for people; None
    for null. rows: records in the file. size: bytes.
    file: everything that the manifest says of the file.
    """

    operation: FileOperation
    snapshot_id: int
    snapshot_operation: str | None
    content: FileKind
    path: str
    format: str
    partition: Mapping[str, str | None]
    rows: int
    size: int
    file: DataFile


class SnapshotChanges:
    """The files that snapshots added and removed. Iterate it for `FileChange`s: snapshot by snapshot, the oldest first,
    removed files before added ones. Manifests are read while it is iterated, and anew each time; those alone that the
    snapshots added. A file that one snapshot added and a later one removed is in it twice.

    snapshots: the oldest first. Iterating raises MissingFile if a snapshot has expired since the table was loaded: then
    refresh the table. It raises CorruptFile and StorageError, too.
    """

    def __init__(self, metadata: TableMetadata, snapshots: Sequence[Snapshot], manifests: Manifests) -> None:
        self.snapshots = tuple(snapshots)
        self._metadata = metadata
        self._manifests = manifests

    def __iter__(self) -> Iterator[FileChange]:
        for snapshot in self.snapshots:
            added = self._added(snapshot)
            yield from self._of(snapshot, added, EntryStatus.DELETED)
            yield from self._of(snapshot, added, EntryStatus.ADDED)

    def appended(self) -> Iterator[FileChange]:
        """The data files of appends alone, as an incremental read takes them (Java: IncrementalAppendScan)."""
        for snapshot in self.snapshots:
            if snapshot.operation == "append":
                for change in self._of(snapshot, self._added(snapshot), EntryStatus.ADDED):
                    if change.content == FileKind.DATA:
                        yield change

    def to_arrow(self) -> pa.Table:
        """The same as an Arrow table: a row for each change, a column for each field of `FileChange` but `file`."""
        import pyarrow as pa

        schema = _arrow_schema()
        batches: list[pa.RecordBatch] = []
        rows: list[dict[str, Any]] = []
        for change in self:
            rows.append({name: _arrow_value(getattr(change, name)) for name in schema.names})
            if len(rows) == _BATCH_ROWS:
                batches.append(pa.RecordBatch.from_pylist(rows, schema))
                rows = []
        batches.append(pa.RecordBatch.from_pylist(rows, schema))
        return pa.Table.from_batches(batches, schema)

    def _added(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        return added_manifests(snapshot, self._manifests.list(snapshot), ())

    def _of(self, snapshot: Snapshot, added: Sequence[ManifestFile], status: EntryStatus) -> Iterator[FileChange]:
        is_wanted = partial(_is_change, snapshot.snapshot_id, status)
        counted = [each for each in added if _may_have(each, status)]
        for entry in self._manifests.entries(counted, is_wanted):
            yield self._change(snapshot, entry)

    def _change(self, snapshot: Snapshot, entry: ManifestEntry) -> FileChange:
        file = entry.data_file
        is_added = entry.status == EntryStatus.ADDED
        return FileChange(
            operation=FileOperation.ADDED if is_added else FileOperation.REMOVED,
            snapshot_id=snapshot.snapshot_id,
            snapshot_operation=snapshot.operation,
            content=FileKind.of(file.content),
            path=file.file_path,
            format=file.file_format,
            partition=self._partition(file),
            rows=file.record_count,
            size=file.file_size_in_bytes,
            file=file,
        )

    def _partition(self, file: DataFile) -> dict[str, str | None]:
        spec = self._metadata.spec_by_id(file.spec_id)
        if spec is None:
            return {}
        texts = partition_values(self._metadata, spec, file.partition)
        return {name: None if file.partition.get(name) is None else text for name, text in texts.items()}


def changes_between(
    metadata: TableMetadata, from_snapshot: int | str | None, to_snapshot: int | str, manifests: Manifests
) -> SnapshotChanges:
    """The changes after one snapshot up to and with another one. Arguments and errors as `Table.changes`."""
    to_id = snapshot_id_of(metadata, to_snapshot)
    if to_id is None:
        # Main of a table without snapshots: nothing changed since nothing.
        if from_snapshot is None:
            return SnapshotChanges(metadata, (), manifests)
        raise InvalidInput("the table has no current snapshot", next_step="pass to_snapshot")
    from_id = None if from_snapshot is None else snapshot_id_of(metadata, from_snapshot)
    return SnapshotChanges(metadata, snapshots_after(metadata, from_id, to_id), manifests)


def snapshot_id_of(metadata: TableMetadata, wanted: int | str) -> int | None:
    """The id of a snapshot that its id, a branch or a tag names; None for a `main` without one. Raises InvalidInput for
    a name of none."""
    if not isinstance(wanted, str):
        return wanted
    ref = metadata.ref(wanted)
    if ref is None and wanted != MAIN_BRANCH:
        raise InvalidInput(
            f"the table has no branch or tag {wanted!r}",
            next_step=f"it has {', '.join(sorted(metadata.refs)) or 'none'}",
        )
    return None if ref is None else ref.snapshot_id


def _is_change(snapshot_id: int, status: EntryStatus, entry: ManifestEntry) -> bool:
    return entry.status == status and entry.snapshot_id == snapshot_id


def _may_have(manifest: ManifestFile, status: EntryStatus) -> bool:
    """Whether a manifest may have entries with this status, by the counts that its writer gave."""
    count = manifest.added_files_count if status == EntryStatus.ADDED else manifest.deleted_files_count
    return count != 0


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("operation", pa.string(), nullable=False),
            pa.field("snapshot_id", pa.int64(), nullable=False),
            pa.field("snapshot_operation", pa.string()),
            pa.field("content", pa.string(), nullable=False),
            pa.field("path", pa.string(), nullable=False),
            pa.field("format", pa.string(), nullable=False),
            pa.field("partition", pa.map_(pa.string(), pa.string()), nullable=False),
            pa.field("rows", pa.int64(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
        ]
    )


def _arrow_value(value: Any) -> Any:
    return list(value.items()) if isinstance(value, Mapping) else value
