"""What operations that remove and add files have in common, seen through real ones; and what PyIceberg reads."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.metadata import TableMetadataUtil

from iceberg_hms.changes.operations.files.delete import DeleteFiles
from iceberg_hms.changes.operations.files.overwrite import ReplacePartitions
from iceberg_hms.changes.operations.files.rewrite import Rewrite
from tests.changes.operations.stored_tables import StoredTable, data_file, moved_file, new_files, path_of

MIN_COUNT = "commit.manifest.min-count-to-merge"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rewritten_manifests_are_merged_with_others(version: int) -> None:
    stored = StoredTable(version, properties={MIN_COUNT: "3"})
    stored.append(100, data_file("a", records=3), data_file("b", records=4))
    stored.append(101, data_file("c", records=5), data_file("d", records=6))
    before = stored.live()
    added = new_files(900, moved_file("new", records=8), sequence_number=stored.head.sequence_number)
    stored.commit(Rewrite(stored.new(900), [path_of("a"), path_of("c")], added))
    live = stored.live()
    assert {name: live[name] for name in "bd"} == {name: before[name] for name in "bd"}
    assert live.keys() == {"b", "d", "new"}
    assert stored.deleted() == {"a": 900, "c": 900}
    assert len(stored.state().manifests) == 1
    counts = {name: stored.head.summary[f"manifests-{name}"] for name in ("created", "kept", "replaced")}
    assert counts == {"created": "1", "kept": "0", "replaced": "2"}


def test_the_staged_change_names_only_what_the_snapshot_lists() -> None:
    stored = StoredTable(properties={MIN_COUNT: "3"})
    stored.append(100, data_file("a"), data_file("b"))
    stored.append(101, data_file("c"), data_file("d"))
    staged = stored.commit(DeleteFiles(stored.new(900), [path_of("a"), path_of("c")]))
    listed = {each.manifest_path for each in stored.state().manifests}
    assert listed <= set(staged.files)


def test_duplicates_are_searched_before_the_operation_is_queued() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"))
    stored.append(101, data_file("b", "warn"))
    change = ReplacePartitions(stored.new(900), new_files(900, data_file("x", "info")))
    change.look_ahead(stored.metadata, stored.store.open())
    for each in stored.state().manifests:
        stored.files.delete(each.manifest_path)
    stored.commit(change)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), version=st.sampled_from([1, 2, 3]))
def test_totals_and_files_are_right_after_any_operations(data: st.DataObject, version: int) -> None:
    stored = StoredTable(version, partitioned=True, properties={MIN_COUNT: "4"})
    expected: dict[str, tuple[str, int]] = {}
    numbers = stored.live() if expected else {}
    for step in range(data.draw(st.integers(1, 7))):
        kind = data.draw(st.sampled_from(["append", "delete", "rewrite", "replace"])) if expected else "append"
        level, records = data.draw(st.sampled_from(["info", "warn"])), data.draw(st.integers(1, 9))
        chosen = data.draw(st.sets(st.sampled_from(sorted(expected)), min_size=1)) if expected else set()
        id_, name = 100 + step, f"f{step}"
        if kind == "append":
            stored.append(id_, data_file(name, level, records))
        elif kind == "delete":
            stored.commit(DeleteFiles(stored.new(id_), [path_of(each) for each in chosen]))
        elif kind == "rewrite":
            records = sum(expected[each][1] for each in chosen)
            added = new_files(id_, moved_file(name, level, records), sequence_number=stored.head.sequence_number)
            stored.commit(Rewrite(stored.new(id_), [path_of(each) for each in chosen], added))
        else:
            chosen = {each for each, (of, _) in expected.items() if of == level}
            stored.commit(ReplacePartitions(stored.new(id_), new_files(id_, data_file(name, level, records))))
        if kind != "append":
            expected = {each: what for each, what in expected.items() if each not in chosen}
        if kind != "delete":
            expected[name] = (level, records)
        live = stored.live()
        assert live.keys() == expected.keys()
        assert {each: live[each] for each in numbers if each in live} == {
            each: found for each, found in numbers.items() if each in live
        }
        numbers = live
        summary = stored.head.summary
        assert summary["total-data-files"] == str(len(expected))
        assert summary["total-records"] == str(sum(count for _, count in expected.values()))
    if version == 3:
        ranges = sorted((live[each][3] or 0, expected[each][1]) for each in expected)
        for (first, count), (second, _) in pairwise(ranges):
            assert first + count <= second, "two files have the same row ids"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_the_same_files(version: int, tmp_path: Path) -> None:
    stored = StoredTable(version, partitioned=True, location=f"file:{tmp_path}/events")
    stored.append(100, data_file("a", "info", ids=(1, 5)), data_file("b", "warn", ids=(6, 9)))
    stored.append(101, data_file("c", "info", ids=(2, 3)))
    added = new_files(900, moved_file("bc", "warn", records=20), sequence_number=stored.head.sequence_number)
    stored.commit(Rewrite(stored.new(900), [path_of("b"), path_of("c")], added))
    for location in stored.files.locations():
        path = Path(location.removeprefix("file:"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored.files.read(location))
    metadata = TableMetadataUtil.parse_obj(dict(stored.metadata.raw))
    snapshot, io = metadata.current_snapshot(), PyArrowFileIO()
    assert snapshot is not None
    found = {}
    deleted = set()
    for manifest in snapshot.manifests(io):
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
            name = entry.data_file.file_path.removeprefix("file:/data/").removesuffix(".parquet")
            if entry.status == ManifestEntryStatus.DELETED:
                deleted.add((name, entry.snapshot_id))
            else:
                found[name] = (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
    assert found == {name: numbers[:3] for name, numbers in stored.live().items()}
    assert deleted == {("b", 900), ("c", 900)}
