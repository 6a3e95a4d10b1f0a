"""What maintenance reads of the simulation's manifests: as of those that are files."""

from __future__ import annotations

from iceberg_hms.catalog.maintenance.reachable_files import live_files
from iceberg_hms.catalog.maintenance.reports import FileKind, FoundFile
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.testing.contracts.manifests import sample_file, sample_metadata
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from simulation.world.columns import RecordedColumns


def test_live_files_are_those_of_the_records() -> None:
    store, metadata = MemoryManifestStore(), sample_metadata("file:/t")
    written = (
        (EntryStatus.ADDED, sample_file("file:/t/a")),
        (EntryStatus.DELETED, sample_file("file:/t/gone")),
        (EntryStatus.EXISTING, sample_file("file:/t/b", file_size_in_bytes=7)),
    )
    deletes = [(EntryStatus.ADDED, sample_file("file:/t/d", content=FileContent.POSITION_DELETES))]
    port, lines = store.open(), []
    for each in (written, deletes):
        entries = [ManifestEntry(status, file, 1, 1, 1) for status, file in each]
        lines += port.write(metadata, metadata.schema, metadata.spec, 1, entries)
    columns = RecordedColumns(store.open)
    assert list(live_files(columns.uncached(), lines)) == [
        FoundFile("file:/t/a", FileKind.DATA, 1_234),
        FoundFile("file:/t/b", FileKind.DATA, 7),
        FoundFile("file:/t/d", FileKind.POSITION_DELETES, 1_234),
    ]
