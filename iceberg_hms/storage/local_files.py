"""Local files that appear whole or not at all, never replace another, and survive a power cut.

pyarrow's local filesystem can do none of the three, so this module calls the operating system.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from iceberg_hms.clock import Clock

#: What filesystems answer that have no hard links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def create(path: Path, data: bytes, *, fsync: bool, clock: Clock) -> None:
    """Create a file with its folders. Raises FileExistsError if the name is taken, and OSError; no part of the file is
    left behind then.

    The bytes are written under a name of their own in the same folder, which readers never see, and then linked to
    the name that was asked for: unlike a rename, a link does not overwrite. fsync: flush the file and its folder
    before this returns.
    """
    _make_folder(path.parent, fsync=fsync)
    part = path.parent / f".{path.name}.{clock.uuid()}.part"
    try:
        _write(part, data, fsync=fsync)
        try:
            os.link(part, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _create_in_place(path, data, fsync=fsync)
    finally:
        part.unlink(missing_ok=True)
    remove_checksum(path)
    if fsync:
        _sync_folder(path.parent)


def delete(path: Path) -> bool:
    """Remove a file and the checksum file that Hadoop may have left beside it; False if there was no file."""
    try:
        path.unlink()
        found = True
    except (FileNotFoundError, NotADirectoryError):
        found = False
    remove_checksum(path)
    return found


def remove_checksum(path: Path) -> None:
    """Remove Hadoop's `.name.crc`. Left alone, it makes Hadoop refuse a later file of the same name as corrupt."""
    with contextlib.suppress(OSError):
        path.with_name(f".{path.name}.crc").unlink()


def _write(path: Path, data: bytes, *, fsync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if fsync:
            os.fsync(descriptor)


def _create_in_place(path: Path, data: bytes, *, fsync: bool) -> None:
    try:
        _write(path, data, fsync=fsync)
    except FileExistsError:
        raise
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _make_folder(folder: Path, *, fsync: bool) -> None:
    """Create a folder and its parents; a new folder lasts once the folder above it is flushed."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        if fsync:
            _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
