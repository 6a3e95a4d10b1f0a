"""The Files port on pyarrow's filesystems.

Local files go through `local_files` when they are written or deleted. Object stores have no exclusive create: there the
name is looked up first, which is enough because every name that we write is new.
"""

from __future__ import annotations

import contextlib
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyarrow import fs

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator import usage
from iceberg_hms.errors import AlreadyExists, IcebergHmsError, InvalidInput, MissingFile, StorageError
from iceberg_hms.storage import local_files
from iceberg_hms.storage.locations import Location, parse

#: Kinds of store that `default_filesystem` opens; credentials and endpoints come from the store's usual environment.
SCHEMES: Final = ("file", "s3", "hdfs", "viewfs", "gs")


def default_filesystem(location: Location) -> Any:
    """The pyarrow filesystem of a location. Raises InvalidInput for a scheme that is not in SCHEMES, StorageError if
    the filesystem cannot be reached."""
    try:
        match location.scheme:
            case "file":
                return fs.LocalFileSystem()
            case "s3":
                return fs.S3FileSystem()
            case "gs":
                return fs.GcsFileSystem()
            case "hdfs" | "viewfs":
                return fs.HadoopFileSystem.from_uri(f"{location.scheme}://{location.authority or 'default'}/")
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise StorageError(f"Cannot open the filesystem {location.scheme}://{location.authority}: {error}") from error
    raise InvalidInput(f"No filesystem for scheme {location.scheme!r}; known are {', '.join(SCHEMES)}")


class PyArrowFiles:
    """Implements `coordinator.ports.Files`. Safe to share between threads.

    fsync: flush local files to the disk before `write` returns. filesystem: makes the filesystem of a location; called
    once for each scheme and authority.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        filesystem: Callable[[Location], Any] = default_filesystem,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._fsync = fsync
        self._make_filesystem = filesystem
        self._clock = clock
        self._filesystems: dict[tuple[str, str], Any] = {}
        self._mutex = threading.Lock()

    def read(self, location: str) -> bytes:
        """The whole file. Raises MissingFile, StorageError, and InvalidInput for what is no location."""
        filesystem, path, parsed = self._resolve(location)
        with _mapped(location):
            if _is_local(filesystem, parsed):
                return Path(path).read_bytes()
            with filesystem.open_input_file(path) as file:
                return bytes(file.read())

    def open(self, location: str) -> Any:
        """A pyarrow.NativeFile to read from at any place, as for footers; the caller closes it. Raises as `read`."""
        filesystem, path, _ = self._resolve(location)
        with _mapped(location):
            return filesystem.open_input_file(path)

    def write(self, location: str, data: bytes) -> None:
        """Create a new file. Raises AlreadyExists, StorageError; after a StorageError the file may be there in part on
        an object store, on a local disk it is not there at all."""
        self.write_all([(location, data)])

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Create several new files; local ones are flushed together. Raises as `write`; none of them is left then,
        unless an object store does not remove it."""
        local: list[local_files.NewFile] = []
        made: list[str] = []
        try:
            for location, data in files:
                filesystem, path, parsed = self._resolve(location)
                if _is_local(filesystem, parsed):
                    local.append(local_files.NewFile(path, data))
                    continue
                with _creating(location):
                    self._write_remote(filesystem, path, location, data)
                made.append(location)
            with _creating(" and ".join(file.path for file in local)):
                local_files.create(local, fsync=self._fsync, clock=self._clock)
            made = [location for location, _ in files]
            for location, data in files:
                length = self.length(location)
                if length != len(data):
                    raise StorageError(f"Wrote {len(data)} bytes to {location}, but it has {length}")
                usage.wrote(length)
        except IcebergHmsError:
            for location in made:
                with contextlib.suppress(IcebergHmsError):
                    self.delete(location)
            raise

    def length(self, location: str) -> int:
        """Bytes. Raises MissingFile, StorageError."""
        filesystem, path, parsed = self._resolve(location)
        if _is_local(filesystem, parsed):
            with _mapped(location):
                status = Path(path).stat()
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"Not a file: {location}")
            return status.st_size
        with _mapped(location):
            info = filesystem.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise MissingFile(location)
        if info.type != fs.FileType.File:
            raise StorageError(f"Not a file: {location}")
        return int(info.size)

    def delete(self, location: str) -> bool:
        """Remove a file; False if it was not there. Raises StorageError, also for a folder."""
        filesystem, path, parsed = self._resolve(location)
        with _mapped(location):
            if _is_local(filesystem, parsed):
                return local_files.delete(Path(path))
        try:
            self.length(location)
            with _mapped(location):
                filesystem.delete_file(path)
        except MissingFile:
            return False
        return True

    def _resolve(self, location: str) -> tuple[Any, str, Location]:
        parsed = parse(location)
        key = (parsed.scheme, parsed.authority)
        with self._mutex:
            filesystem = self._filesystems.get(key)
            if filesystem is None:
                filesystem = self._filesystems[key] = self._make_filesystem(parsed)
        # Object stores take `bucket/key`; HDFS knows its authority already.
        path = f"{parsed.authority}{parsed.path}" if parsed.scheme in ("s3", "gs") else parsed.path
        return filesystem, path, parsed

    @staticmethod
    def _write_remote(filesystem: Any, path: str, location: str, data: bytes) -> None:
        if filesystem.get_file_info(path).type != fs.FileType.NotFound:
            raise AlreadyExists(f"File already exists: {location}")
        if filesystem.type_name not in ("s3", "gcs"):
            filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        with filesystem.open_output_stream(path) as stream:
            stream.write(data)


def _is_local(filesystem: Any, location: Location) -> bool:
    return location.is_local and isinstance(filesystem, fs.LocalFileSystem)


@contextlib.contextmanager
def _creating(location: str) -> Iterator[None]:
    """The errors of making a file, as ours."""
    try:
        with _mapped(location):
            yield
    except FileExistsError as error:
        raise AlreadyExists(f"File already exists: {error.filename or location}") from error
    except MissingFile as error:
        raise StorageError(f"Cannot create {location}: its folder was removed meanwhile, or is a file") from error


@contextlib.contextmanager
def _mapped(location: str) -> Iterator[None]:
    """The one place where errors of the operating system and of pyarrow become ours; FileExistsError passes."""
    try:
        yield
    except (FileExistsError, IcebergHmsError):
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFile(location) from error
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise StorageError(f"{location}: {error}") from error
