"""Local files that never replace another one, and survive a power failure.

pyarrow's local filesystem guarantees neither, so this module calls the operating system. It creates a file under its
final name, and a killed process may leave a part of it. Nobody reads that part: every name is new, and nothing points
at a file before it is written. Writing temporary files and linking them takes longer (4 % for one file, 11 % for 65
that are flushed together, on ext4), and a killed process leaves unreferenced files all the same.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from iceberg_hms.storage.gather import Gather, run_sequentially
from iceberg_hms.work import stop_if_caller_left

#: More threads than this would wait for the same disk.
_FLUSH_THREADS: Final = 4
#: Bytes for each call of `write`. For 2 MiB and more Linux searches for pages as large, which takes ten times as long
#: as the copy (26 ms instead of 2.5 for 7.5 MB on ext4, Linux 6.18).
_WRITE_BYTES: Final = 256 * 1024
#: Bytes for each call of `read`: at least, and at most.
_READ_BYTES: Final = (4 * 1024, 16 * 1024 * 1024)
#: With fewer files for each thread, another thread costs more than it saves.
_FILES_PER_THREAD: Final = 4

#: An absolute path, and the content to write there.
NewFile = tuple[str, bytes]


class NotAFile(Exception):
    """A path names a folder, a FIFO, a socket or a device."""


def create(files: Sequence[NewFile], *, fsync: bool, gather: Gather = run_sequentially) -> None:
    """Create files with their folders. Raises FileExistsError if a name is taken, and OSError, after deleting every
    part that it wrote.

    fsync: flush the files and their folders before this returns; the filesystem flushes several files at little more
    than the cost of one.
    gather: runs the flushes in parallel. Creating names is sequential: the kernel creates them one by one in a folder,
    and waiting threads would spin.
    """
    folders = dict.fromkeys([path.rpartition("/")[0] for path, _ in files])
    for folder in folders:
        make_folder(folder, fsync=fsync)
    made: list[str] = []
    try:
        _make(files, made, fsync=fsync, gather=gather)
        for folder in folders if fsync else ():
            _sync_folder(folder)
    except BaseException:
        for path in made:
            # If one cannot be removed, remove the others.
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - as in `read`
        raise


def _make(files: Sequence[NewFile], made: list[str], *, fsync: bool, gather: Gather) -> None:
    """Create files in existing folders, and add the path of each to `made`."""
    descriptors: list[int] = []
    try:
        for path, data in files:
            # If this fails, the file is another writer's, or does not exist.
            descriptors.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            made.append(path)
            _write(descriptors[-1], data)
        if fsync:
            _flush(descriptors, gather)
    finally:
        _close(descriptors)


def _close(descriptors: Sequence[int]) -> None:
    """Close all. Raises the first error: some filesystems report lost writes only on close."""
    failed: OSError | None = None
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _flush(descriptors: Sequence[int], gather: Gather) -> None:
    def flush(some: Sequence[int]) -> None:
        for descriptor in some:
            os.fsync(descriptor)

    threads = min(_FLUSH_THREADS, -(-len(descriptors) // _FILES_PER_THREAD))
    gather([partial(flush, descriptors[first::threads]) for first in range(threads)])


def read(path: str, max_bytes: int, check: Callable[[int], None]) -> bytes | None:
    """The whole file; None if it grew beyond so many bytes. check: called with its length before it is read. Raises
    NotAFile, OSError, and what `check` raises."""
    # A FIFO would keep the thread until somebody writes, and a device has no end: both are opened and not read.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise NotAFile from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotAFile
        check(status.st_size)
        # A file that grows meanwhile is read no further than that.
        return read_parts(partial(os.read, descriptor), status.st_size, max_bytes)
    finally:
        os.close(descriptor)


def read_parts(read_part: Callable[[int], bytes], length: int, max_bytes: int) -> bytes | None:
    """All that `read_part` gives, which is called with a number of bytes until it gives none, or fewer than that at
    `length`, which is as far as is known; None if that is more than `max_bytes`. Raises CommitFailed if the caller
    leaves meanwhile."""
    parts: list[bytes] = []
    left, expected = max_bytes + 1, length + 1
    while left:
        wanted = min(max(expected, _READ_BYTES[0]), _READ_BYTES[1], left)
        part = read_part(wanted)
        size = len(part)
        parts.append(part)
        left -= size
        expected -= size
        if not part or (expected == 1 and size < wanted):
            break
        if expected > 1:
            stop_if_caller_left()
    return b"".join(parts) if left else None


def length(path: str) -> int | None:
    """The length in bytes; None for anything else than a file. Raises OSError."""
    status = os.stat(path)  # noqa: PTH116 - as in `read`
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def is_folder(path: str) -> bool:
    """Whether there is a folder, or a link to one. Raises OSError."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - as in `read`
    except (FileNotFoundError, NotADirectoryError):
        return False


def real_path(path: str) -> str:
    """The path without symbolic links. Raises OSError for a loop of them."""
    try:
        return os.path.realpath(path, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        # The first parts may be there, and be links.
        return os.path.realpath(path)


def is_link(path: str) -> bool:
    """Whether a path is a symbolic link; False for what does not exist. Raises OSError."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def walk(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files below a folder, by their paths from there. Neither lists nor follows links. Raises OSError."""
    for path, entry in _entries(folder):
        if entry.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                yield path, entry.stat(follow_symlinks=False)


def links(folder: str) -> Iterator[str]:
    """The symbolic links below a folder, by their paths from there. Follows none. Raises OSError."""
    for path, entry in _entries(folder):
        if entry.is_symlink():
            yield path


def _entries(folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What is below a folder and is no folder, with its path from there. Raises OSError."""
    folders = [""]
    while folders:
        inner = folders.pop()
        try:
            entries = os.scandir(f"{folder}/{inner}")
        except FileNotFoundError:
            # Somebody removed it since it was found.
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{inner}{entry.name}/")
                else:
                    yield f"{inner}{entry.name}", entry


def delete(path: str) -> bool:
    """Delete a file and the checksum file that Hadoop may have left beside it; False if there was no file."""
    try:
        os.unlink(path)  # noqa: PTH108 - as in `read`
        found = True
    except (FileNotFoundError, NotADirectoryError):
        found = False
    # A checksum file that stays makes Hadoop refuse a later file of the same name as corrupt.
    folder, _, name = path.rpartition("/")
    with contextlib.suppress(OSError):
        os.unlink(f"{folder}/.{name}.crc")  # noqa: PTH108 - as in `read`
    return found


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left[:_WRITE_BYTES]) :]


def make_folder(path: str, *, fsync: bool) -> None:
    """Create a folder and its parents; a new folder is durable once its parent folder is flushed. Raises OSError."""
    folder, missing = Path(path), []
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
