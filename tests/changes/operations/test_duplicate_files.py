"""A file that the branch has already is found, and each manifest is read once."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.duplicate_files import DuplicateFiles
from iceberg_hms.errors import CommitStateUnknown, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from tests.changes.operations.test_append import append, committed, data_file
from tests.changes.tables import table


def listed(manifests: MemoryManifests, *names: str) -> tuple[ManifestFile, ...]:
    """The manifests of a table to which these files were appended, by snapshots from 100 on."""
    base = table()
    for number, name in enumerate(names):
        base = committed(base, append([data_file(name)], 100 + number), manifests)
    return tuple(manifests.list(base.current_snapshot))  # type: ignore[arg-type]


def looking_for(*names: str, snapshot_id: int = 200) -> DuplicateFiles:
    paths = [data_file(name).file_path for name in names]
    return DuplicateFiles(frozenset(map(file_key, paths)), paths, snapshot_id)


def test_the_files_and_their_snapshots_are_named() -> None:
    manifests = MemoryManifestStore().open()
    with pytest.raises(
        RequirementFailed, match=r"main has 2 of the files .*b.parquet .snapshot 101.*a.parquet"
    ) as caught:
        looking_for("b", "new", "a").refuse("main", listed(manifests, "a", "b", "c"), manifests)
    assert caught.value.rests_on == {100, 101}


def test_a_file_that_is_there_under_its_own_path_is_named() -> None:
    manifests = MemoryManifestStore().open()
    keys = frozenset({file_key("file:/link/a.parquet"), file_key(data_file("a").file_path)})
    mine = DuplicateFiles(keys, ["file:/link/a.parquet"], 200)
    with pytest.raises(RequirementFailed, match=r"main has 1 of the files .*/data/a.parquet .snapshot 100"):
        mine.refuse("main", listed(manifests, "a"), manifests)


def test_files_of_its_own_snapshot_say_that_it_was_committed_before() -> None:
    manifests = MemoryManifestStore().open()
    with pytest.raises(CommitStateUnknown, match="was committed to main and has expired"):
        looking_for("a", snapshot_id=100).refuse("main", listed(manifests, "a"), manifests)


def test_no_keys_look_for_nothing() -> None:
    manifests = MemoryManifestStore().open()
    DuplicateFiles(frozenset(), (), 200).refuse("main", listed(manifests, "a"), manifests)


def test_a_manifest_that_was_searched_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = MemoryManifestStore().open()
    files = listed(manifests, "a", "b")
    searched: list[int] = []
    find = manifests.candidates
    monkeypatch.setattr(manifests, "candidates", lambda new, keys: searched.append(len(new)) or find(new, keys))
    mine = looking_for("new")
    mine.look_ahead(files[1:], manifests)
    mine.refuse("main", files, manifests)
    mine.refuse("main", files, manifests)
    assert searched == [1, 1]
