"""Live files of a branch, each manifest read once; and files that it has already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from iceberg_hms.changes.operations.manifests.live_files import DuplicateFiles, LiveFiles, OnceRead
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.errors import CommitStateUnknown, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from tests.changes.operations.files.test_append import append, committed
from tests.changes.operations.stored_tables import StoredTable, data_file, new_files, path_of, position_deletes
from tests.changes.tables import table


def test_files_are_found_until_they_are_removed() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"), data_file("b"))
    keys = {name: file_key(path_of(name)) for name in "abcp"}
    files = LiveFiles(frozenset(keys.values()))
    found = files.find(stored.state().manifests, stored.store.open())
    assert {key: entry.snapshot_id for key, entry in found.items()} == {keys["a"]: 100, keys["b"]: 100}
    stored.foreign(101, "overwrite", data_file("c"), position_deletes("p"), removed=["a"])
    found = files.find(stored.state().manifests, stored.store.open())
    assert {key: entry.snapshot_id for key, entry in found.items()} == {keys["b"]: 100, keys["c"]: 101}


def test_manifests_are_read_once() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    files = LiveFiles(frozenset({file_key(path_of("a"))}))
    listed = stored.state().manifests
    found = files.find(listed, stored.store.open())
    stored.files.delete(listed[0].manifest_path)
    assert files.find(listed, stored.store.open()) == found


def test_no_files_need_no_manifest() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    listed = stored.state().manifests
    stored.files.delete(listed[0].manifest_path)
    assert LiveFiles(frozenset()).find(listed, stored.store.open()) == {}


class Reader:
    """Finds a text's length; nothing in an empty one. reads: what it was asked for."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.fails_at: str | None = None

    def read(self, new: Sequence[str]) -> Iterator[tuple[str, int]]:
        self.reads.append([*new])
        for each in new:
            if each == self.fails_at:
                raise OSError(each)
            if each:
                yield each, len(each)


def test_keys_are_found_in_order_and_each_is_read_once() -> None:
    reader, once = Reader(), OnceRead[str, int](0)
    assert once.of(["aa", "", "a", "aa"], reader.read) == [2, 0, 1, 2]
    assert once.of(["", "aaa", "a"], reader.read) == [0, 3, 1]
    assert once.of(["aa", ""], reader.read) == [2, 0]
    assert once.of([], reader.read) == []
    assert reader.reads == [["aa", "", "a"], ["aaa"]]


def test_what_was_not_read_for_an_error_is_read_again() -> None:
    reader, once = Reader(), OnceRead[str, int](0)
    reader.fails_at = "b"
    with pytest.raises(OSError, match="b"):
        once.of(["a", "", "b", "c"], reader.read)
    reader.fails_at = None
    assert once.of(["a", "", "b", "c"], reader.read) == [1, 0, 1, 1]
    assert reader.reads[1:] == [["", "b", "c"]]


def listed(manifests: MemoryManifests, *names: str) -> tuple[ManifestFile, ...]:
    """The manifests of a table to which these files were appended, by snapshots from 100 on."""
    base = table()
    for number, name in enumerate(names):
        base = committed(base, append([data_file(name)], 100 + number), manifests)
    return tuple(manifests.list(base.current_snapshot))  # type: ignore[arg-type]


def looking_for(*names: str, snapshot_id: int = 200) -> DuplicateFiles:
    files = [data_file(name) for name in names]
    return DuplicateFiles(new_files(snapshot_id, *files), snapshot_id)


def test_the_files_and_their_snapshots_are_named() -> None:
    manifests = MemoryManifestStore().open()
    with pytest.raises(
        RequirementFailed, match=r"main has 2 of the files .*b.parquet .snapshot 101.*a.parquet"
    ) as caught:
        looking_for("b", "new", "a").refuse("main", listed(manifests, "a", "b", "c"), manifests)
    assert caught.value.rests_on == {100, 101}


def test_a_file_that_is_there_under_its_own_path_is_named() -> None:
    manifests = MemoryManifestStore().open()
    linked, own = replace(data_file("a"), file_path="file:/link/a.parquet"), {file_key(data_file("a").file_path)}
    added = NewDataFiles([linked], snapshot_id=200, schema_id=0, specs={0: None}, own_keys=frozenset(own))
    mine = DuplicateFiles(added, 200)
    with pytest.raises(RequirementFailed, match=r"main has 1 of the files .*/data/a.parquet .snapshot 100"):
        mine.refuse("main", listed(manifests, "a"), manifests)


def test_files_of_its_own_snapshot_say_that_it_was_committed_before() -> None:
    manifests = MemoryManifestStore().open()
    with pytest.raises(CommitStateUnknown, match="was committed to main and has expired"):
        looking_for("a", snapshot_id=100).refuse("main", listed(manifests, "a"), manifests)


def test_no_keys_look_for_nothing() -> None:
    manifests = MemoryManifestStore().open()
    DuplicateFiles(None, 200).refuse("main", listed(manifests, "a"), manifests)


def test_a_manifest_that_was_searched_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = MemoryManifestStore().open()
    files = listed(manifests, "a", "b")
    searched: list[int] = []
    find = manifests.candidates
    monkeypatch.setattr(manifests, "candidates", lambda new, keys: searched.append(len(new)) or find(new, keys))
    mine = looking_for("new")
    mine.find(files[1:], manifests)
    mine.refuse("main", files, manifests)
    mine.refuse("main", files, manifests)
    assert searched == [1, 1]
