"""The Files port on pyarrow's filesystems.

`local_files` writes and deletes local files. Object stores have no exclusive create: a look-up before each write is
enough there, because every name that we write is new.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final

import pyarrow
from pyarrow import fs
from tenacity import (
    Retrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_attempt,
    wait_exponential,
)

from iceberg_hms import work
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.errors import (
    CorruptFile,
    FileAlreadyExists,
    IcebergHmsError,
    InvalidInput,
    MissingFile,
    ResourceExhausted,
    StorageError,
)
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.locations import Location, parse
from iceberg_hms.storage import local_files
from iceberg_hms.storage.local_files import Gather, run_sequentially

#: Schemes that `default_filesystem` opens; credentials and endpoints come from the store's usual environment.
SCHEMES: Final = ("file", "s3", "hdfs", "viewfs", "gs")

#: The time of a file of which a store says none.
_NEVER_OLD_NS: Final = 2**62
#: A location and the content to write there.
File = tuple[str, bytes]
#: The location of a local file, its path, and the content to write there.
_LocalFile = tuple[str, str, bytes]

#: Seconds before the first retry of a read, and at most before a later one; give or take half.
_RETRY_SECONDS: Final = (0.1, 5.0)
#: The errors after which a read may succeed; memory is the caller's to wait for.
_TRANSIENT: Final = retry_if_exception_type(StorageError) & retry_if_not_exception_type(
    (CorruptFile, ResourceExhausted)
)
#: How many local files are created and flushed together; each takes a file descriptor meanwhile.
_LOCAL_MAX: Final = 256


#: A host with a port, or a bucket. More would reach the store's client as options: another user, his ticket, any key of
#: its configuration.
_AUTHORITY: Final = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])?(?::[0-9]{1,5})?", re.ASCII)


def default_filesystem(location: Location) -> Any:
    """The pyarrow filesystem of a location. Raises InvalidInput for a scheme that is not in SCHEMES, and for an
    authority that is not just a host, a port or a bucket; StorageError if the filesystem cannot be reached."""
    if not _AUTHORITY.fullmatch(location.authority):
        raise InvalidInput(
            f"The authority of a {location.scheme} location must be a plain host and port, or a bucket",
            next_step="configure users, tickets and endpoints where the server runs, not in a location",
        )
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
    once for each scheme and authority, or more often if threads need the same one at once. gather: runs functions
    in parallel, as `Runtime.gather` does, `io_threads` at a time. read_retries: how often to read a file again after an
    error of its store, as Java does with metadata.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        filesystem: Callable[[Location], Any] = default_filesystem,
        gather: Gather = run_sequentially,
        io_threads: int = 1,
        read_retries: int = 0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._fsync = fsync
        self._gather = gather
        self._io_threads = io_threads
        self._make_filesystem = filesystem
        #: By scheme and authority: each filesystem, and whether it is the local one.
        self._filesystems: dict[tuple[str, str], tuple[Any, bool]] = {}
        self._retrying = Retrying(
            retry=_TRANSIENT,
            stop=stop_after_attempt(1 + read_retries),
            wait=wait_exponential(multiplier=_RETRY_SECONDS[0], exp_base=4, max=_RETRY_SECONDS[1]),
            # Jitter: those who overload a store together must not come back together.
            sleep=lambda seconds: clock.sleep(seconds * (0.5 + clock.jitter())),
            reraise=True,
        )

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        """The whole file. Raises MissingFile, StorageError, CorruptFile for more bytes than the limit and for what is
        no regular file, and InvalidInput for an invalid location."""
        try:
            return self._read(location, limit)
        except StorageError as error:
            # Retrying calls sixty functions around an attempt that succeeds, so it only learns of one that failed.
            return self._retrying(self._read_again, [error], location, limit)

    def _read_again(self, failed: list[StorageError], location: str, limit: Limit) -> bytes:
        """Fails as the first attempt did, and then reads. failed: the error of the first attempt."""
        if failed:
            raise failed.pop()
        return self._read(location, limit)

    def _read(self, location: str, limit: Limit) -> bytes:
        filesystem, path, is_local = self._resolve(location)
        with _mapped(location):
            if is_local:
                data = local_files.read(path, limit.value, partial(limit.check, location))
            else:
                data = _read_remote(filesystem, path, limit.value, partial(limit.check, location))
        if data is None:
            raise limit.exceeded(location, f"it has more than {limit.value} bytes")
        return data

    def open(self, location: str) -> Any:
        """A seekable pyarrow.NativeFile, as for footers; the caller closes it. Raises as `read`."""
        filesystem, path, is_local = self._resolve(location)
        with _mapped(location):
            # Opening a FIFO would keep the thread until somebody writes.
            if is_local and local_files.length(path) is None:
                raise local_files.NotAFile
            return filesystem.open_input_file(path)

    def write(self, location: str, data: bytes) -> None:
        """Create a new file. Raises AlreadyExists, StorageError. After a StorageError an object store may have a part
        of the file, a local disk has none of it."""
        self.write_all([(location, data)])

    def write_all(self, files: Sequence[File]) -> None:
        """Create several new files in parallel; local ones are flushed together. Raises as `write`, after deleting the
        files that it made, as far as the store allows."""
        made: list[str] = []
        try:
            local, remote = self._by_kind(files)
            for start in range(0, len(local), _LOCAL_MAX):
                self._create_local(local[start : start + _LOCAL_MAX], made)
            for start in range(0, len(remote), self._io_threads):
                batch = remote[start : start + self._io_threads]
                self._gather([partial(self._create_remote, file, made) for file in batch])
        except IcebergHmsError:
            for location in made:
                with contextlib.suppress(IcebergHmsError):
                    self.delete(location)
            raise

    def _by_kind(self, files: Sequence[File]) -> tuple[list[_LocalFile], list[File]]:
        """The local files, and the others."""
        local: list[_LocalFile] = []
        remote: list[File] = []
        for location, data in files:
            _, path, is_local = self._resolve(location)
            if is_local:
                local.append((location, path, data))
            else:
                remote.append((location, data))
        return local, remote

    def _create_local(self, files: Sequence[_LocalFile], made: list[str]) -> None:
        """Create all files or none, and add their locations to `made`."""
        new = [(path, data) for _, path, data in files]
        with _creating(" and ".join([path for path, _ in new])):
            local_files.create(new, fsync=self._fsync, gather=self._gather)
        made.extend([location for location, _, _ in files])
        for location, path, data in files:
            _check_length(location, data, _local_length(location, path))

    def _create_remote(self, file: File, made: list[str]) -> None:
        """Create a file, and add its location to `made`."""
        location, data = file
        filesystem, path, _ = self._resolve(location)
        with _creating(location):
            if filesystem.get_file_info(path).type != fs.FileType.NotFound:
                raise FileAlreadyExists(location)
            if filesystem.type_name not in ("s3", "gcs"):
                filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            with filesystem.open_output_stream(path) as stream:
                stream.write(data)
        made.append(location)
        _check_length(location, data, self.length(location))

    def make_folder(self, location: str) -> None:
        _, path, is_local = self._resolve(location)
        if not is_local:
            return
        try:
            local_files.make_folder(path, fsync=self._fsync)
        except OSError as error:
            raise StorageError(f"Cannot make the folder {location}: {error}") from error

    def length(self, location: str) -> int:
        """The length in bytes. Raises MissingFile, StorageError."""
        filesystem, path, is_local = self._resolve(location)
        if is_local:
            return _local_length(location, path)
        with _mapped(location):
            info = filesystem.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise MissingFile(location)
        if info.type != fs.FileType.File:
            raise StorageError(f"Not a file: {location}")
        return int(info.size)

    def delete(self, location: str) -> bool:
        """Delete a file; False if it did not exist. Raises StorageError, also for a folder."""
        filesystem, path, is_local = self._resolve(location)
        with _mapped(location):
            if is_local:
                return local_files.delete(path)
        try:
            self.length(location)
            with _mapped(location):
                filesystem.delete_file(path)
        except MissingFile:
            return False
        return True

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        """As the port says. Reads one folder at a time, so that memory holds no more than that."""
        filesystem, path, is_local = self._resolve(folder)
        prefix = folder.rstrip("/")
        with _mapped(folder):
            if is_local:
                for name, status in local_files.walk(path):
                    yield ListedFile(f"{prefix}/{name}", status.st_size, status.st_mtime_ns // 1_000_000)
                return
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            with _mapped(folder):
                infos = filesystem.get_file_info(fs.FileSelector(f"{path.rstrip('/')}/{inner}", allow_not_found=True))
            for info in infos:
                if info.type == fs.FileType.Directory:
                    waiting.append(f"{inner}{info.base_name}/")
                elif info.type == fs.FileType.File:
                    # A store that does not say when it was written has no old files.
                    modified_ns = info.mtime_ns if info.mtime_ns is not None else _NEVER_OLD_NS
                    yield ListedFile(f"{prefix}/{inner}{info.base_name}", int(info.size), modified_ns // 1_000_000)

    def real_path(self, location: str) -> str:
        parsed = parse(location)
        with _mapped(location):
            path = local_files.real_path(parsed.path) if parsed.is_local else parsed.path
        return f"{parsed.scheme}://{parsed.authority}{path}"

    def is_link(self, location: str) -> bool:
        parsed = parse(location)
        with _mapped(location):
            return parsed.is_local and local_files.is_link(parsed.path)

    def _resolve(self, location: str) -> tuple[Any, str, bool]:
        """The filesystem of a location, the path there, and whether `local_files` is to be used for it."""
        parsed = parse(location)
        key = (parsed.scheme, parsed.authority)
        found = self._filesystems.get(key)
        if found is None:
            # No lock: reaching a store may take seconds, and other stores need not wait. The first one made is kept.
            made = self._make_filesystem(parsed)
            is_local = parsed.is_local and isinstance(made, fs.LocalFileSystem)
            found = self._filesystems.setdefault(key, (made, is_local))
        # Object stores expect `bucket/key`; an HDFS filesystem already has its authority.
        path = f"{parsed.authority}{parsed.path}" if parsed.scheme in ("s3", "gs") else parsed.path
        return found[0], path, found[1]


def _local_length(location: str, path: str) -> int:
    with _mapped(location):
        found = local_files.length(path)
    if found is None:
        raise StorageError(f"Not a file: {location}")
    return found


def _check_length(location: str, data: bytes, length: int) -> None:
    """Raises StorageError unless a new file has the length of what was written."""
    if length != len(data):
        raise StorageError(f"Wrote {len(data)} bytes to {location}, but it has {length}")
    work.wrote(length)


def _read_remote(filesystem: Any, path: str, max_bytes: int, check: Callable[[int], None]) -> bytes | None:
    """As `local_files.read`."""
    with filesystem.open_input_file(path) as file:
        length = int(file.size())
        check(length)
        return local_files.read_parts(file.read, length, max_bytes)


@contextlib.contextmanager
def _creating(location: str) -> Iterator[None]:
    """Maps the errors of creating a file to ours."""
    try:
        with _mapped(location):
            yield
    except FileExistsError as error:
        raise FileAlreadyExists(error.filename or location) from error
    except MissingFile as error:
        raise StorageError(f"Cannot create {location}: its folder was removed, or is a file") from error


class _mapped:  # noqa: N801 - reads as a statement, and runs thrice a commit, too often for a generator
    """Maps errors of the operating system and of pyarrow to ours, except FileExistsError. The only place for that."""

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
        if isinstance(error, OSError | ValueError | pyarrow.ArrowException):
            is_scarce = getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE)
            raise (ResourceExhausted if is_scarce else StorageError)(f"{location}: {error}") from error
