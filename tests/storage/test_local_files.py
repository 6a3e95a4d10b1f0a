"""Local files appear whole or not at all, whatever happens on the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.storage import local_files


def create(path: Path, data: bytes = b"data", *, fsync: bool = False) -> None:
    local_files.create([local_files.NewFile(str(path), data)], fsync=fsync, clock=SYSTEM_CLOCK)


def test_only_the_file_itself_is_left_in_the_folder(tmp_path: Path) -> None:
    create(tmp_path / "a b" / "x.avro")
    assert [path.name for path in (tmp_path / "a b").iterdir()] == ["x.avro"]


def test_a_taken_name_leaves_nothing_behind(tmp_path: Path) -> None:
    create(tmp_path / "x")
    with pytest.raises(FileExistsError):
        create(tmp_path / "x", b"other")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"data"


def test_of_several_files_none_is_left_if_one_cannot_be_made(tmp_path: Path) -> None:
    create(tmp_path / "taken")
    files = [local_files.NewFile(str(tmp_path / name), b"new") for name in ("a", "b", "taken", "c")]
    with pytest.raises(FileExistsError):
        local_files.create(files, fsync=True, clock=SYSTEM_CLOCK)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_bytes() == b"data"


def test_several_files_are_flushed_and_then_their_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    files = [local_files.NewFile(str(tmp_path / name), name.encode()) for name in ("a", "b", "c")]
    local_files.create(files, fsync=True, clock=SYSTEM_CLOCK)
    assert [name[:3] for name in flushed[:3]] == [".a.", ".b.", ".c."]
    assert flushed[3:] == [tmp_path.name]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"a", "b": b"b", "c": b"c"}


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        create(tmp_path / "x", fsync=True)
    assert list(tmp_path.iterdir()) == []


def test_without_hard_links_the_file_is_made_in_place_and_still_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    create(tmp_path / "x")
    with pytest.raises(FileExistsError):
        create(tmp_path / "x", b"other")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"data"


def test_the_file_and_every_new_folder_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    create(tmp_path / "one" / "two" / "x", fsync=True)
    parts = [name for name in flushed if name.endswith(".part")]
    assert [name for name in flushed if not name.endswith(".part")] == [tmp_path.name, "one", "two"]
    assert len(parts) == 1
    flushed.clear()
    create(tmp_path / "one" / "two" / "y", fsync=False)
    assert flushed == []


def test_a_file_in_the_place_of_a_folder_is_an_error_of_its_own(tmp_path: Path) -> None:
    create(tmp_path / "x")
    for below in ("x/y", "x/y/z"):
        with pytest.raises(NotADirectoryError):
            create(tmp_path / below)


def test_deleting_takes_hadoops_checksum_along(tmp_path: Path) -> None:
    create(tmp_path / "x")
    (tmp_path / ".x.crc").write_bytes(b"crc")
    assert local_files.delete(str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []
    assert not local_files.delete(str(tmp_path / "x" / "y"))


def test_a_new_file_does_not_inherit_an_old_checksum(tmp_path: Path) -> None:
    (tmp_path / ".x.crc").write_bytes(b"of an older x")
    create(tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_files_are_readable_as_the_umask_says(tmp_path: Path) -> None:
    create(tmp_path / "x")
    (tmp_path / "y").write_bytes(b"")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode
