"""Live entries of some data files, each manifest read once."""

from __future__ import annotations

from iceberg_hms.changes.operations.live_files import LiveFiles
from iceberg_hms.format.locations import file_key
from tests.changes.operations.stored_tables import StoredTable, data_file, path_of, position_deletes


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
