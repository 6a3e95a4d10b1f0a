"""PyArrowFiles keeps the contract of the Files port, on local disks and on stores that pyarrow writes itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import AlreadyExists, InvalidInput, MissingFile, StorageError
from iceberg_hms.storage.files import PyArrowFiles
from iceberg_hms.storage.locations import Location
from iceberg_hms.testing.contracts.files import (
    CHECKS,
    one_of_many_writers_wins,
    spellings_of_a_local_file_are_one,
)

Check = Callable[[Files, str], None]
#: Without an exclusive create, a store cannot say which of several writers of one name won.
REMOTE_CHECKS = tuple(check for check in CHECKS if check is not one_of_many_writers_wins)


class RemoteFiles(PyArrowFiles):
    """A store that pyarrow writes itself: a folder that looks like a bucket."""

    def __init__(self, folder: Path, scheme: str = "s3") -> None:
        self.opened: list[Location] = []
        (folder / "bucket").mkdir(exist_ok=True)

        def filesystem(location: Location) -> Any:
            self.opened.append(location)
            return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())

        super().__init__(filesystem=filesystem)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("prefix", ["file:", "file://", ""])
def test_local_files_keep_the_contract(check: Check, prefix: str, tmp_path: Path) -> None:
    check(PyArrowFiles(fsync=False), f"{prefix}{tmp_path}/with a space")


@pytest.mark.parametrize("check", REMOTE_CHECKS, ids=lambda check: check.__name__)
def test_other_stores_keep_the_contract(check: Check, tmp_path: Path) -> None:
    check(RemoteFiles(tmp_path), "s3://bucket/root")


def test_spellings_of_a_local_file_are_one(tmp_path: Path) -> None:
    spellings_of_a_local_file_are_one(PyArrowFiles(), str(tmp_path))


def test_a_bucket_is_opened_once_under_all_its_names(tmp_path: Path) -> None:
    files = RemoteFiles(tmp_path)
    files.write("s3a://bucket/x", b"1")
    assert files.read("s3n://bucket/x") == b"1"
    assert files.read("s3://bucket/x") == b"1"
    assert [location.authority for location in files.opened] == ["bucket"]


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    files = PyArrowFiles()
    for call in (files.read, files.length, files.delete):
        with pytest.raises(StorageError):
            call(f"file:{tmp_path}")
    assert tmp_path.is_dir()
    with pytest.raises(AlreadyExists):
        files.write(f"file:{tmp_path}", b"")


def test_a_file_below_a_file_is_missing_and_cannot_be_written(tmp_path: Path) -> None:
    files = PyArrowFiles()
    files.write(f"{tmp_path}/x", b"")
    with pytest.raises(MissingFile):
        files.length(f"{tmp_path}/x/y")
    with pytest.raises(StorageError):
        files.write(f"{tmp_path}/x/y", b"")


def test_a_short_write_is_noticed(tmp_path: Path) -> None:
    class Short(PyArrowFiles):
        def length(self, location: str) -> int:
            return super().length(location) - 1

    with pytest.raises(StorageError, match=r"Wrote 3 bytes to .*, but it has 2"):
        Short().write(f"{tmp_path}/x", b"abc")


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"'ftp'; known are file, s3"):
        PyArrowFiles().read("ftp://host/x")


def test_open_reads_at_any_place(tmp_path: Path) -> None:
    files = PyArrowFiles()
    files.write(f"{tmp_path}/x", b"0123456789")
    with files.open(f"file:{tmp_path}/x") as file:
        file.seek(7)
        assert file.read(2) == b"78"
    with pytest.raises(MissingFile):
        files.open(f"file:{tmp_path}/none")
