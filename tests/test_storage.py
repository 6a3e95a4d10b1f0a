"""RoutedFiles keeps the contract of the Files port, on local disks and on a store that pyarrow writes."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import fs

from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import (
    AlreadyExists,
    CorruptFile,
    InvalidInput,
    MissingFile,
    ResourceExhausted,
    StorageError,
)
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.format.locations import Location
from iceberg_hms.storage import local_files
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.gather import run_sequentially
from iceberg_hms.storage.pyarrow_driver import PyArrowDriver
from iceberg_hms.storage.retries import Retries
from iceberg_hms.testing.contracts.files import (
    CHECKS,
    all_spellings_of_a_local_file_name_one_file,
    one_of_many_concurrent_writers_wins,
)

Check = Callable[[Files, str], None]
#: Without an exclusive create, several writers of one name cannot find out which of them won.
REMOTE_CHECKS = tuple(check for check in CHECKS if check is not one_of_many_concurrent_writers_wins)


def on_pyarrow(
    make_filesystem: Callable[[Location], Any], retries: Retries | None = None, **options: Any
) -> RoutedFiles:
    """Files of which those of s3 are on a pyarrow filesystem, which makes no exclusive creates."""
    return RoutedFiles({"s3": lambda: (PyArrowDriver(make_filesystem), retries or Retries())}, **options)


class RemoteFiles(RoutedFiles):
    """A folder that looks like a bucket."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.opened: list[Location] = []
        (folder / "bucket").mkdir(exist_ok=True)

        def filesystem(location: Location) -> Any:
            self.opened.append(location)
            return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())

        super().__init__({"s3": lambda: (PyArrowDriver(filesystem), Retries())}, **options)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("prefix", ["file:", "file://", ""])
def test_local_files_keep_the_contract(check: Check, prefix: str, tmp_path: Path) -> None:
    check(RoutedFiles(fsync=False), f"{prefix}{tmp_path}/with a space")


@pytest.mark.parametrize("check", REMOTE_CHECKS, ids=lambda check: check.__name__)
def test_other_stores_keep_the_contract(check: Check, tmp_path: Path) -> None:
    check(RemoteFiles(tmp_path), "s3://bucket/root")


def test_only_a_local_disk_gets_folders_before_their_files(tmp_path: Path) -> None:
    RoutedFiles().make_folder(f"file:{tmp_path}/a/b c")
    assert (tmp_path / "a" / "b c").is_dir()
    RemoteFiles(tmp_path).make_folder("s3://bucket/a/b")
    assert list((tmp_path / "bucket").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Cannot make the folder"):
        RoutedFiles().make_folder(f"file:{tmp_path}/file/below")


def test_all_spellings_of_a_local_file_are_equal(tmp_path: Path) -> None:
    all_spellings_of_a_local_file_name_one_file(RoutedFiles(), str(tmp_path))


def test_a_bucket_is_opened_once_for_all_its_schemes(tmp_path: Path) -> None:
    files = RemoteFiles(tmp_path)
    files.write("s3a://bucket/x", b"1")
    assert files.read("s3n://bucket/x") == b"1"
    assert files.read("s3://bucket/x") == b"1"
    assert [location.authority for location in files.opened] == ["bucket"]


class Gather:
    """Runs functions in turn, and records how many could have run in parallel."""

    def __init__(self) -> None:
        self.together: list[int] = []

    def __call__(self, functions: Sequence[Callable[[], None]]) -> None:
        self.together.append(len(functions))
        run_sequentially(functions)


def test_files_of_an_object_store_are_written_in_parallel(tmp_path: Path) -> None:
    gather = Gather()
    files = RemoteFiles(tmp_path, gather=gather, io_threads=4)
    files.write_all([(f"s3://bucket/{number}", b"x") for number in range(10)])
    assert gather.together == [4, 4, 2]


def test_local_files_are_flushed_side_by_side_several_at_a_time(tmp_path: Path) -> None:
    gather = Gather()
    files = RoutedFiles(gather=gather, io_threads=4)
    files.write_all([(f"file:{tmp_path}/{number}", b"x") for number in range(10)])
    files.write_all([(f"file:{tmp_path}/more/{number}", b"x") for number in range(40)])
    assert gather.together == [3, 4]
    assert len(list((tmp_path / "more").iterdir())) == 40


def test_many_local_files_are_created_in_batches(tmp_path: Path) -> None:
    gather = Gather()
    RoutedFiles(gather=gather).write_all([(f"file:{tmp_path}/{number}", b"x") for number in range(2 * 256 + 1)])
    assert gather.together == [4, 4, 1]
    assert len(list(tmp_path.iterdir())) == 2 * 256 + 1


@pytest.mark.parametrize("remote", [True, False], ids=["remote", "local"])
def test_no_file_is_left_if_one_of_several_cannot_be_written(remote: bool, tmp_path: Path) -> None:
    files = RemoteFiles(tmp_path) if remote else RoutedFiles(io_threads=2)
    root = "s3://bucket/new" if remote else f"file:{tmp_path}/new"
    files.write(f"{root}/6", b"foreign")
    with pytest.raises(AlreadyExists):
        files.write_all([(f"{root}/{number}", b"x") for number in range(10)])
    assert files.read(f"{root}/6") == b"foreign"
    for number in (0, 3, 5, 7, 9):
        with pytest.raises(MissingFile):
            files.length(f"{root}/{number}")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    files = RoutedFiles()
    for call in (files.read, files.length, files.delete):
        with pytest.raises(StorageError):
            call(f"file:{tmp_path}")
    assert tmp_path.is_dir()
    with pytest.raises(AlreadyExists):
        files.write(f"file:{tmp_path}", b"")


def test_a_file_below_a_file_is_missing_and_cannot_be_written(tmp_path: Path) -> None:
    files = RoutedFiles()
    files.write(f"{tmp_path}/x", b"")
    with pytest.raises(MissingFile):
        files.length(f"{tmp_path}/x/y")
    with pytest.raises(StorageError):
        files.write(f"{tmp_path}/x/y", b"")


def test_a_short_write_to_a_local_disk_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    length = local_files.length
    monkeypatch.setattr(local_files, "length", lambda path: (length(path) or 0) - 1)
    with pytest.raises(StorageError, match=r"Wrote 3 bytes to .*, but it has 2"):
        RoutedFiles().write(f"{tmp_path}/x", b"abc")
    assert not (tmp_path / "x").exists()


def test_an_unknown_scheme_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"'ftp'; known are file, s3"):
        RemoteFiles(tmp_path).read("ftp://host/x")


