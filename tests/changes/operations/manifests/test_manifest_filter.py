"""Files are removed from the manifests that list them, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.changes.operations.manifests.manifest_filter import FilteredManifests, ManifestFilter, delete_file_key
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.updates.apply import apply
from simulation.actors import requests
from tests.changes.operations.files.test_append import NOW
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    deletion_vector,
    equality_deletes,
    name_of,
    position_deletes,
)
from tests.changes.tables import BY_LEVEL


class Rows:
    """A filter of rows by the names of files: those that it matches, and those of which it matches some rows."""

    text = "id < 5"

    def __init__(
        self, *whole: str, partly: tuple[str, ...] = (), manifest: Callable[[ManifestFile], bool] | None = None
    ):
        self._whole, self._partly, self._manifest = whole, partly, manifest

    def __str__(self) -> str:
        return f"the rows where {self.text}"

    def may_match_manifest(self, manifest: ManifestFile) -> bool:
        return self._manifest is None or self._manifest(manifest)

    def may_match(self, file: DataFile) -> bool:
        return name_of(file) in (*self._whole, *self._partly)

    def must_match(self, file: DataFile) -> bool:
        return name_of(file) in self._whole


def by_name(*names: str, snapshot_id: int = 900) -> ManifestFilter:
    return ManifestFilter(snapshot_id, keys=frozenset(file_key(f"file:/data/{name}.parquet") for name in names))


def filtered(stored: StoredTable, filter_: ManifestFilter, **more: Any) -> FilteredManifests:
    manifests = stored.store.open()
    return filter_.apply(stored.metadata, stored.state().manifests, manifests, **more)


def manifests_of(result: FilteredManifests) -> list[ManifestFile]:
    return [*result.rewritten, *result.kept]


def names(stored: StoredTable, result: FilteredManifests) -> list[str]:
    entries = stored.store.open().entries(manifests_of(result))
    return sorted(name_of(entry.data_file) for entry in entries if entry.is_live)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_only_manifests_that_list_the_file_are_written_again(version: int) -> None:
    stored = StoredTable(version)
    stored.append(100, data_file("a"), data_file("b"), data_file("c"))
    stored.append(101, data_file("d"))
    before, listed = stored.live(), stored.state().manifests
    result = filtered(stored, by_name("b"))
    assert (len(result.kept), result.replaced, len(result.rewritten)) == (1, 1, 1)
    assert result.kept == listed[:1], "the newer manifest is the same"
    assert [name_of(each.data_file) for each in result.removed] == ["b"]
    assert result.missing == frozenset()
    (rewritten,) = result.rewritten
    assert (rewritten.added_files_count, rewritten.existing_files_count, rewritten.deleted_files_count) == (0, 2, 1)
    assert rewritten.added_snapshot_id == 900
    for entry in stored.store.open().entries([rewritten]):
        name = name_of(entry.data_file)
        is_gone = name == "b"
        assert entry.status == (EntryStatus.DELETED if is_gone else EntryStatus.EXISTING)
        # In version 1 only a list says that the number is 0.
        found = (entry.snapshot_id, entry.sequence_number or 0, entry.file_sequence_number or 0)
        assert found == ((900, *before[name][1:3]) if is_gone else before[name][:3])
    stored.foreign(900, "delete", removed=["b"])
    assert {name: stored.live()[name] for name in "acd"} == {name: before[name] for name in "acd"}


def test_row_ids_of_files_that_stay_are_kept() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a", records=7), data_file("b", records=5), data_file("c", records=3))
    result = filtered(stored, by_name("a"))
    entries = stored.store.open().entries(manifests_of(result))
    assert {name_of(each.data_file): each.data_file.first_row_id for each in entries} == {"a": 0, "b": 7, "c": 12}


def test_files_that_were_deleted_before_are_not_listed_again() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"), data_file("c"))
    stored.foreign(101, "delete", removed=["a"])
    result = filtered(stored, by_name("b"))
    entries = list(stored.store.open().entries(manifests_of(result)))
    assert {name_of(each.data_file): each.status for each in entries} == {
        "b": EntryStatus.DELETED,
        "c": EntryStatus.EXISTING,
    }
    assert filtered(stored, by_name("a")).missing == {file_key("file:/data/a.parquet")}, "it is not live"


def test_a_manifest_without_live_files_falls_out() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.append(101, data_file("b"))
    stored.foreign(102, "delete", removed=["a"])
    result = filtered(stored, by_name("b"))
    assert (len(result.rewritten), result.kept, result.replaced) == (1, (), 1)


def test_a_missing_file_is_reported_and_nothing_is_read_or_written() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    before = stored.manifest_locations()
    result = filtered(stored, by_name("z"))
    assert result.missing == {file_key("file:/data/z.parquet")}
    assert (result.kept, result.rewritten, result.removed) == (stored.state().manifests, (), ())
    assert stored.manifest_locations() == before


def test_a_location_is_found_under_any_spelling() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    filter_ = ManifestFilter(900, keys=frozenset({file_key("file:///data//a.parquet")}))
    assert [name_of(each.data_file) for each in filtered(stored, filter_).removed] == ["a"]


def test_partitions_are_removed_with_their_delete_files() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "warn"))
    stored.append(101, data_file("c", "error"))
    stored.foreign(102, "delete", position_deletes("p", "info"), equality_deletes("e", "warn"))
    filter_ = ManifestFilter(900, partitions=PartitionSet([data_file("new", "info")]))
    result = filtered(stored, filter_)
    assert names(stored, result) == ["b", "c", "e"]
    assert sorted(name_of(each.data_file) for each in result.removed) == ["a", "p"]
    assert len(result.kept) == 1, "the manifest of another partition was not read"


def test_a_partition_of_another_spec_is_another_one() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"))
    spec = {"spec-id": 1, "fields": [{**BY_LEVEL["fields"][0], "name": "lv", "field-id": 1000}]}
    stored.metadata = apply(stored.metadata, [{"action": "add-spec", "spec": spec}], now_ms=NOW)
    stored.append(101, _of_spec_one("b"))
    filter_ = ManifestFilter(900, partitions=PartitionSet([_of_spec_one("new")]))
    assert names(stored, filtered(stored, filter_)) == ["a"]


def _of_spec_one(name: str) -> DataFile:
    return DataFile(f"file:/data/{name}.parquet", "PARQUET", 10, 100, {"lv": "info"}, spec_id=1)


def test_a_filter_removes_files_whose_rows_all_match() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.append(101, data_file("c"))
    assert names(stored, filtered(stored, ManifestFilter(900), rows=Rows("a", "c"))) == ["b"]


def test_a_file_that_matches_in_part_is_named_with_its_snapshot() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    before = stored.manifest_locations()
    with pytest.raises(
        RequirementFailed, match=r"some rows of file:/data/b.parquet \(snapshot 100\).* id < 5"
    ) as caught:
        filtered(stored, ManifestFilter(900), rows=Rows("a", partly=("b",)))
    assert (caught.value.name, caught.value.rests_on) == ("whole-files", {100})
    assert stored.manifest_locations() == before, "what was written of the manifest is gone"


def test_delete_files_that_match_in_part_stay() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.foreign(101, "delete", equality_deletes("e"), equality_deletes("f"))
    result = filtered(stored, ManifestFilter(900), rows=Rows("a", "e", partly=("f",)))
    assert names(stored, result) == ["b", "f"]


def test_delete_files_older_than_all_data_files_are_dropped() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", position_deletes("p"))
    stored.append(102, data_file("b"))
    stored.foreign(103, "delete", equality_deletes("e"))
    assert names(stored, filtered(stored, by_name("a"))) == ["b", "e"]
    assert names(stored, filtered(stored, by_name("b"))) == ["a", "e", "p"]
    assert names(stored, filtered(stored, by_name("a", "b"))) == []


def test_deletes_that_apply_to_files_added_with_an_old_number_stay() -> None:
    """A compaction's new files keep the number of its start; Java drops deletes that came after it."""
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", equality_deletes("e"))
    stored.foreign(102, "replace", data_file("compacted"), removed=["a"], sequence_number=1)
    manifests = stored.store.open()
    own = [each for each in stored.state().manifests if each.added_snapshot_id == 102 and each.has_live_files]
    others = [each for each in stored.state().manifests if each not in own]
    result = ManifestFilter(900).apply(stored.metadata, others, manifests, own=own)
    assert names(stored, result) == ["e"]
    assert names(stored, ManifestFilter(900).apply(stored.metadata, others, manifests)) == []


