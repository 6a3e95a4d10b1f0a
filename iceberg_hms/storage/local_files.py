"""Local files that appear whole or not at all, never replace another, and survive a power cut.

pyarrow's local filesystem can do none of the three, so this module calls the operating system.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from iceberg_hms.clock import Clock

#: What filesystems answer that have no hard links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
#: More threads than this only wait for one another at one disk.
_FLUSH_THREADS: Final = 4
#: Handed to the system at once. For 2 MiB and more Linux looks for pages as large, which takes it ten times as long as
#: the copy (26 ms instead of 2.5 for 7.5 MB on ext4, Linux 6.18).
_WRITTEN_AT_ONCE: Final = 256 * 1024
#: For fewer files another thread costs more than it saves.
_FLUSHED_MIN: Final = 4

#: A file is made without a name, in a folder. Nobody sees it until it has one, and if we are killed it is gone. 0: not
#: here, or it could not be given one, which takes `/proc`.
_NAMELESS: Final = getattr(os, "O_TMPFILE", 0) if Path("/proc/self/fd").is_dir() else 0
_CLOSED_IN_PROGRAMS: Final = getattr(os, "O_CLOEXEC", 0)

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

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(slots=True)
class _Draft:
    """A file that has not yet the name that was asked for. part: what it is called meanwhile; None: nothing."""

    file: NewFile
    descriptor: int
    part: str | None

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def end(self) -> None:
        """Close it, and take away what it is called meanwhile."""
        try:
            self.close()
        finally:
            if self.part:
                _remove(self.part)


def create(files: Sequence[NewFile], *, fsync: bool, clock: Clock, gather: Gather = one_after_another) -> None:
    """Create files with their folders. Raises FileExistsError if a name is taken, and OSError; no part of any of them
    is left behind then.

    The bytes are written to files without a name, or where the filesystem has no such thing under names of their own in
    the same folders, which readers never see, and then linked to the names that were asked for: unlike a rename, a link
    does not overwrite. fsync: flush the files and their folders before this returns; the filesystem does it for several
    at little more than the cost of one.
    gather: runs functions side by side. Only the flushes are: names are made one after the other in a folder, and who
    waits for its turn there does so with a core.
    """
    folders = dict.fromkeys(file.folder for file in files)
    for folder in folders:
        _make_folder(Path(folder), fsync=fsync)
    made: list[str] = []
    try:
        _make(files, made, fsync=fsync, clock=clock, gather=gather)
        for file in files:
            remove_checksum(file.path)
        for folder in folders if fsync else ():
            _sync_folder(folder)
    except BaseException:
        for path in made:
            # One that cannot be removed must not keep the others.
            with contextlib.suppress(OSError):
                _remove(path)
        raise


def _make(files: Sequence[NewFile], made: list[str], *, fsync: bool, clock: Clock, gather: Gather) -> None:
    """Create files in folders that are there, and say in `made` which have their names. No draft is left behind."""
    drafts: list[_Draft] = []
    with contextlib.ExitStack() as ends:
        for file in files:
            drafts.append(_open(file, clock))
            ends.callback(drafts[-1].end)
            _write(drafts[-1].descriptor, file.data)
        if fsync:
            _flush([draft.descriptor for draft in drafts], gather)
        for draft in drafts:
            _link(draft, fsync=fsync)
            made.append(draft.file.path)


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
    remove_checksum(path)
    return found


def remove_checksum(path: str) -> None:
    """Remove Hadoop's `.name.crc`. Left alone, it makes Hadoop refuse a later file of the same name as corrupt."""
    folder, _, name = path.rpartition("/")
    with contextlib.suppress(OSError):
        os.unlink(f"{folder}/.{name}.crc")  # noqa: PTH108 - as in `read`


def _open(file: NewFile, clock: Clock) -> _Draft:
    if _NAMELESS:
        # Whatever the reason is, the next call meets it too, unless it is that this filesystem knows no such files.
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | _NAMELESS | _CLOSED_IN_PROGRAMS
            return _Draft(file, os.open(file.folder, flags, 0o666), None)
    part = f"{file.folder}/.{file.name}.{clock.uuid()}.part"
    return _Draft(file, _open_new(part), part)


def _open_new(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED_IN_PROGRAMS, 0o666)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left[:_WRITTEN_AT_ONCE]) :]


def _link(draft: _Draft, *, fsync: bool) -> None:
    path = draft.file.path
    try:
        if draft.part:
            # Some filesystems say only now that they lost what was written.
            draft.close()
            os.link(draft.part, path)
        else:
            # Python follows the symbolic link only if a folder is given, which an absolute path has no use for.
            os.link(f"/proc/self/fd/{draft.descriptor}", path, src_dir_fd=draft.descriptor, follow_symlinks=True)
    except FileExistsError:
        raise
    except OSError as error:
        if draft.part and error.errno not in _NO_LINKS:
            raise
        _create_in_place(draft.file, fsync=fsync)


def _create_in_place(file: NewFile, *, fsync: bool) -> None:
    # What this does not open is another's file, or none.
    descriptor = _open_new(file.path)
    try:
        try:
            _write(descriptor, file.data)
            if fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        _remove(file.path)
        raise


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
