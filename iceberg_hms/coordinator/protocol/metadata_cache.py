"""Table metadata by location. A metadata file never changes, so what was read once is true for ever."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from iceberg_hms.coordinator.ports import Files, Pointer, Runtime
from iceberg_hms.errors import MissingFile, StorageError
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as it is: its row in the metastore, and the metadata that the row points at."""

    pointer: Pointer
    metadata: TableMetadata


#: Of one table so many versions are kept: the base of a commit, and what the commit makes of it.
VERSIONS: Final = 2
#: Metadata takes about so many times its JSON text, and so much beside (measured: 4.9 to 5.2 times with 10 to 10,000
#: snapshots). That versions of a table share most of it is not counted: two take about six times the text, not ten.
_TIMES_TEXT: Final = 5
_BESIDE: Final = 4_096


@dataclass(frozen=True, slots=True)
class _Entry:
    metadata: TableMetadata
    table: str
    bytes: int


class MetadataCache:
    """Metadata by its location: of each table the VERSIONS that were used last, so that one which is committed to all
    the time does not push the others out; of all together those that were used last, within `max_bytes`. Safe for
    threads.
    """

    def __init__(self, files: Files, runtime: Runtime, *, max_bytes: int, read_retries: int) -> None:
        self._files = files
        self._runtime = runtime
        self._max_bytes = max_bytes
        self._read_retries = read_retries
        self._mutex = self._runtime.mutex()
        #: In the order of their last use.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        #: By table, the locations of its entries in the order of their last use.
        self._versions: dict[str, list[str]] = {}
        self._bytes = 0

    def get(self, location: str) -> TableMetadata:
        """Raises MissingFile, CorruptFile, StorageError, UnsupportedFormat."""
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

    def peek(self, location: str) -> TableMetadata:
        """The same without keeping it: the past of a table must not take the place of what is in use. Raises as
        `get`."""
        with self._mutex:
            entry = self._entries.get(location)
        return self._decoded(location) if entry is None else entry.metadata

    def read_anew(self, location: str) -> TableMetadata:
        """The same from the file itself, whatever was kept under its name. Raises as `get`."""
        metadata = self._decoded(location)
        self.put(location, metadata)
        return metadata

    def put(self, location: str, metadata: TableMetadata) -> None:
        """Keep what was just read or written, unless it takes more than all the room there is."""
        # Tables of old writers have no uuid. The text is made here, where nobody waits.
        entry = _Entry(metadata, metadata.uuid or location, _BESIDE + _TIMES_TEXT * len(metadata.to_bytes()))
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
            # Its users may hold it while they wait for a lock, and no longer need its text.
            entry.metadata.forget_text()
            self._bytes -= entry.bytes
            self._versions[entry.table].remove(location)
            if not self._versions[entry.table]:
                del self._versions[entry.table]

    def _decoded(self, location: str) -> TableMetadata:
        return metadata_file.decode(self._read(location), location)

    def _read(self, location: str) -> bytes:
        """Read again after a storage error, `iceberg.hive.metadata-refresh-max-retries` times as Java does; a file that
        is not there stays not there."""
        for attempt in range(self._read_retries):
            try:
                return self._files.read(location)
            except MissingFile:
                raise
            except StorageError:
                self._runtime.sleep(min(5.0, 0.1 * 4**attempt))
        return self._files.read(location)