def test_a_manifest_whose_lowest_number_cannot_be_right_keeps_all_deletes() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.foreign(101, "delete", position_deletes("p"), removed=["b"])
    listed = [
        replace(each, min_sequence_number=each.sequence_number) if each.existing_files_count else each
        for each in stored.state().manifests
    ]
    stored.append(102, data_file("c"))
    result = by_name("c").apply(stored.metadata, [stored.state().manifests[0], *listed], stored.store.open())
    assert "p" in names(stored, result)


def test_deletion_vectors_of_removed_files_are_dropped() -> None:
    stored = StoredTable(3, partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "info"), data_file("c", "warn"))
    stored.foreign(101, "delete", deletion_vector("a", "info", 4), deletion_vector("b", "info", 44))
    stored.foreign(102, "delete", deletion_vector("c", "warn", 4))
    result = filtered(stored, by_name("a"))
    assert names(stored, result) == ["b", "c", "vector of b", "vector of c"]
    assert len(result.kept) == 1, "vectors of other partitions are not read"


def test_one_of_the_vectors_in_a_puffin_file_is_removed() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    vectors = [deletion_vector("a", offset=4), deletion_vector("b", offset=44)]
    stored.foreign(101, "delete", *vectors)
    filter_ = ManifestFilter(900, deletes=frozenset({delete_file_key(vectors[1]), ("file:/data/none", None)}))
    result = filtered(stored, filter_)
    assert names(stored, result) == ["a", "b", "vector of a"]
    assert result.missing_deletes == {("file:/data/none", None)}