class Waits(SystemClock):
    """A clock that records each sleep and returns at once. spread: its random number."""

    def __init__(self, spread: float = 0.5) -> None:
        self.slept: list[float] = []
        self._spread = spread

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))

    def jitter(self) -> float:
        return self._spread


class Flaky:
    """A store that fails with these errors before it opens a file; its files are b"abc"."""

    def __init__(self, errors: list[OSError]) -> None:
        self._errors = errors

    def open_input_file(self, _path: str) -> Any:
        if self._errors:
            raise self._errors.pop(0)
        return pyarrow.BufferReader(b"abc")


def flaky(errors: list[OSError], clock: Waits, retries: int) -> RoutedFiles:
    return on_pyarrow(lambda _: Flaky(errors), Retries(retries, clock=clock))


@pytest.mark.parametrize(
    ("spread", "waits"), [(0.0, [0.05, 0.2, 0.8, 2.5]), (0.5, [0.1, 0.4, 1.6, 5.0]), (0.9, [0.14, 0.56, 2.24, 7.0])]
)
def test_a_file_is_read_again_after_errors_of_its_store(spread: float, waits: list[float]) -> None:
    clock, sizes = Waits(spread), list[int]()
    files = flaky([OSError(errno.EIO, "slow down") for _ in waits], clock, len(waits))
    assert files.read("s3://bucket/x", Limit("a.key", 3, admit=sizes.append)) == b"abc"
    assert clock.slept == waits
    assert sizes == [3]


def test_a_store_that_goes_on_to_fail_is_asked_no_more_than_the_setting_says() -> None:
    errors, clock = [OSError(errno.EIO, f"error {number}") for number in range(9)], Waits()
    with pytest.raises(StorageError, match="error 2"):
        flaky(errors, clock, 2).read("s3://bucket/x")
    assert len(clock.slept) == 2
    with pytest.raises(StorageError, match="error 3"):
        flaky(errors, clock, 0).read("s3://bucket/x")
    assert len(clock.slept) == 2


@pytest.mark.parametrize(
    ("error", "kind"), [(FileNotFoundError(), MissingFile), (OSError(errno.EMFILE, "too many"), ResourceExhausted)]
)
def test_what_another_look_at_the_store_does_not_help_is_not_read_again(error: OSError, kind: type[Exception]) -> None:
    errors, clock = [error], Waits()
    with pytest.raises(kind):
        flaky(errors, clock, 2).read("s3://bucket/x")
    with pytest.raises(CorruptFile, match="more than 2 bytes"):
        flaky([], clock, 2).read("s3://bucket/x", Limit("a.key", 2))
    assert clock.slept == []


def test_an_open_file_is_seekable(tmp_path: Path) -> None:
    files = RoutedFiles()
    files.write(f"{tmp_path}/x", b"0123456789")
    with files.open(f"file:{tmp_path}/x") as file:
        file.seek(7)
        assert file.read(2) == b"78"
    with pytest.raises(MissingFile):
        files.open(f"file:{tmp_path}/none")


def test_threads_open_filesystems_without_waiting_and_share_the_first(tmp_path: Path) -> None:
    folders = iter([tmp_path / "slow", tmp_path / "fast"])

    def filesystem(_: Location) -> Any:
        folder = next(folders)
        (folder / "bucket").mkdir(parents=True)
        if folder.name == "slow":
            another = threading.Thread(target=files.write, args=("s3://bucket/x", b"1"))
            another.start()
            another.join(10)
            assert not another.is_alive()
        return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())

    files = on_pyarrow(filesystem)
    assert files.read("s3://bucket/x") == b"1"
    assert (tmp_path / "fast" / "bucket" / "x").exists()


def test_none_of_several_files_is_left_if_their_folder_cannot_be_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = 0

    def fsync(descriptor: int) -> None:
        nonlocal flushed
        flushed += stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if flushed == 2:  # the folder, after the second batch of files
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="Input/output error"):
        RoutedFiles().write_all([(f"{tmp_path}/{number}", b"x") for number in range(2 * 256 + 1)])
    assert list(tmp_path.iterdir()) == []
