"""A path through linked folders means the file by its own path."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.coordinator.locations.linked_folders import LinkedFolders
from iceberg_hms.format.locations import file_key
from iceberg_hms.storage.files import PyArrowFiles


class CountingFiles(PyArrowFiles):
    """Counts looks at folders."""

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.looks = 0

    def is_link(self, location: str) -> bool:
        self.looks += 1
        return super().is_link(location)


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "again").symlink_to("in")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    return f"file://{tmp_path}"


@pytest.mark.parametrize(
    ("named", "own"),
    [
        ("real/in/a", "real/in/a"),
        ("link/in/a", "real/in/a"),
        ("link/again/a", "real/in/a"),
        ("link/none/a", "real/none/a"),
        ("none/a", "none/a"),
        ("loop/in/a", "loop/in/a"),
        # The file itself is not looked at.
        ("link", "link"),
    ],
)
def test_linked_folders_are_followed(root: str, named: str, own: str) -> None:
    assert LinkedFolders(PyArrowFiles()).own_key(file_key(f"{root}/{named}")) == f"{root}/{own}"


@pytest.mark.parametrize("key", ["s3://b//a/../x", "hdfs://nn/a", "a", "file:///a", f"file:///{'a/' * 5_000}b"])
def test_other_keys_stay_as_they_are(key: str) -> None:
    assert LinkedFolders(PyArrowFiles()).own_key(key) == key


def test_each_folder_is_looked_at_once(root: str) -> None:
    files = CountingFiles()
    folders = LinkedFolders(files)
    for number in range(100):
        folders.own_key(f"{root}/link/in/day={number % 3}/{number}")
    assert files.looks == root.count("/") - 2 + 2 + 3
