"""The manifests of a snapshot, from its list, with their partition summaries; and its files, from its manifests, with
partition, counts, and each column's bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iceberg_hms.changes.change import Manifests
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.partition_text import partition_values, source_type
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import Type
from iceberg_hms.inspect.metadata import column_name
from iceberg_hms.inspect.partitions import partition_ranges, raw_bytes

_MANIFEST_CONTENTS: dict[int, str] = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}
_FILE_CONTENTS: dict[int, str] = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position deletes",
    FileContent.EQUALITY_DELETES: "equality deletes",
}
_STATUSES: dict[int, str] = {EntryStatus.EXISTING: "existing", EntryStatus.ADDED: "added"}


def manifest_rows(metadata: TableMetadata, snapshot: Snapshot, manifests: Manifests) -> list[dict[str, Any]]:
    """The manifests of a snapshot, in the list's order. length: bytes; counts are None if the writer left them out
    (v1). Raises MissingFile, CorruptFile, StorageError."""
    return [_manifest_row(metadata, manifest) for manifest in manifests.list(snapshot)]


def _manifest_row(metadata: TableMetadata, manifest: ManifestFile) -> dict[str, Any]:
    spec = next((spec for spec in metadata.specs if spec.spec_id == manifest.partition_spec_id), None)
    return {
        "path": manifest.manifest_path,
        "content": _MANIFEST_CONTENTS.get(manifest.content, str(manifest.content)),
        "length": manifest.manifest_length,
        "spec_id": manifest.partition_spec_id,
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.min_sequence_number,
        "added_snapshot_id": manifest.added_snapshot_id,
        "added_files": manifest.added_files_count,
        "existing_files": manifest.existing_files_count,
        "deleted_files": manifest.deleted_files_count,
        "added_rows": manifest.added_rows_count,
        "existing_rows": manifest.existing_rows_count,
        "deleted_rows": manifest.deleted_rows_count,
        "first_row_id": manifest.first_row_id,
        "partitions": partition_ranges(metadata, spec, manifest.partitions or ()) if spec else [],
    }


def file_rows(metadata: TableMetadata, snapshot: Snapshot, manifests: Manifests) -> Iterator[dict[str, Any]]:
    """The live files of a snapshot, manifest by manifest, read lazily. partition: readable, by field name; sizes are
    bytes. Raises MissingFile, CorruptFile, StorageError."""
    specs = {spec.spec_id: spec for spec in metadata.specs}
    for manifest in manifests.list(snapshot):
        spec = specs.get(manifest.partition_spec_id)
        for entry in manifests.entries([manifest], _is_live):
            partition = partition_values(metadata, spec, entry.data_file.partition) if spec else {}
            yield _file_row(metadata, entry, manifest.partition_spec_id, partition)


def _is_live(entry: ManifestEntry) -> bool:
    return entry.is_live


def _file_row(
    metadata: TableMetadata, entry: ManifestEntry, spec_id: int, partition: Mapping[str, str]
) -> dict[str, Any]:
    file = entry.data_file
    return {
        "status": _STATUSES.get(entry.status, str(entry.status)),
        "content": _FILE_CONTENTS.get(file.content, str(file.content)),
        "path": file.file_path,
        "format": file.file_format,
        "spec_id": spec_id,
        "partition": partition,
        "records": file.record_count,
        "size": file.file_size_in_bytes,
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "sort_order_id": file.sort_order_id,
        "first_row_id": file.first_row_id,
        "equality_ids": tuple(file.equality_ids or ()),
        "columns": column_metrics(metadata, file),
    }


def column_metrics(metadata: TableMetadata, file: DataFile) -> list[dict[str, Any]]:
    """One row for each column with metrics, by field id. size: bytes; lower, upper: readable bounds, possibly
    truncated."""
    sizes, counts = file.column_sizes or {}, file.value_counts or {}
    nulls, nans = file.null_value_counts or {}, file.nan_value_counts or {}
    lowers, uppers = file.lower_bounds or {}, file.upper_bounds or {}
    rows = []
    for field_id in sorted({*sizes, *counts, *nulls, *nans, *lowers, *uppers}):
        of = source_type(metadata, field_id)
        rows.append(
            {
                "field_id": field_id,
                "column": column_name(metadata, field_id),
                "type": None if of is None else str(of),
                "size": sizes.get(field_id),
                "values": counts.get(field_id),
                "nulls": nulls.get(field_id),
                "nans": nans.get(field_id),
                "lower": _bound(of, lowers.get(field_id)),
                "upper": _bound(of, uppers.get(field_id)),
            }
        )
    return rows


def _bound(of: Type | None, data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return raw_bytes(data) if of is None else values.human(of, values.from_bytes(of, data))
    except InvalidInput:
        return raw_bytes(data)