def test_a_replay_filters_only_new_manifests_again() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    stored.append(101, data_file("c"))
    filter_ = by_name("a")
    first = filtered(stored, filter_)
    written = stored.manifest_locations()
    stored.append(102, data_file("d"))
    own = stored.manifest_locations() - written
    second = filtered(stored, filter_)
    assert second.rewritten == first.rewritten
    assert stored.manifest_locations() - written == own, "nothing was written again"
    assert names(stored, second) == ["b", "c", "d"]


def test_a_replay_writes_for_the_format_version_that_the_table_has_now() -> None:
    stored = StoredTable(1)
    stored.append(100, data_file("a"), data_file("b"))
    filter_ = by_name("a")
    first = filtered(stored, filter_)
    stored.metadata = apply(stored.metadata, [requests.upgrade_format_version(2)], now_ms=NOW)
    assert filtered(stored, filter_).rewritten != first.rewritten


def test_a_file_that_a_manifest_lists_twice_counts_once() -> None:
    stored = StoredTable()
    stored.foreign(100, "append", data_file("a"), data_file("a"), data_file("b"))
    result = filtered(stored, by_name("a"))
    assert ([name_of(each.data_file) for each in result.removed], result.duplicates) == (["a"], 1)
    assert names(stored, result) == ["b"]


@settings(max_examples=30, deadline=None)
@given(data=st.data(), version=st.sampled_from([1, 2, 3]))
def test_what_is_not_removed_stays_with_its_numbers(data: st.DataObject, version: int) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    stored = StoredTable(version)
    for at, size in enumerate(sizes):
        stored.append(100 + at, *(data_file(f"{at}-{number}", records=number + 1) for number in range(size)))
    before = stored.live()
    gone = data.draw(st.sets(st.sampled_from(sorted(before))))
    result = filtered(stored, by_name(*gone))
    entries = [each for each in stored.store.open().entries(manifests_of(result)) if each.is_live]
    # A list assigns row ids; those of entries that exist are their own.
    found = {
        name_of(each.data_file): (each.snapshot_id, each.sequence_number or 0, each.file_sequence_number or 0)
        for each in entries
    }
    assert found == {name: numbers[:3] for name, numbers in before.items() if name not in gone}
    assert {name_of(each.data_file) for each in result.removed} == gone
