"""The files of this machine's file systems, as `local_files` writes, reads and deletes them."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Final

from pyarrow import OSFile

from iceberg_hms import work
from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import (
    CorruptFile,
    FileAlreadyExists,
    IcebergHmsError,
    MissingFile,
    ResourceExhausted,
    StorageError,
)
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.format.locations import parse
from iceberg_hms.storage import local_files
from iceberg_hms.storage.driver import File, delete_each, together
from iceberg_hms.storage.gather import Gather, run_sequentially
from iceberg_hms.storage.retries import Retries

#: How many files are created and flushed together; each takes a file descriptor meanwhile.
_TOGETHER: Final = 256


#: A mounted file system may be far away.
_DELETE_THREADS: Final = 16
#: With fewer files for each thread, another thread costs more than it saves.
_FILES_PER_THREAD: Final = 4


class LocalStore:
    """Implements `storage.files.Store`. Safe to share between threads.

    fsync: flush files to the disk before `create` returns. gather: runs functions in parallel.
    """

    def __init__(self, retries: Retries, *, fsync: bool = True, gather: Gather = run_sequentially) -> None:
        self._retries = retries
        self._fsync = fsync
        self._gather = gather

    def read(self, location: str, limit: Limit) -> bytes:
        return self._retries.call(partial(_read, location, limit))

    def open(self, location: str) -> OSFile:
        path = parse(location).path
        with _mapped(location):
            # Opening a FIFO would keep the thread until somebody writes.
            if local_files.length(path) is None:
                raise local_files.NotAFile
            return OSFile(path)

    def create(self, files: Sequence[File], made: list[str]) -> None:
        for start in range(0, len(files), _TOGETHER):
            self._create(files[start : start + _TOGETHER], made)

    def _create(self, files: Sequence[File], made: list[str]) -> None:
        """Create all files or none, and add their locations to `made`."""
        new = [(parse(location).path, data) for location, data in files]
        names = " and ".join([path for path, _ in new])
        try:
            with _mapped(names):
                local_files.create(new, fsync=self._fsync, gather=self._gather)
        except FileExistsError as error:
            raise FileAlreadyExists(error.filename or names) from error
        except MissingFile as error:
            raise StorageError(f"Cannot create {names}: its folder was removed, or is a file") from error
        made.extend([location for location, _ in files])
        for location, data in files:
            length = self.length(location)
            if length != len(data):
                raise StorageError(f"Wrote {len(data)} bytes to {location}, but it has {length}")
            work.wrote(length)

    def length(self, location: str) -> int:
        with _mapped(location):
            found = local_files.length(parse(location).path)
        if found is None:
            raise StorageError(f"Not a file: {location}")
        return found

    def delete(self, location: str) -> bool:
        with _mapped(location):
            return local_files.delete(parse(location).path)

    def delete_all(self, locations: Sequence[str]) -> Deleted:
        threads = min(_DELETE_THREADS, -(-len(locations) // _FILES_PER_THREAD))
        found: list[Deleted] = []

        def delete(some: Sequence[str]) -> None:
            found.append(delete_each(self.delete, some))

        self._gather([partial(delete, locations[first::threads]) for first in range(threads)])
        return together(found)

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        """Reads one folder at a time, so that memory holds no more than that."""
        prefix = folder.rstrip("/")
        with _mapped(folder):
            for name, status in local_files.walk(parse(folder).path):
                yield ListedFile(f"{prefix}/{name}", status.st_size, status.st_mtime_ns // 1_000_000)

    def list_links(self, folder: str) -> Iterator[str]:
        prefix = folder.rstrip("/")
        with _mapped(folder):
            for name in local_files.links(parse(folder).path):
                yield f"{prefix}/{name}"

    def folder_exists(self, location: str) -> bool:
        with _mapped(location):
            return local_files.is_folder(parse(location).path)

    def make_folder(self, location: str) -> None:
        try:
            local_files.make_folder(parse(location).path, fsync=self._fsync)
        except OSError as error:
            raise StorageError(f"Cannot make the folder {location}: {error}") from error

    def real_path(self, location: str) -> str:
        with _mapped(location):
            return f"file://{local_files.real_path(parse(location).path)}"

    def is_link(self, location: str) -> bool:
        with _mapped(location):
            return local_files.is_link(parse(location).path)


def _read(location: str, limit: Limit) -> bytes:
    with _mapped(location):
        data = local_files.read(parse(location).path, limit.value, partial(limit.check, location))
    if data is None:
        raise limit.exceeded(location, f"it has more than {limit.value} bytes")
    return data


class _mapped:  # noqa: N801 - reads as a statement, and runs thrice a commit, too often for a generator
    """Maps errors of the operating system to ours, except FileExistsError. The only place for that."""

    __slots__ = ("_location",)

    def __init__(self, location: str) -> None:
        self._location = location

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, FileExistsError | IcebergHmsError):
            return
        location = self._location
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise MissingFile(location) from error
        if isinstance(error, local_files.NotAFile):
            raise CorruptFile(location, "it is no regular file", next_step="name a file") from error
        if isinstance(error, OSError | ValueError):
            is_scarce = getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE)
            raise (ResourceExhausted if is_scarce else StorageError)(f"{location}: {error}") from error
