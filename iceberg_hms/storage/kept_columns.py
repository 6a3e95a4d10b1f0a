"""Decoded manifests in a folder of this machine's disk: Arrow IPC streams, mapped into memory when they are read.

Manifests never change, so a file here is never stale. Several processes share a folder without a coordinator: each file
is written under a temporary name and renamed, and the process that finds the folder too large removes the least
recently used ones. A mapped file stays valid after it was removed.

A file is an Arrow stream of one batch, and a trailer that has the checksum of the stream and says which manifest it is
of. Each process checks a file whole when it first maps it: half a second for the manifests of 2.7 million files
(1.2 GB).
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import pyarrow as pa

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.errors import ConfigError
from iceberg_hms.format.manifests.manifest_list import ManifestFile

_log = logging.getLogger(__name__)

#: What makes a manifest another one, as far as its decoded entries go.
_IDENTITY: Final = attrgetter(
    "manifest_path",
    "manifest_length",
    "partition_spec_id",
    "added_snapshot_id",
    "content",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
)
#: At the end of each file: what it is, the checksum of the stream before it, whose it is, and the checksum of all that.
_TRAILER: Final = struct.Struct("<8sI32sI")
_MAGIC: Final = b"ihmscols"
_ENDING: Final = ".columns"
_TEMPORARY: Final = ".tmp"
_BLOCK: Final = 4_096
#: Of the largest size of a folder: how much a process writes before it looks at the folder again, and how much it then
#: leaves free for other processes that write meanwhile.
_LOOK_SHARE: Final = 32
_FREE_SHARE: Final = 8
#: How many files a process keeps mapped; Linux allows 65,530 maps.
MAPS_MAX: Final = 8_192
#: How often the use of a mapped file is noted, what goes wrong is logged, and a disk that was full is tried.
_NOTED_SECONDS: Final = 60.0
_READ_BY_USER: Final = 0o600
#: Writing a file takes seconds at most: one that is unfinished for an hour is of a writer that was killed.
_ABANDONED_NS: Final = 3_600 * 1_000_000_000


class _Damaged(Exception):
    """A file is not what this module wrote."""


class _TooLarge(Exception):
    """A file would be larger than the folder may be."""


@dataclass(slots=True)
class _Mapped:
    columns: pa.RecordBatch
    path: str
    size: int
    noted: float


class ColumnFolder:
    """Implements `planning.manifest_columns.KeptColumns`. Safe for threads; for a forked child make another one.

    Nothing that goes wrong with the folder fails a plan: `get` then finds nothing, `put` keeps nothing, and a warning
    is logged, once a minute at most.

    folder: is made if it is missing; its parent is not. max_bytes: of all files together, on the disk; exceeded by a
    32nd for each further process that writes at the same time. As much again may be mapped, and take room on the disk
    until it is unmapped, if other processes removed all of it.
    layout: the version of what the batches have; files of another one are not found.
    Raises ConfigError for a folder that others can write to.
    """

    def __init__(self, folder: str, max_bytes: int, runtime: Runtime, *, layout: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._runtime = runtime
        self._layout = layout
        self._mutex = runtime.mutex()
        self._mapped: OrderedDict[tuple[Any, ...], _Mapped] = OrderedDict()
        self._mapped_bytes = 0
        # What the folder has, as far as this process knows, and what it wrote since it looked.
        self._bytes = 0
        self._unseen_bytes: int | None = None
        self._logged_at = self._failed_at = -_NOTED_SECONDS
        try:
            self._make_folder()
        except OSError as error:
            self._warn("cannot be used", error)

    @classmethod
    def configured(cls, settings: Settings, runtime: Runtime, *, layout: int) -> Self | None:
        """As the settings say; None: no folder is named. Raises ConfigError."""
        if not settings.planning_cache_dir:
            return None
        return cls(settings.planning_cache_dir, settings.planning_cache_max_bytes, runtime, layout=layout)

    def get(self, file: ManifestFile) -> pa.RecordBatch | None:
        """The columns that were kept of a manifest; None if there are none."""
        identity = _IDENTITY(file)
        with self._mutex:
            known = self._mapped.get(identity)
            if known is not None:
                self._mapped.move_to_end(identity)
        if known is None:
            known = self._open(identity)
            if known is None:
                return None
            self._remember(identity, known)
        elif self._runtime.now() - known.noted >= _NOTED_SECONDS:
            self._note_use(known)
        return known.columns

    def put(self, file: ManifestFile, columns: pa.RecordBatch) -> None:
        """Keep the columns of a manifest, for this process and for others."""
        if columns.nbytes > self._max_bytes or self._runtime.now() - self._failed_at < _NOTED_SECONDS:
            return
        digest = self._digest(_IDENTITY(file))
        path = self._path(digest)
        if os.path.lexists(path):
            return
        try:
            self._write(path, digest, columns)
        except _TooLarge:
            return
        except FileNotFoundError:
            # Somebody removed the folder, or this file's temporary one.
            with contextlib.suppress(OSError, ConfigError):
                self._make_folder()
        except OSError as error:
            self._failed_at = self._runtime.now()
            self._warn("keeps nothing for a minute", error)

    def _open(self, identity: tuple[Any, ...]) -> _Mapped | None:
        digest = self._digest(identity)
        path = self._path(digest)
        try:
            return self._map(path, digest)
        except FileNotFoundError:
            return None
        except (_Damaged, pa.ArrowInvalid) as error:
            self._warn(f"has a damaged file, {path}, which is removed", error)
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - as in `local_files`
        except OSError as error:
            self._warn(f"has a file that cannot be read, {path}", error)
        return None

    def _map(self, path: str, digest: bytes) -> _Mapped:
        """Raises _Damaged, ArrowInvalid, OSError."""
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or _is_open_to_others(status):
            raise _Damaged("it is not a file of this user alone")
        with pa.memory_map(path) as source:
            content = source.read_buffer(status.st_size)
        length = content.size - _TRAILER.size
        if length <= 0:
            raise _Damaged("it is too short")
        end = content.slice(length).to_pybytes()
        magic, checksum, owner, own_checksum = _TRAILER.unpack(end)
        if magic != _MAGIC or own_checksum != zlib.crc32(end[:-4]):
            raise _Damaged("it is cut off, or of another program")
        if owner != digest:
            raise _Damaged("it is of another manifest")
        stream = content.slice(0, length)
        if zlib.crc32(stream) != checksum:
            raise _Damaged("its checksum is wrong")
        mapped = _Mapped(pa.ipc.open_stream(stream).read_next_batch(), path, content.size, noted=0.0)
        self._note_use(mapped)
        return mapped

    def _remember(self, identity: tuple[Any, ...], opened: _Mapped) -> None:
        with self._mutex:
            before = self._mapped.pop(identity, None)
            self._mapped_bytes += opened.size - (before.size if before else 0)
            self._mapped[identity] = opened
            while self._mapped_bytes > self._max_bytes or len(self._mapped) > MAPS_MAX:
                _, oldest = self._mapped.popitem(last=False)
                self._mapped_bytes -= oldest.size

    def _note_use(self, mapped: _Mapped) -> None:
        mapped.noted = self._runtime.now()
        now_ns = self._runtime.now_ms() * 1_000_000
        with contextlib.suppress(OSError):
            os.utime(mapped.path, ns=(now_ns, now_ns))

    def _write(self, path: str, digest: bytes, columns: pa.RecordBatch) -> None:
        """Raises OSError, _TooLarge; leaves no part of the file then."""
        temporary = f"{path}.{self._runtime.uuid()}{_TEMPORARY}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _READ_BY_USER)
        try:
            with open(descriptor, "wb", buffering=0) as raw:  # noqa: PTH123 - an open descriptor
                sink = _Sink(raw)
                with pa.ipc.new_stream(sink, columns.schema) as stream:
                    stream.write_batch(columns)
                end = _TRAILER.pack(_MAGIC, sink.checksum, digest, 0)[:-4]
                end += struct.pack("<I", zlib.crc32(end))
                sink.write(end)
                self._make_room(sink.length)
                now_ns = self._runtime.now_ms() * 1_000_000
                os.utime(descriptor, ns=(now_ns, now_ns))
                os.rename(temporary, path)  # noqa: PTH104 - as in `local_files`
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108 - as in `local_files`
            raise

    def _make_room(self, size: int) -> None:
        """Remove files until there is room for one that was just written. Raises OSError, _TooLarge."""
        if _on_disk(size) > self._max_bytes:
            raise _TooLarge
        with self._mutex:
            taken = _on_disk(size)
            self._bytes += taken
            unseen = self._unseen_bytes
            self._unseen_bytes = None if unseen is None else unseen + taken
            if (
                unseen is not None
                and unseen + taken < self._max_bytes // _LOOK_SHARE
                and self._bytes <= self._max_bytes
            ):
                return
            self._unseen_bytes = 0
        found = sorted(self._files())
        total = sum(taken for _, _, taken in found)
        if total > self._max_bytes:
            for _, path, taken in found:
                if total <= self._max_bytes - self._max_bytes // _FREE_SHARE or path.endswith(_TEMPORARY):
                    break
                # Others remove files as well.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)  # noqa: PTH108 - as in `local_files`
                total -= taken
        with self._mutex:
            self._bytes = total

    def _files(self) -> Iterator[tuple[int, str, int]]:
        """The files of this folder, of all layouts: when each was used, its path, and what it takes of the disk.
        Removes what writers that were killed left. Raises OSError."""
        now_ns = self._runtime.now_ms() * 1_000_000
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if not entry.name.endswith((_ENDING, _TEMPORARY)) or not entry.is_file(follow_symlinks=False):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_TEMPORARY) and now_ns - status.st_mtime_ns > _ABANDONED_NS:
                        os.unlink(entry.path)  # noqa: PTH108 - as in `local_files`
                        continue
                    # A file that is being written is the last to go.
                    used = status.st_mtime_ns if entry.name.endswith(_ENDING) else 2**63
                    yield used, entry.path, _on_disk(status.st_size)

    def _make_folder(self) -> None:
        """Raises OSError, ConfigError."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)  # noqa: PTH102 - as in `local_files`
        problem = unsafe_folder(Path(self._folder).stat(), os.geteuid())
        if problem:
            raise ConfigError(
                f"`planning.cache-dir` is {self._folder}, {problem}: a plan would believe what they write there",
                next_step="name a folder that does not exist yet, in one that does, or `chmod 700` this one",
            )

    def _digest(self, identity: tuple[Any, ...]) -> bytes:
        return blake2b(repr((self._layout, identity)).encode(), digest_size=32).digest()

    def _path(self, digest: bytes) -> str:
        return f"{self._folder}/{digest[:16].hex()}.v{self._layout}{_ENDING}"

    def _warn(self, what: str, error: Exception) -> None:
        now = self._runtime.now()
        if now - self._logged_at >= _NOTED_SECONDS:
            self._logged_at = now
            _log.warning(
                "the cache of decoded manifests, %s, %s; plans go on without it: %s", self._folder, what, error
            )


class _Sink:
    """A file that Arrow writes to, with the checksum and the length of what it wrote."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.checksum = 0
        self.length = 0

    def write(self, data: bytes) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        left = memoryview(data)
        self.length += len(left)
        while left:
            left = left[self._file.write(left) :]
        return len(data)

    def flush(self) -> None:
        """Nothing is buffered."""


def unsafe_folder(status: os.stat_result, user_id: int) -> str:
    """Why a folder is none for files that this user believes; empty if it is one."""
    if not stat.S_ISDIR(status.st_mode):
        return "which is no folder"
    if status.st_uid != user_id:
        return f"which belongs to another user ({status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "which other users can write to"
    return ""


def _is_open_to_others(status: os.stat_result) -> bool:
    return status.st_uid != os.geteuid() or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
