"""Table metadata by location. A metadata file never changes, so what was read once is true for ever."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from iceberg_hms.coordinator.ports import Files, Pointer, Runtime
from iceberg_hms.errors import MissingFile, StorageError
from iceberg_hms.format import metadata_file
from iceberg_hms.format.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Base:
    """A table as it is: its row in the metastore, and the metadata that the row points at."""

    pointer: Pointer
    metadata: TableMetadata


class MetadataCache:
    """Metadata by its location, bounded by the files' bytes; the least recently used goes first. Safe for threads."""

    def __init__(self, files: Files, runtime: Runtime, *, max_bytes: int, read_retries: int) -> None:
        self._files = files
        self._runtime = runtime
        self._mutex = runtime.mutex()
        self._max_bytes = max_bytes
        self._read_retries = read_retries
        self._entries: OrderedDict[str, tuple[TableMetadata, int]] = OrderedDict()
        self._bytes = 0

    def get(self, location: str) -> TableMetadata:
        """Raises MissingFile, CorruptFile, StorageError, UnsupportedFormat."""
        with self._mutex:
            if location in self._entries:
                self._entries.move_to_end(location)
                return self._entries[location][0]
        data = self._read(location)
        metadata = metadata_file.decode(data, location)
        self.put(location, metadata, len(data))
        return metadata

    def put(self, location: str, metadata: TableMetadata, size: int) -> None:
        """Keep what was just read or written; `size` is the file's length in bytes."""
        with self._mutex:
            previous = self._entries.pop(location, None)
            self._bytes += size - (previous[1] if previous else 0)
            self._entries[location] = (metadata, size)
            while self._bytes > self._max_bytes and self._entries:
                _, (_, freed) = self._entries.popitem(last=False)
                self._bytes -= freed

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
