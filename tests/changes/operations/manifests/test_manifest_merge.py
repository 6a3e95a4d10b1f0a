"""Small manifests are merged by the commit that makes them too many, each entry a few times only."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.changes.operations.manifests.manifest_merge import ManifestMerge
from iceberg_hms.format.manifests.manifest import EntryStatus, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from tests.changes.operations.files.test_append import NOW, append, committed, data_file
from tests.changes.tables import BY_LEVEL, table

MIN_COUNT = "commit.manifest.min-count-to-merge"


def merging(version: int = 2, least: int = 3, **changes: Any) -> TableMetadata:
    return table(version, properties={MIN_COUNT: str(least)}, **changes)


def appended(base: TableMetadata, count: int, manifests: MemoryManifests, first: int = 100) -> TableMetadata:
    for number in range(first, first + count):
        base = committed(base, append([data_file(f"f{number}")], number), manifests)
    return base


def live(base: TableMetadata, manifests: MemoryManifests) -> dict[str, tuple[Any, ...]]:
    """File -> the numbers that it must keep for ever."""
    assert base.current_snapshot is not None
    return {
        each.data_file.file_path: (
            each.snapshot_id,
            each.sequence_number,
            each.file_sequence_number,
            each.data_file.first_row_id,
        )
        for each in manifests.entries(manifests.list(base.current_snapshot))
        if each.is_live
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_append_that_makes_them_too_many_merges_them(version: int) -> None:
    manifests = MemoryManifestStore().open()
    base = appended(merging(version), 2, manifests)
    before = live(base, manifests)
    new = appended(base, 1, manifests, first=102)
    head = new.current_snapshot
    assert head is not None
    (merged,) = manifests.list(head)
    assert (merged.added_files_count, merged.existing_files_count, merged.added_snapshot_id) == (1, 2, 102)
    counts = {name: head.summary[f"manifests-{name}"] for name in ("created", "kept", "replaced")}
    assert counts == {"created": "1", "kept": "0", "replaced": "2"}
    after = live(new, manifests)
    assert {path: after[path] for path in before} == before
    assert after["file:/data/f102.parquet"][:2] == (102, 0 if version == 1 else 3)
    statuses = [each.status for each in manifests.entries([merged])]
    assert sorted(statuses) == [EntryStatus.EXISTING, EntryStatus.EXISTING, EntryStatus.ADDED]


def test_nothing_is_merged_if_the_table_says_so() -> None:
    manifests = MemoryManifestStore().open()
    base = table(properties={MIN_COUNT: "2", "commit.manifest-merge.enabled": "false"})
    base = appended(base, 5, manifests)
    assert len(manifests.list(base.current_snapshot)) == 5  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_an_append_to_a_table_whose_property_means_nothing_merges_by_the_default(
    value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each commit was refused."""
    manifests = MemoryManifestStore().open()
    base = appended(table(properties={MIN_COUNT: value}), 3, manifests)
    assert len(manifests.list(base.current_snapshot)) == 3  # type: ignore[arg-type]
    assert (
        f"{MIN_COUNT} must be a whole number from 1 to 2147483647, but is '{value}'; using the default, 100"
        in caplog.text
    )


def test_manifests_of_different_specs_are_not_mixed() -> None:
    manifests = MemoryManifestStore().open()
    base = appended(merging(2, least=3), 2, manifests)
    spec = {**BY_LEVEL, "spec-id": 1}
    base = apply(
        base, [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}], now_ms=NOW
    )
    for number in (110, 111):
        base = committed(base, append([data_file(f"f{number}", "info", spec_id=1)], number, spec_id=1), manifests)
    assert [each.partition_spec_id for each in manifests.list(base.current_snapshot)] == [1, 1, 0, 0]  # type: ignore[arg-type]
    base = committed(base, append([data_file("f112", "info", spec_id=1)], 112, spec_id=1), manifests)
    listed = manifests.list(base.current_snapshot)  # type: ignore[arg-type]
    assert [(each.partition_spec_id, each.files_count) for each in listed] == [(1, 3), (0, 1), (0, 1)]


@given(least=st.integers(2, 5), count=st.integers(1, 150), version=st.sampled_from([2, 3]))
@settings(max_examples=15)
def test_many_appends_leave_few_manifests_and_lose_nothing(least: int, count: int, version: int) -> None:
    manifests = MemoryManifestStore().open()
    base = appended(merging(version, least), count, manifests)
    listed = manifests.list(base.current_snapshot)  # type: ignore[arg-type]
    classes = 3
    assert len(listed) <= (least - 1) + 9 * classes
    numbers = live(base, manifests)
    assert [numbers[f"file:/data/f{100 + at}.parquet"][:2] for at in range(count)] == [
        (100 + at, at + 1) for at in range(count)
    ]
    if version == 3:
        first_ids = [numbers[f"file:/data/f{100 + at}.parquet"][3] for at in range(count)]
        assert all(after - before >= 10 for before, after in pairwise(first_ids)), "each file has 10 rows"


def test_an_entry_is_written_a_few_times_however_many_appends_there_are() -> None:
    store = MemoryManifestStore()
    appended(merging(2, least=10), 300, store.open())
    written = sum(len(entries) for entries in store.manifests.values())
    assert written <= 3 * 300 + 100


def test_a_replay_reuses_a_merge_of_the_same_manifests_and_no_other() -> None:
    """Another base may have given the same manifests other numbers."""
    store = MemoryManifestStore()
    manifests = store.open()
    base = appended(merging(2, least=3), 2, manifests)
    merge = ManifestMerge(200)
    listed = manifests.list(base.current_snapshot)  # type: ignore[arg-type]
    entry = ManifestEntry(EntryStatus.ADDED, data_file("mine"), snapshot_id=200)
    mine = manifests.write(base, base.schema, base.spec, 200, [entry])
    first = merge.apply(base, mine, listed, manifests, operation="append", metrics={})
    count = len(store.manifests)
    assert merge.apply(base, mine, listed, manifests, operation="append", metrics={}).manifests == first.manifests
    assert len(store.manifests) == count
    renumbered = [replace(each, sequence_number=each.sequence_number + 1) for each in listed]
    assert merge.apply(base, mine, renumbered, manifests, operation="append", metrics={}).manifests != first.manifests
    assert len(store.manifests) == count + 1
