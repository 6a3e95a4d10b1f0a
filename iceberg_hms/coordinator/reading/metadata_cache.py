"""Caches table metadata by location. A metadata file never changes, so an entry is never stale."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from iceberg_hms.coordinator.ports import Files, Pointer, Runtime
from iceberg_hms.coordinator.reading.metadata_reader import MetadataReader
from iceberg_hms.errors import MissingFile, StorageError
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds
from iceberg_hms.format.locations import parse
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.memory_budget import MemoryBudget


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

#: How long `present_version` trusts that a file is still in its store; a local disk is asked each time.
CHECK_SECONDS: Final = 60.0
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
    most `max_bytes` of all tables together. Safe for threads. bounds: of the files that it reads.
    """

    def __init__(
        self,
        files: Files,
        runtime: Runtime,
        *,
        max_bytes: int,
        bounds: FileBounds = DEFAULT_BOUNDS,
    ) -> None:
        self._files = files
        self._runtime = runtime
        self._max_bytes = max_bytes
        self._reader = MetadataReader(files, bounds)
        self.bounds = bounds
        self._mutex = self._runtime.mutex()
        #: Location -> entry, the least recently used first.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        #: Table -> the locations of its entries, the least recently used first.
        self._versions: dict[str, list[str]] = {}
        self._bytes = 0
        #: What somebody uses, also if it is not kept.
        self._alive: WeakValueDictionary[str, TableMetadata] = WeakValueDictionary()

    def use_memory(self, budget: MemoryBudget) -> None:
        """Count what is read and kept from now on in this budget; until then any memory will do."""
        self._reader.memory = budget
        budget.add_cache(self.clear)

    def clear(self) -> None:
        """Keep nothing of what is here."""
        with self._mutex:
            for location in tuple(self._entries):
                self._forget(location)

    def get(self, location: str, versions: int = VERSIONS) -> TableMetadata:
        """The metadata at a location. versions: how many of the table its reader has at once, by default those of a
        commit. Raises MissingFile, CorruptFile, StorageError, UnsupportedFormat; before the file
        is read or parsed ResourceExhausted."""
        with self._mutex:
            entry = self._entries.get(location)
            if entry is not None:
                self._entries.move_to_end(location)
                kept = self._versions[entry.table]
                kept.remove(location)
                kept.append(location)
                return entry.metadata
            alive = self._alive.get(location)
        if alive is None:
            return self.read_anew(location, versions)
        self.put(location, alive)
        return alive

    def version(self, pointer: Pointer) -> TableVersion:
        """The table that a row of the metastore points at. Raises as `get`."""
        return TableVersion(pointer, self.get(pointer.metadata_location))

    def present_version(self, pointer: Pointer) -> TableVersion:
        """As `version`, for callers who read the table: raises MissingFile also if the metadata is cached and its file
        is gone. A store that does not answer leaves the cached metadata in use."""
        self._check_present(pointer.metadata_location)
        return TableVersion(pointer, self.get(pointer.metadata_location, versions=1))

    def _check_present(self, location: str) -> None:
        # A look costs 4 microseconds on a local disk, and a round trip to any other store.
        trusted = 0.0 if parse(location).is_local else CHECK_SECONDS
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
        return self._read(location, 1) if entry is None else entry.metadata

    def read_anew(self, location: str, versions: int = 1) -> TableMetadata:
        """As `get`, but always reads the file, and keeps what it reads. Raises as `get`."""
        metadata = self._read(location, versions)
        self.put(location, metadata)
        return metadata

    def encode(self, metadata: TableMetadata, base: TableMetadata) -> bytes:
        """`metadata_file.encode` of what was made of `base`, whose memory counts for both; of what is large one at a
        time."""
        memory = base.memory
        with self._reader.memory.alone(0 if memory is None else memory.bytes):
            data = metadata_file.encode(metadata, self.bounds)
        if memory is not None:
            memory.set_to(max(memory.bytes, VERSIONS * _counted(metadata)))
        metadata.memory = memory
        return data

    def put(self, location: str, metadata: TableMetadata) -> None:
        """Keep metadata that was just read or written, unless it alone takes more than `max_bytes`."""
        # Tables of old writers have no uuid. `to_bytes` makes the text before the mutex is taken, so nobody waits for
        # it.
        size = _counted(metadata)
        if metadata.memory is None:
            # It was written, and may be in the table: nothing refuses it.
            metadata.memory = self._reader.memory.share()
            metadata.memory.set_to(size)
        entry = _Entry(metadata, metadata.uuid or location, size, self._runtime.now())
        with self._mutex:
            self._forget(location)
            self._alive[location] = metadata
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

    def _read(self, location: str, versions: int) -> TableMetadata:
        return self._reader.read(location, lambda text: TableMetadata.parse(text).verify(), versions)


def _counted(metadata: TableMetadata) -> int:
    """About the bytes of memory that it takes."""
    return _FIXED_BYTES + _BYTES_PER_TEXT_BYTE * len(metadata.to_bytes())
