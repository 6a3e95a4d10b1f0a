"""Local files that never replace another, and survive a power cut.

pyarrow's local filesystem can do neither, so this module calls the operating system. A file is made under its own name,
and a process that is killed may leave a part of it there. Nobody reads that: every name is new, and nothing points at a
file before it is written. Drafts that are linked to their names once they are whole take longer (4 % for one file, 11 %
for 65 that are flushed together, on ext4), and a process that is killed then leaves files that nothing names too.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

#: More threads than this only wait for one another at one disk.
_FLUSH_THREADS: Final = 4
#: Handed to the system at once. For 2 MiB and more Linux looks for pages as large, which takes it ten times as long as
#: the copy (26 ms instead of 2.5 for 7.5 MB on ext4, Linux 6.18).
_WRITTEN_AT_ONCE: Final = 256 * 1024
#: For fewer files another thread costs more than it saves.
_FLUSHED_MIN: Final = 4

#: Runs functions side by side, as `Runtime.gather` does.
Gather = Callable[[Sequence[Callable[[], None]]], object]


def one_after_another(functions: Sequence[Callable[[], None]]) -> None:
    """`Gather` for who has no threads."""
    for function in functions:
        function()


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be made. path: absolute."""

    path: str
    data: bytes

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


def create(files: Sequence[NewFile], *, fsync: bool, gather: Gather = one_after_another) -> None:
    """Create files with their folders. Raises FileExistsError if a name is taken, and OSError; no part of any of them
    is left behind then.

    fsync: flush the files and their folders before this returns; the filesystem does it for several at little more than
    the cost of one.
    gather: runs functions side by side. Only the flushes are: names are made one after the other in a folder, and who
    waits for its turn there does so with a core.
    """
    folders = dict.fromkeys(file.folder for file in files)
    for folder in folders:
        _make_folder(Path(folder), fsync=fsync)
    made: list[str] = []
    try:
        _make(files, made, fsync=fsync, gather=gather)
        for folder in folders if fsync else ():
            _sync_folder(folder)
    except BaseException:
        for path in made:
            # One that cannot be removed must not keep the others.
            with contextlib.suppress(OSError):
                _remove(path)
        raise


def _make(files: Sequence[NewFile], made: list[str], *, fsync: bool, gather: Gather) -> None:
    """Create files in folders that are there, and say in `made` which have their names."""
    descriptors: list[int] = []
    try:
        for file in files:
            # What this does not open is another's file, or none.
            descriptors.append(os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            made.append(file.path)
            _write(descriptors[-1], file.data)
        if fsync:
            _flush(descriptors, gather)
    finally:
        _close(descriptors)


def _close(descriptors: Sequence[int]) -> None:
    """Close all. Raises the first error: some filesystems say only now that they lost what was written."""
    with contextlib.ExitStack() as ends:
        for descriptor in reversed(descriptors):
            ends.callback(os.close, descriptor)


def _flush(descriptors: Sequence[int], gather: Gather) -> None:
    def flush(some: Sequence[int]) -> None:
        for descriptor in some:
            os.fsync(descriptor)

    threads = min(_FLUSH_THREADS, -(-len(descriptors) // _FLUSHED_MIN))
    gather([partial(flush, descriptors[first::threads]) for first in range(threads)])


def read(path: str) -> bytes:
    """The whole file. Raises OSError."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a list is read for each commit: pathlib takes longer
        return file.readall()


def length(path: str) -> int | None:
    """Bytes; None for what is not a file. Raises OSError."""
    status = os.stat(path)  # noqa: PTH116 - as in `read`
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def delete(path: str) -> bool:
    """Remove a file and the checksum file that Hadoop may have left beside it; False if there was no file."""
    try:
        os.unlink(path)  # noqa: PTH108 - as in `read`
        found = True
    except (FileNotFoundError, NotADirectoryError):
        found = False
    # Left alone it makes Hadoop refuse a later file of the same name as corrupt.
    folder, _, name = path.rpartition("/")
    with contextlib.suppress(OSError):
        os.unlink(f"{folder}/.{name}.crc")  # noqa: PTH108 - as in `read`
    return found


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left[:_WRITTEN_AT_ONCE]) :]


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - as in `read`


def _make_folder(folder: Path, *, fsync: bool) -> None:
    """Create a folder and its parents; a new folder lasts once the folder above it is flushed."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        if fsync:
            _sync_folder(str(each.parent))


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
