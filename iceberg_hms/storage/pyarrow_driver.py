"""The driver for stores that only pyarrow knows."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow
from pyarrow import fs

from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.errors import (
    CorruptFile,
    FileAlreadyExists,
    IcebergHmsError,
    MissingFile,
    ResourceExhausted,
    StorageError,
    StorageRefused,
)
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.format.locations import Location, parse
from iceberg_hms.storage.driver import Entry, list_folder
from iceberg_hms.storage.local_files import read_parts

#: The time of a file of which a store says none.
_NEVER_OLD_NS: Final = 2**62
#: Errors of the operating system after which another attempt fails as well, or that concern this process.
_KINDS: Final[dict[int | None, type[StorageError]]] = {
    errno.EMFILE: ResourceExhausted,
    errno.ENFILE: ResourceExhausted,
    errno.EACCES: StorageRefused,
    errno.EPERM: StorageRefused,
    errno.EROFS: StorageRefused,
}


class PyArrowDriver:
    """Implements `driver.Driver`. make_filesystem: the pyarrow filesystem of a location; called once for each
    authority, or more often if threads need the same one at once.

    These filesystems have no exclusive create: a look-up before each write is enough, because every name that we write
    is new.
    """

    def __init__(self, make_filesystem: Callable[[Location], Any]) -> None:
        self._make_filesystem = make_filesystem
        self._filesystems: dict[str, Any] = {}

    def read(self, location: str, limit: Limit) -> bytes:
        filesystem, path = self._resolve(location)
        with _mapped(location), filesystem.open_input_file(path) as file:
            length = int(file.size())
            limit.check(location, length)
            data = read_parts(file.read, length, limit.value)
        if data is None:
            raise limit.exceeded(location, f"it has more than {limit.value} bytes")
        return data

    def read_range(self, location: str, start: int, end: int) -> bytes:
        filesystem, path = self._resolve(location)
        with _mapped(location), filesystem.open_input_file(path) as file:
            return bytes(file.read_at(end - start, start))

    def read_tail(self, location: str, count: int) -> tuple[int, bytes]:
        filesystem, path = self._resolve(location)
        with _mapped(location), filesystem.open_input_file(path) as file:
            size = int(file.size())
            return size, bytes(file.read_at(min(count, size), max(0, size - count)))

    def create(self, location: str, data: bytes) -> None:
        filesystem, path = self._resolve(location)
        with _mapped(location):
            if filesystem.get_file_info(path).type != fs.FileType.NotFound:
                raise FileAlreadyExists(location)
            if filesystem.type_name != "gcs":
                filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            with filesystem.open_output_stream(path) as stream:
                stream.write(data)
        if (length := self.length(location)) != len(data):
            self.delete(location)
            raise StorageError(f"Wrote {len(data)} bytes to {location}, but it has {length}")

    def length(self, location: str) -> int:
        filesystem, path = self._resolve(location)
        with _mapped(location):
            info = filesystem.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise MissingFile(location)
        if info.type != fs.FileType.File:
            raise CorruptFile(location, "it is no file", next_step="name a file")
        return int(info.size)

    def delete(self, location: str) -> bool:
        filesystem, path = self._resolve(location)
        try:
            self.length(location)
            with _mapped(location):
                filesystem.delete_file(path)
        except MissingFile:
            return False
        return True

    def list_page(self, folder: str, token: Any) -> tuple[Sequence[ListedFile], Any]:
        filesystem, path = self._resolve(folder)

        def read(inner: str) -> Iterator[Entry]:
            with _mapped(folder):
                infos = filesystem.get_file_info(fs.FileSelector(f"{path.rstrip('/')}/{inner}", allow_not_found=True))
            for info in infos:
                # A store that does not say when it was written has no old files.
                modified_ns = info.mtime_ns if info.mtime_ns is not None else _NEVER_OLD_NS
                if info.type in (fs.FileType.Directory, fs.FileType.File):
                    is_folder = info.type == fs.FileType.Directory
                    yield info.base_name, is_folder, int(info.size or 0), modified_ns // 1_000_000

        return list_folder(folder, token, read)

    def folder_exists(self, location: str) -> bool | None:
        filesystem, path = self._resolve(location)
        if filesystem.type_name == "gcs":
            return None
        with _mapped(location):
            return bool(filesystem.get_file_info(path).type == fs.FileType.Directory)

    def _resolve(self, location: str) -> tuple[Any, str]:
        """The filesystem of a location, and the path there: a bucket and a key."""
        parsed = parse(location)
        found = self._filesystems.get(parsed.authority)
        if found is None:
            # No lock: reaching a store may take seconds, and other stores need not wait. The first one made is kept.
            with _mapped(location):
                made = self._make_filesystem(parsed)
            found = self._filesystems.setdefault(parsed.authority, made)
        return found, f"{parsed.authority}{parsed.path}"


@contextmanager
def _mapped(location: str) -> Iterator[None]:
    """Maps pyarrow's errors to ours. The only place for that."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFile(location) from error
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        if isinstance(error, IcebergHmsError):
            raise
        raise _KINDS.get(getattr(error, "errno", None), StorageError)(f"{location}: {error}") from error
