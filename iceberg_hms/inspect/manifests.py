"""A snapshot's manifest list: its manifests, and their partition summaries."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_hms.changes.change import Manifests
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.inspect.partitions import PartitionRange, partition_ranges

_CONTENTS: dict[int, str] = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """One entry of a manifest list. length: bytes; counts are None if the writer left them out (v1)."""

    path: str
    content: str
    length: int
    spec_id: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files: int | None
    existing_files: int | None
    deleted_files: int | None
    added_rows: int | None
    existing_rows: int | None
    deleted_rows: int | None
    first_row_id: int | None
    partitions: tuple[PartitionRange, ...]


def manifest_rows(metadata: TableMetadata, snapshot: Snapshot, manifests: Manifests) -> tuple[ManifestRow, ...]:
    """The manifests of a snapshot, in the list's order. Raises MissingFile, CorruptFile, StorageError."""
    return tuple(_row(metadata, manifest) for manifest in manifests.list(snapshot))


def _row(metadata: TableMetadata, manifest: ManifestFile) -> ManifestRow:
    spec = next((spec for spec in metadata.specs if spec.spec_id == manifest.partition_spec_id), None)
    return ManifestRow(
        path=manifest.manifest_path,
        content=_CONTENTS.get(manifest.content, str(manifest.content)),
        length=manifest.manifest_length,
        spec_id=manifest.partition_spec_id,
        sequence_number=manifest.sequence_number,
        min_sequence_number=manifest.min_sequence_number,
        added_snapshot_id=manifest.added_snapshot_id,
        added_files=manifest.added_files_count,
        existing_files=manifest.existing_files_count,
        deleted_files=manifest.deleted_files_count,
        added_rows=manifest.added_rows_count,
        existing_rows=manifest.existing_rows_count,
        deleted_rows=manifest.deleted_rows_count,
        first_row_id=manifest.first_row_id,
        partitions=partition_ranges(metadata, spec, manifest.partitions or ()) if spec else (),
    )
