"""Table metadata by location. A metadata file never changes, so what was read once is true for ever."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Final

from iceberg_hms import forks
from iceberg_hms.coordinator.ports import Files, Pointer, Runtime
from iceberg_hms.errors import MissingFile, StorageError
from iceberg_hms.format import metadata_file
from iceberg_hms.format.metadata import Memory, TableMetadata


@dataclass(frozen=True, slots=True)
class Base:
    """A table as it is: its row in the metastore, and the metadata that the row points at."""

    pointer: Pointer
    metadata: TableMetadata


#: Of one table so many versions are in use: the base of a commit, and what the commit makes of it.
IN_USE: Final = 2


@dataclass(frozen=True, slots=True)
class _Entry:
    """own: the bytes that it takes beside its text and what `memory.shared` counts."""

    metadata: TableMetadata
    memory: Memory
    own: int

    @property
    def alone(self) -> int:
        """The bytes that it takes if it shares nothing."""
        return self.memory.text + self.own + sum(part.memory for part in self.memory.shared)


class MetadataCache:
    """Metadata by its location, bounded by the memory that it takes. Safe for threads.

    Versions of one table share most of their snapshots; what they share is counted once. A table that is committed to
    all the time must not push the others out: of each table the versions in use stay longest. Its past lets its text go
    at once, and is the first to go itself.
    """

    def __init__(self, files: Files, runtime: Runtime, *, max_bytes: int, read_retries: int) -> None:
        self._files = files
        self._runtime = runtime
        self._max_bytes = max_bytes
        self._read_retries = read_retries
        self.begin_in_forked_child()
        forks.tell(self)

    def begin_in_forked_child(self) -> None:
        """Begin empty: a thread of the parent may have been about to count what it had put in or taken out."""
        self._mutex = self._runtime.mutex()
        #: Both in the order of their last use: the versions in use of all tables, and what they took the place of.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._past: OrderedDict[str, _Entry] = OrderedDict()
        #: By table uuid, where its versions in use are, in the order of their last use.
        self._in_use: dict[str, list[str]] = {}
        #: How many entries have a part, by its identity, which no other object takes while an entry has it.
        self._sharers: Counter[int] = Counter()
        self._bytes = 0

    @property
    def bytes_taken(self) -> int:
        """About how much memory the entries take."""
        return self._bytes

    def get(self, location: str) -> TableMetadata:
        """Raises MissingFile, CorruptFile, StorageError, UnsupportedFormat."""
        with self._mutex:
            entry = self._take_out(location)
            if entry is not None:
                self._use(location, entry)
                return entry.metadata
        return self.read_anew(location)

    def read_anew(self, location: str) -> TableMetadata:
        """The same from the file itself, whatever was kept under its name. Raises as `get`."""
        data = self._read(location)
        metadata = metadata_file.decode(data, location)
        self.put(location, metadata, len(data))
        return metadata

    def put(self, location: str, metadata: TableMetadata, size: int) -> None:
        """Keep what was just read or written, unless it takes more than all the room there is; `size` is the file's
        length in bytes, which it takes at least."""
        memory = metadata.memory()
        entry = _Entry(metadata, memory, max(0, size - memory.text, memory.own))
        # Looks at every snapshot that was never counted before: others must not wait for it.
        fits = entry.alone <= self._max_bytes
        with self._mutex:
            previous = self._take_out(location)
            if previous is not None:
                self._uncount(previous)
            if not fits:
                return
            self._count(entry)
            if self._is_past(entry):
                self._lay_by(location, entry)
            else:
                self._use(location, entry)
            while self._bytes > self._max_bytes:
                gone = next(iter(self._past or self._entries))
                freed = self._take_out(gone)
                if freed is not None:
                    self._uncount(freed)

    def _use(self, location: str, entry: _Entry) -> None:
        """Put an entry that is nowhere among the versions in use."""
        in_use = self._in_use.setdefault(_table(entry, location), [])
        in_use.append(location)
        self._entries[location] = entry
        self._bytes += entry.memory.text
        entry.metadata.keep_text(True)
        if len(in_use) > IN_USE:
            oldest = in_use[0]
            laid_by = self._take_out(oldest)
            if laid_by is not None:
                self._lay_by(oldest, laid_by)

    def _lay_by(self, location: str, entry: _Entry) -> None:
        """Put an entry that is nowhere into the past."""
        self._past[location] = entry
        entry.metadata.keep_text(False)

    def _is_past(self, entry: _Entry) -> bool:
        """Whether newer versions are in use: old files are read to trace what became of a commit."""
        in_use = self._in_use.get(entry.metadata.uuid or "", ())
        updated_ms = entry.metadata.last_updated_ms
        return len(in_use) == IN_USE and all(
            self._entries[each].metadata.last_updated_ms > updated_ms for each in in_use
        )

    def _take_out(self, location: str) -> _Entry | None:
        """Take an entry from where it is; what it takes without its text stays counted."""
        entry = self._past.pop(location, None)
        if entry is None and (entry := self._entries.pop(location, None)) is not None:
            self._bytes -= entry.memory.text
            in_use = self._in_use[_table(entry, location)]
            in_use.remove(location)
            if not in_use:
                del self._in_use[_table(entry, location)]
        return entry

    def _count(self, entry: _Entry) -> None:
        self._bytes += entry.own
        for part in entry.memory.shared:
            self._sharers[id(part)] += 1
            if self._sharers[id(part)] == 1:
                self._bytes += part.memory

    def _uncount(self, entry: _Entry) -> None:
        self._bytes -= entry.own
        for part in entry.memory.shared:
            self._sharers[id(part)] -= 1
            if not self._sharers[id(part)]:
                del self._sharers[id(part)]
                self._bytes -= part.memory

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


def _table(entry: _Entry, location: str) -> str:
    """What the versions of one table have in common; tables of old writers have no uuid."""
    return entry.metadata.uuid or location
