"""Local files are complete, or the caller gets an error and no part of them is left."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.errors import CommitFailed
from iceberg_hms.storage import local_files
from iceberg_hms.work import working_for


def create(path: Path, data: bytes = b"data", *, fsync: bool = False) -> None:
    local_files.create([(str(path), data)], fsync=fsync)


def test_only_the_file_itself_is_left_in_the_folder(tmp_path: Path) -> None:
    create(tmp_path / "a b" / "x.avro")
    assert [path.name for path in (tmp_path / "a b").iterdir()] == ["x.avro"]


def test_a_taken_name_leaves_nothing_behind(tmp_path: Path) -> None:
    create(tmp_path / "x")
    with pytest.raises(FileExistsError):
        create(tmp_path / "x", b"other")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"data"


def test_no_file_is_left_if_one_of_several_cannot_be_created(tmp_path: Path) -> None:
    create(tmp_path / "taken")
    files = [(str(tmp_path / name), b"new") for name in ("a", "b", "taken", "c")]
    with pytest.raises(FileExistsError):
        local_files.create(files, fsync=True)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_bytes() == b"data"


def test_several_files_are_flushed_and_then_their_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    files = [(str(tmp_path / name), name.encode()) for name in ("a", "b", "c")]
    local_files.create(files, fsync=True)
    assert flushed == [path.stat().st_ino for path in (tmp_path / "a", tmp_path / "b", tmp_path / "c", tmp_path)]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"a", "b": b"b", "c": b"c"}


def test_a_large_file_is_written_in_small_pieces_even_if_the_system_writes_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, pieces = os.write, []

    def write(descriptor: int, data: memoryview) -> int:
        pieces.append(len(data))
        return really(descriptor, data[:100_000])

    monkeypatch.setattr(os, "write", write)
    data = bytes(range(256)) * 12_001
    create(tmp_path / "x", data)
    assert (tmp_path / "x").read_bytes() == data
    assert max(pieces) < 1_048_576


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        create(tmp_path / "x", fsync=True)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_behind_if_a_folder_cannot_be_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_fsync, real_unlink = os.fsync, os.unlink

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real_fsync(descriptor)

    def unlink(path: str) -> None:
        if path.endswith("/stubborn"):
            raise OSError(errno.EROFS, "Read-only file system")
        real_unlink(path)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "unlink", unlink)
    files = [(str(tmp_path / name), b"new") for name in ("a", "stubborn", "b")]
    with pytest.raises(OSError, match="Input/output error"):
        local_files.create(files, fsync=True)
    assert [path.name for path in tmp_path.iterdir()] == ["stubborn"]


def test_nothing_is_left_behind_if_close_reports_a_lost_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    real = os.close

    def close(descriptor: int) -> None:
        real(descriptor)
        closed.append(descriptor)
        if len(closed) == 1:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "close", close)
    files = [(str(tmp_path / name), b"new") for name in ("a", "b", "c")]
    with pytest.raises(OSError, match="Disk quota"):
        local_files.create(files, fsync=False)
    assert list(tmp_path.iterdir()) == []
    assert len(closed) == 3


def test_a_file_that_it_could_not_create_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, real = tmp_path / "taken", os.open
    taken.write_bytes(b"another's")

    def too_many(path: str, flags: int, mode: int = 0o777) -> int:
        if path == str(taken):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", too_many)
    with pytest.raises(OSError, match="Too many"):
        create(taken)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert taken.read_bytes() == b"another's"


def test_interrupted_writes_remove_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: int) -> None:
        if (tmp_path / "x").exists():
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        create(tmp_path / "x", fsync=True)
    assert list(tmp_path.iterdir()) == []


def test_the_file_and_every_new_folder_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    create(tmp_path / "one" / "two" / "x", fsync=True)
    two = tmp_path / "one" / "two"
    assert flushed == [path.stat().st_ino for path in (tmp_path, two.parent, two / "x", two)]
    flushed.clear()
    create(tmp_path / "one" / "two" / "y", fsync=False)
    assert flushed == []


def test_no_descriptor_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: set[int] = set()
    real_open, real_close = os.open, os.close

    def watched(*arguments: Any) -> int:
        descriptor = real_open(*arguments)
        opened.add(descriptor)
        return descriptor

    def closed(descriptor: int) -> None:
        opened.discard(descriptor)
        real_close(descriptor)

    monkeypatch.setattr(os, "open", watched)
    monkeypatch.setattr(os, "close", closed)
    create(tmp_path / "x", fsync=True)
    with pytest.raises(FileExistsError):
        create(tmp_path / "x", fsync=True)
    assert not opened


def test_a_file_in_the_place_of_a_folder_is_an_error_of_its_own(tmp_path: Path) -> None:
    create(tmp_path / "x")
    for below in ("x/y", "x/y/z"):
        with pytest.raises(NotADirectoryError):
            create(tmp_path / below)


def test_deleting_a_file_deletes_hadoops_checksum_file(tmp_path: Path) -> None:
    create(tmp_path / "x")
    (tmp_path / ".x.crc").write_bytes(b"crc")
    assert local_files.delete(str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []
    assert not local_files.delete(str(tmp_path / "x" / "y"))


def test_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    create(tmp_path / "x")
    (tmp_path / "y").write_bytes(b"")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode


def test_a_real_path_follows_links_as_far_as_they_are_there(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    root = os.path.realpath(tmp_path)
    assert local_files.real_path(f"{tmp_path}/link") == f"{root}/real"
    assert local_files.real_path(f"{tmp_path}/link/none/x") == f"{root}/real/none/x"
    assert local_files.real_path(f"{tmp_path}/file/x") == f"{root}/file/x"
    with pytest.raises(OSError, match="symbolic links"):
        local_files.real_path(f"{tmp_path}/loop/x")


def test_only_the_last_part_of_a_path_can_make_it_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    for name, target in (("link", "real"), ("loop", "loop"), ("nowhere", "none")):
        (tmp_path / name).symlink_to(target)
    links = [name for name in ("link", "loop", "nowhere") if local_files.is_link(f"{tmp_path}/{name}")]
    assert links == ["link", "loop", "nowhere"]
    others = ("real", "link/file", "real/file", "none", "real/file/x")
    assert not [name for name in others if local_files.is_link(f"{tmp_path}/{name}")]


def test_a_part_at_a_time_is_read_until_the_end() -> None:
    asked: list[int] = []
    data = bytes(100_000)

    def read_part(size: int) -> bytes:
        asked.append(size)
        at = sum(asked[:-1])
        return data[at : at + size]

    assert local_files.read_parts(read_part, 0, len(data)) == data, "whatever length was known"
    assert asked[0] == 4_096
    asked.clear()
    assert local_files.read_parts(read_part, len(data), len(data)) == data
    assert asked == [100_001], "a byte more would show that it grew"
    asked.clear()
    assert local_files.read_parts(read_part, 0, 5_000) is None
    assert sum(asked) == 5_001


def test_reading_a_large_file_stops_when_its_caller_has_left() -> None:
    parts = 0

    def read_part(size: int) -> bytes:
        nonlocal parts
        parts += 1
        return bytes(min(size, 10))

    with working_for(lambda: parts == 3), pytest.raises(CommitFailed, match="its caller left"):
        local_files.read_parts(read_part, 1_000, 2_000)
    assert parts == 3


def test_what_is_no_file_is_neither_read_nor_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(local_files.NotAFile):
            local_files.read(str(path), 10, lambda _: None)
