"""Sequence numbers, row ids and totals of a table's snapshots, against its manifests."""

from __future__ import annotations

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.format.manifests.manifest import FileContent, ManifestEntry
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from tests.outcomes.rows import live_entries


class Numbers:
    """What was seen of earlier snapshots. A file keeps its numbers for as long as it is live in any snapshot."""

    def __init__(self) -> None:
        self._verified: set[int] = set()
        #: File, and the snapshot that added it -> the numbers that it got.
        self._files: dict[tuple[str, int | None, int | None], tuple[int | None, ...]] = {}
        #: First row id -> file; and how many rows it has.
        self._rows: dict[int, tuple[str, int]] = {}

    def verify(self, catalog: Catalog, metadata: TableMetadata) -> None:
        """Look at the snapshots that are new since the last call."""
        numbers = [snapshot.sequence_number for snapshot in metadata.snapshots]
        assert sorted(set(numbers)) == numbers, "each snapshot has a higher sequence number than those before it"
        assert not numbers or metadata.last_sequence_number >= numbers[-1]
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id not in self._verified:
                self._verified.add(snapshot.snapshot_id)
                self._snapshot(metadata, snapshot, live_entries(catalog, snapshot))

    def _snapshot(self, metadata: TableMetadata, snapshot: Snapshot, entries: list[ManifestEntry]) -> None:
        for entry in entries:
            self._entry(metadata, snapshot, entry)
        data = [each.data_file for each in entries if each.data_file.content == FileContent.DATA]
        positions = [each.data_file for each in entries if each.data_file.content == FileContent.POSITION_DELETES]
        equality = [each.data_file for each in entries if each.data_file.content == FileContent.EQUALITY_DELETES]
        counted = {
            "total-data-files": len(data),
            "total-records": sum(each.record_count for each in data),
            "total-delete-files": len(positions) + len(equality),
            "total-position-deletes": sum(each.record_count for each in positions),
            "total-equality-deletes": sum(each.record_count for each in equality),
        }
        found = {name: int(snapshot.summary[name]) for name in counted if name in snapshot.summary}
        assert found == {name: counted[name] for name in found}, snapshot.summary
        assert found.keys() >= {"total-data-files", "total-records"}, snapshot.summary

    def _entry(self, metadata: TableMetadata, snapshot: Snapshot, entry: ManifestEntry) -> None:
        file = entry.data_file
        data, of_file = entry.sequence_number, entry.file_sequence_number
        assert data is not None
        assert of_file is not None
        assert data <= of_file <= snapshot.sequence_number
        numbers = (data, of_file, file.first_row_id)
        # A file that was staged is added again by the snapshot that publishes it.
        key = (file.file_path, file.content_offset, entry.snapshot_id)
        assert self._files.setdefault(key, numbers) == numbers, f"{file.file_path} has other numbers than before"
        if metadata.format_version < 3 or file.content != FileContent.DATA:
            return
        first = file.first_row_id
        assert first is not None
        assert first + file.record_count <= metadata.next_row_id
        if first not in self._rows:
            for other, (path, count) in self._rows.items():
                assert first >= other + count or other >= first + file.record_count, (file.file_path, path)
            self._rows[first] = (file.file_path, file.record_count)
        assert self._rows[first] == (file.file_path, file.record_count), "two files have the same row ids"
