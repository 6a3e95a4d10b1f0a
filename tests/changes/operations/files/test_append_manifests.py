"""An append of manifests that are there already."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.files.append_manifests import FILES_FORMAT, AppendManifests
from iceberg_hms.changes.operations.manifests.new_data_files import FILES_SCHEMA, NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from tests.changes.tables import UUID, table

NOW = 5_000


def written(base: TableMetadata, manifests: MemoryManifests, number: int, *names: str) -> tuple[ManifestFile, ...]:
    files = [DataFile(f"file:/data/{name}.parquet", "PARQUET", 10, 100, {}) for name in names]
    entries = [ManifestEntry(EntryStatus.ADDED, each, snapshot_id=number) for each in files]
    return tuple(manifests.write(base, base.schema, base.spec, number, entries))


def append(base: TableMetadata, number: int, manifests: tuple[ManifestFile, ...], **changes: Any) -> AppendManifests:
    fit = NewDataFiles((), snapshot_id=number, schema_id=0, schema=base.schema, specs={0: base.spec}, **changes)
    new = NewSnapshot(snapshot_id=number, table_uuid=UUID, now_ms=lambda: NOW)
    files = sum(each.added_files_count or 0 for each in manifests)
    counts = {"files": files, "records": 10 * files, "size": 100 * files, "partitions": 1}
    return AppendManifests(new, fit, manifests, format_version=base.format_version, **counts)


def committed(base: TableMetadata, change: AppendManifests, manifests: MemoryManifests) -> TableMetadata:
    change.check(base)
    return apply(base, change.stage(base, manifests).updates, now_ms=NOW)


@pytest.mark.parametrize("version", [2, 3])
def test_a_second_append_adds_its_manifests_before_those_of_the_first_and_counts_all(version: int) -> None:
    manifests = MemoryManifestStore().open()
    base = table(version)
    first = committed(base, append(base, 100, written(base, manifests, 100, "a", "b")), manifests)
    second = committed(first, append(first, 101, written(first, manifests, 101, "c")), manifests)
    head = second.current_snapshot
    assert head is not None
    paths = [entry.data_file.file_path for entry in manifests.entries(manifests.list(head))]
    assert [path[-9:-8] for path in paths] == ["c", "a", "b"]
    assert head.summary["total-data-files"] == "3"
    assert head.summary["total-records"] == "30"
    assert head.summary["added-files-size"] == "100"
    assert head.summary["manifests-created"] == "1"
    assert head.summary["manifests-kept"] == "1"


def test_the_manifests_are_not_among_the_files_that_a_failure_deletes() -> None:
    manifests = MemoryManifestStore().open()
    base = table(2)
    own = written(base, manifests, 100, "a")
    staged = append(base, 100, own).stage(base, manifests)
    assert own[0].manifest_path not in staged.files
    assert len(staged.files) == 1


def test_an_empty_append_has_no_counts_of_files() -> None:
    manifests = MemoryManifestStore().open()
    base = table(2)
    new = committed(base, append(base, 100, ()), manifests)
    assert new.current_snapshot is not None
    assert "added-data-files" not in new.current_snapshot.summary


def test_a_table_that_was_upgraded_meanwhile_refuses_the_manifests() -> None:
    manifests = MemoryManifestStore().open()
    base = table(2)
    change = append(base, 100, written(base, manifests, 100, "a"))
    with pytest.raises(RequirementFailed) as refused:
        change.check(table(3))
    assert refused.value.name == FILES_FORMAT


def test_a_table_whose_schema_was_replaced_refuses_the_manifests() -> None:
    manifests = MemoryManifestStore().open()
    base = table(2)
    fit = NewDataFiles((), snapshot_id=100, schema_id=7, schema=base.schema, specs={0: base.spec})
    new = NewSnapshot(snapshot_id=100, table_uuid=UUID, now_ms=lambda: NOW)
    own = written(base, manifests, 100, "a")
    change = AppendManifests(new, fit, own, format_version=2, files=1, records=10, size=100, partitions=1)
    with pytest.raises(RequirementFailed) as refused:
        change.check(base)
    assert refused.value.name == FILES_SCHEMA
