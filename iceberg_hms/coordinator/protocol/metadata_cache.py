"""Caches table metadata by location. A metadata file never changes, so an entry is never stale."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from iceberg_hms.coordinator.ports import Files, Pointer, Runtime
from iceberg_hms.errors import CorruptFile, MissingFile, StorageError
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds, Limit
from iceberg_hms.format.locations import parse
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table at one moment: its row in the metastore, and the metadata that the row points at."""

    pointer: Pointer
    metadata: TableMetadata


#: How many versions of one table to keep: the base of a commit, and its result.
VERSIONS: Final = 2
#: Decoded metadata takes this many times the bytes of its JSON text (measured: 4.9 to 5.2 times with 10 to 10,000
#: snapshots), and this many bytes more. The estimate leaves out that versions of a table share most of their objects:
#: two versions take about six times the text, not ten.
_BYTES_PER_TEXT_BYTE: Final = 5
_FIXED_BYTES: Final = 4_096


#: `_Entry.seen` of a file that was not there.
_NEVER: Final = float("-inf")


@dataclass(slots=True)
class _Entry:
    """seen: `Runtime.now()` when the file was last known to be there, or a caller began to look."""

    metadata: TableMetadata
    table: str
    bytes: int
    seen: float


class MetadataCache:
    """Keeps what was used last: at most VERSIONS of each table, so that a busy table does not evict the others, and at
    most `max_bytes` of all tables together. Safe for threads. bounds: of the files that it reads. check_seconds: how
    long `present_version` trusts that a file is still in its store; a local disk is asked each time.
    """

    def __init__(
        self,
        files: Files,
        runtime: Runtime,
        *,
        max_bytes: int,
        read_retries: int,
        check_seconds: float = 0.0,
        bounds: FileBounds = DEFAULT_BOUNDS,
    ) -> None:
        self._files = files
        self._runtime = runtime
        self._max_bytes = max_bytes
        self._read_retries = read_retries
        self._check_seconds = check_seconds
        self.bounds = bounds
        self._mutex = self._runtime.mutex()
        #: Location -> entry, the least recently used first.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        #: Table -> the locations of its entries, the least recently used first.
        self._versions: dict[str, list[str]] = {}
        self._bytes = 0

    def get(self, location: str) -> TableMetadata:
        """The metadata at a location. Raises MissingFile, CorruptFile, StorageError, UnsupportedFormat."""
        with self._mutex:
            entry = self._entries.get(location)
            if entry is not None:
                self._entries.move_to_end(location)
                versions = self._versions[entry.table]
                versions.remove(location)
                versions.append(location)
                return entry.metadata
        return self.read_anew(location)

    def version(self, pointer: Pointer) -> TableVersion:
        """The table that a row of the metastore points at. Raises as `get`."""
        return TableVersion(pointer, self.get(pointer.metadata_location))

    def present_version(self, pointer: Pointer) -> TableVersion:
        """As `version`, for callers who read the table: raises MissingFile also if the metadata is cached and its file
        is gone. A store that does not answer leaves the cached metadata in use."""
        self._check_present(pointer.metadata_location)
        return self.version(pointer)

    def _check_present(self, location: str) -> None:
        # A look costs 4 microseconds on a local disk, and a round trip to any other store.
        trusted = 0.0 if parse(location).is_local else self._check_seconds
        with self._mutex:
            entry = self._entries.get(location)
            now = self._runtime.now()
            if entry is None or now - entry.seen < trusted:
                return
            # One caller looks; the others need not wait for the store.
            entry.seen = now
        try:
            self._files.length(location)
        except MissingFile:
            # The entry stays: what it says is still right, and the table's next commit, which does not look, writes it
            # to a new file.
            entry.seen = _NEVER
            raise
        except StorageError:
            return

    def peek(self, location: str) -> TableMetadata:
        """As `get`, but does not keep what it reads: old versions of a table must not evict those in use. Raises as
        `get`."""
        with self._mutex:
            entry = self._entries.get(location)
        return self._decoded(location) if entry is None else entry.metadata

    def read_anew(self, location: str) -> TableMetadata:
        """As `get`, but always reads the file, and keeps what it reads. Raises as `get`."""
        metadata = self._decoded(location)
        self.put(location, metadata)
        return metadata

    def put(self, location: str, metadata: TableMetadata) -> None:
        """Keep metadata that was just read or written, unless it alone takes more than `max_bytes`."""
        # Tables of old writers have no uuid. `to_bytes` makes the text before the mutex is taken, so nobody waits for
        # it.
        size = _FIXED_BYTES + _BYTES_PER_TEXT_BYTE * len(metadata.to_bytes())
        entry = _Entry(metadata, metadata.uuid or location, size, self._runtime.now())
        with self._mutex:
            self._forget(location)
            if entry.bytes > self._max_bytes:
                metadata.forget_text()
                return
            self._entries[location] = entry
            self._bytes += entry.bytes
            versions = self._versions.setdefault(entry.table, [])
            versions.append(location)
            if len(versions) > VERSIONS:
                self._forget(versions[0])
            while self._bytes > self._max_bytes:
                self._forget(next(iter(self._entries)))

    def _forget(self, location: str) -> None:
        entry = self._entries.pop(location, None)
        if entry is not None:
            # A group that waits for a lock may still hold this metadata, but does not need its text.
            entry.metadata.forget_text()
            self._bytes -= entry.bytes
            self._versions[entry.table].remove(location)
            if not self._versions[entry.table]:
                del self._versions[entry.table]

    def _decoded(self, location: str) -> TableMetadata:
        data = read_patiently(self._files, self._runtime, location, self.bounds.metadata_bytes, self._read_retries)
        return metadata_file.decode(data, location, self.bounds)


def read_patiently(files: Files, runtime: Runtime, location: str, limit: Limit, retries: int) -> bytes:
    """Reads a metadata file, and retries `iceberg.hive.metadata-refresh-max-retries` times after a storage error, as
    Java does. Does not retry if the file is missing. Raises as `Files.read`."""
    for attempt in range(retries):
        try:
            return files.read(location, limit)
        except (MissingFile, CorruptFile):
            raise
        except StorageError:
            runtime.sleep(min(5.0, 0.1 * 4**attempt))
    return files.read(location, limit)
