"""The manifests of a snapshot, from its list, with their partition summaries; and its files, from its manifests, with
partition, counts, and each column's bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iceberg_hms.changes.change import Manifests
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import Type
from iceberg_hms.inspect.metadata import column_name
from iceberg_hms.inspect.partitions import PartitionRange, partition_ranges, partition_values, raw_bytes, source_type

_MANIFEST_CONTENTS: dict[int, str] = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}
_FILE_CONTENTS: dict[int, str] = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position deletes",
    FileContent.EQUALITY_DELETES: "equality deletes",
}
_STATUSES: dict[int, str] = {
    EntryStatus.EXISTING: "existing",
    EntryStatus.ADDED: "added",
    EntryStatus.DELETED: "deleted",
}


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
    return tuple(_manifest_row(metadata, manifest) for manifest in manifests.list(snapshot))


def _manifest_row(metadata: TableMetadata, manifest: ManifestFile) -> ManifestRow:
    spec = next((spec for spec in metadata.specs if spec.spec_id == manifest.partition_spec_id), None)
    return ManifestRow(
        path=manifest.manifest_path,
        content=_MANIFEST_CONTENTS.get(manifest.content, str(manifest.content)),
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


@dataclass(frozen=True, slots=True)
class ColumnMetrics:
    """The metrics of one column in a manifest entry. size: bytes; lower, upper: readable bounds, possibly truncated."""

    field_id: int
    column: str
    type: str | None
    size: int | None
    values: int | None
    nulls: int | None
    nans: int | None
    lower: str | None
    upper: str | None


@dataclass(frozen=True, slots=True)
class FileRow:
    """One entry of a manifest. partition: readable, by field name; sizes are bytes."""

    status: str
    content: str
    path: str
    format: str
    spec_id: int
    partition: Mapping[str, str]
    records: int
    size: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    sort_order_id: int | None
    first_row_id: int | None
    equality_ids: tuple[int, ...]
    columns: tuple[ColumnMetrics, ...]


def file_rows(
    metadata: TableMetadata, snapshot: Snapshot, manifests: Manifests, *, deleted: bool = False
) -> Iterator[FileRow]:
    """The files of a snapshot, manifest by manifest, read lazily.

    deleted: include DELETED entries. Raises MissingFile, CorruptFile, StorageError.
    """
    specs = {spec.spec_id: spec for spec in metadata.specs}
    for manifest in manifests.list(snapshot):
        spec = specs.get(manifest.partition_spec_id)
        for entry in manifests.entries([manifest], None if deleted else _is_live):
            partition = partition_values(metadata, spec, entry.data_file.partition) if spec else {}
            yield _file_row(metadata, entry, manifest.partition_spec_id, partition)


def _is_live(entry: ManifestEntry) -> bool:
    return entry.is_live


def _file_row(metadata: TableMetadata, entry: ManifestEntry, spec_id: int, partition: Mapping[str, str]) -> FileRow:
    file = entry.data_file
    return FileRow(
        status=_STATUSES.get(entry.status, str(entry.status)),
        content=_FILE_CONTENTS.get(file.content, str(file.content)),
        path=file.file_path,
        format=file.file_format,
        spec_id=spec_id,
        partition=partition,
        records=file.record_count,
        size=file.file_size_in_bytes,
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        sort_order_id=file.sort_order_id,
        first_row_id=file.first_row_id,
        equality_ids=tuple(file.equality_ids or ()),
        columns=column_metrics(metadata, file),
    )


def column_metrics(metadata: TableMetadata, file: DataFile) -> tuple[ColumnMetrics, ...]:
    """One row for each column with metrics, by field id."""
    sizes, counts = file.column_sizes or {}, file.value_counts or {}
    nulls, nans = file.null_value_counts or {}, file.nan_value_counts or {}
    lowers, uppers = file.lower_bounds or {}, file.upper_bounds or {}
    rows = []
    for field_id in sorted({*sizes, *counts, *nulls, *nans, *lowers, *uppers}):
        of = source_type(metadata, field_id)
        rows.append(
            ColumnMetrics(
                field_id=field_id,
                column=column_name(metadata, field_id),
                type=None if of is None else str(of),
                size=sizes.get(field_id),
                values=counts.get(field_id),
                nulls=nulls.get(field_id),
                nans=nans.get(field_id),
                lower=_bound(of, lowers.get(field_id)),
                upper=_bound(of, uppers.get(field_id)),
            )
        )
    return tuple(rows)


def _bound(of: Type | None, data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return raw_bytes(data) if of is None else values.human(of, values.from_bytes(of, data))
    except InvalidInput:
        return raw_bytes(data)
