"""The Manifests port: manifest lists and manifests as records, in files.

One `ManifestStore` serves a process: it caches decoded lists, and filters of the data files in manifests. `open` gives
each group of changes an instance of its own, which has the lists that the group staged.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from iceberg_hms.changes.summary import whole_number
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Begun, Files, Result, Runtime
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.file_bounds import FileBounds, Limit
from iceberg_hms.format.locations import join, parse
from iceberg_hms.format.manifests.manifest import (
    ManifestEntry,
    decode_manifest,
    has_text,
    live_data_files,
    read_header,
)
from iceberg_hms.format.manifests.manifest_list import (
    EncodedList,
    ManifestContent,
    ManifestFile,
    decode_list,
    encode_list,
    leading_added_manifests,
    read_list,
)
from iceberg_hms.format.manifests.manifest_writer import EntryKind, EntryKinds, ManifestSummary, ManifestWriter
from iceberg_hms.format.metadata.metadata_file import folder
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import MANIFEST_TARGET_SIZE
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.memory_budget import HeldMemory, MemoryBudget
from iceberg_hms.storage import file_filters
from iceberg_hms.storage.bounded_cache import BoundedCache
from iceberg_hms.work import stop_if_caller_left

_log = logging.getLogger(__name__)

#: A list that was read, or one that we wrote, with its encoded records.
CachedList = tuple[ManifestFile, ...] | EncodedList

#: Memory of a decoded list entry, measured with four partition fields; for the bound of the cache.
_BYTES_PER_MANIFEST: Final = 1_200
#: Memory of a file that is read, in times of its length: its bytes, and a block that is inflated or a list's records.
_TIMES_LENGTH: Final = 2
#: So many bytes of manifests are read at the same time; or one, if it has more.
BATCH_BYTES: Final = 64 * 1024 * 1024
#: So many bytes of manifests are decoded ahead of who takes the columns; or _AHEAD manifests, if they have more.
#: Decoded they take ten to twenty times as many.
_AHEAD_BYTES: Final = 4 * 1024 * 1024
_AHEAD: Final = 2
#: How many threads decode manifests into columns. Decoding takes ten times the inflated size of a manifest, and
#: DataFusion leaves about 10 MB to each thread on which it decoded; more threads would only share few processors.
DECODERS: Final = 4
#: How long files of local disks are read one after the other.
_LOCAL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class ReadFile:
    """The bytes of a manifest list or a manifest, and the memory that counts them for as long as somebody has them."""

    data: bytes
    memory: HeldMemory


class ManifestStore:
    """What all groups share: files, the caches of lists and of filters, the number of parallel reads.

    decoders: whose threads decode for `decode_each`; None: those of `runtime`. memory: counts what is read; by default
    any memory will do.

    Settings: manifest_cache_max_bytes, file_filter_cache_max_bytes, io_threads, and those of FileBounds.
    """

    def __init__(self, files: Files, settings: Settings, runtime: Runtime, *, decoders: Runtime | None = None) -> None:
        self.files = files
        self.runtime = runtime
        self._decoders = decoders or runtime
        self.io_threads = settings.io_threads
        self.bounds = FileBounds.of(settings.as_dict())
        #: Lists that were read, or written to disk. They are immutable, so none is ever stale.
        self.lists: BoundedCache[CachedList] = BoundedCache(
            settings.manifest_cache_max_bytes, _size_of, runtime.mutex()
        )
        #: The filters of manifests that were read, or written to disk.
        self.filters: BoundedCache[bytes] = BoundedCache(
            settings.file_filter_cache_max_bytes, file_filters.size_of, runtime.mutex()
        )
        self.memory = MemoryBudget()

    def use_memory(self, budget: MemoryBudget) -> None:
        """Count in this budget what is read: beyond it `read` raises ResourceExhausted."""
        self.memory = budget

    def open(self) -> TableManifests:
        return TableManifests(self)

    def read(self, location: str) -> ReadFile:
        """A manifest list or a manifest. Raises StorageError, CorruptFile; ResourceExhausted before it reads a file for
        which there is no memory."""
        stop_if_caller_left()
        memory = self.memory.share()
        largest = self.bounds.manifest_bytes
        limit = Limit(largest.key, largest.value, lambda length: memory.require(_TIMES_LENGTH * length, location))
        try:
            return ReadFile(self.files.read(location, limit), memory)
        except BaseException:
            # The error's frames keep it until the error is answered.
            memory.resize(0)
            raise

    def read_filter(self, file: ManifestFile) -> bytes:
        """Make and cache the filter of a manifest from its entries."""
        read = self.read(file.manifest_path)
        filter_ = file_filters.file_filter(live_data_files(read.data, file.manifest_path, file, self.bounds))
        self.filters.put(file.manifest_path, filter_)
        return filter_

    def write(
        self,
        folder: str,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
    ) -> Sequence[ManifestFile]:
        """As `changes.change.Manifests.write`, into a folder."""
        roller = _RollingManifestWriter(self, folder, metadata, schema, spec, snapshot_id)
        try:
            for entry in entries:
                roller.add(entry)
            return roller.finish()
        except BaseException:
            roller.remove_all()
            raise

    def has_text(self, file: ManifestFile, texts: Sequence[bytes]) -> bool:
        """Whether the records of a manifest have one of these texts anywhere."""
        read = self.read(file.manifest_path)
        return has_text(read.data, file.manifest_path, file, texts, self.bounds)

    def gather(self, files: Iterable[ManifestFile], read: Callable[[ManifestFile], Result]) -> Iterator[Result]:
        """Call `read`, which reads a manifest, with each of them, and yield the results in order.

        Files of local disks are read one after the other, which takes half the time that it takes to hand them to other
        threads, but no longer than _LOCAL_SECONDS: a folder may be mounted from far away. All others are read in
        parallel: `io_threads` at a time, and no more than BATCH_BYTES, as their writers say."""
        batch: list[Callable[[], Result]] = []
        left, local_until = BATCH_BYTES, self.runtime.now() + _LOCAL_SECONDS
        for file in files:
            if not batch and parse(file.manifest_path).is_local and self.runtime.now() < local_until:
                yield read(file)
                continue
            if len(batch) == self.io_threads or (batch and file.manifest_length > left):
                yield from self.runtime.gather(batch)
                batch, left = [], BATCH_BYTES
            batch.append(partial(read, file))
            left -= max(0, file.manifest_length)
        if batch:
            yield from self.runtime.gather(batch)

    def decode_each(
        self, files: Iterable[ManifestFile], decode: Callable[[ManifestFile, bytes, Callable[[int], object]], Result]
    ) -> Iterator[Result]:
        """Read manifests, and call `decode` with each of them and its bytes, both on several threads, also for local
        disks: decoding takes longer than reading. The results are in the order of `files`.

        decode: its last argument is a function to call with the bytes of memory that it takes besides the file, as
        they become known, and in the end with those that its result has; that raises ResourceExhausted if there is no
        memory.
        At most `io_threads` manifests, and about _AHEAD_BYTES of them, are read or wait to be taken at a time. What a
        manifest and its columns take is counted until the next ones are taken. Raises as `read`, and what `decode`
        raises."""
        ahead: deque[tuple[Begun[tuple[Result, ReadFile]], int]] = deque()
        try:
            for file in files:
                length = max(0, file.manifest_length)
                while len(ahead) >= self.io_threads or (
                    len(ahead) >= _AHEAD and length + sum(size for _, size in ahead) > _AHEAD_BYTES
                ):
                    yield from _taken(ahead.popleft()[0])
                reading = self.runtime.begin(partial(self.read, file.manifest_path))
                ahead.append((self._decoders.begin(partial(self._decode, file, reading, decode)), length))
            while ahead:
                yield from _taken(ahead.popleft()[0])
        finally:
            for begun, _ in ahead:
                begun.abandon()

    def _decode(
        self,
        file: ManifestFile,
        reading: Begun[ReadFile],
        decode: Callable[[ManifestFile, bytes, Callable[[int], object]], Result],
    ) -> tuple[Result, ReadFile]:
        read = reading.result()
        own = read.memory.bytes

        def admit(size: int) -> None:
            read.memory.require(own + size, file.manifest_path)

        try:
            return decode(file, read.data, admit), read
        except BaseException:
            # As in `read`.
            read.memory.resize(0)
            raise


def _taken(begun: Begun[tuple[Result, ReadFile]]) -> Iterator[Result]:
    """The result of a decoded manifest, whose memory counts until the caller goes on."""
    decoded = begun.result()
    yield decoded[0]


@dataclass(frozen=True, slots=True)
class _StagedList:
    data: bytes
    encoded: EncodedList


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a manifest, decoded anew for each iteration: undecoded they take much less memory."""

    read: ReadFile
    file: ManifestFile
    bounds: FileBounds

    def __iter__(self) -> Iterator[ManifestEntry]:
        return decode_manifest(self.read.data, self.file.manifest_path, self.file, self.bounds)


class TableManifests:
    """Implements `changes.change.Manifests`. Not thread-safe."""

    def __init__(self, store: ManifestStore) -> None:
        self._store = store
        self._staged: dict[str, _StagedList] = {}
        self._fetched: dict[str, ReadFile] = {}
        # The number of lists that this instance has named, and its UUID, make names unique.
        self._named = 0
        self._uuid = store.runtime.uuid()

    def fetch(self, lists: Sequence[str]) -> None:
        far = [each for each in lists if not parse(each).is_local and self._known(each) is None]
        if len(far) < 2:
            return
        width, left = self._store.io_threads, BATCH_BYTES
        for start in range(0, len(far), width):
            if left <= 0:
                return
            batch = far[start : start + width]
            found = self._store.runtime.gather([partial(self._fetch, each) for each in batch])
            for location, read in zip(batch, found, strict=True):
                if read is not None:
                    self._fetched[location] = read
                    left -= len(read.data)

    def _fetch(self, location: str) -> ReadFile | None:
        try:
            return self._store.read(location)
        except IcebergHmsError:
            # The commit that needs it reads it again, and says what is wrong with it.
            return None

    def list(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        location = snapshot.manifest_list
        if location is None:
            return self._inline(snapshot)
        known = self._known(location)
        if known is None:
            read = self._read_list(location)
            known = decode_list(read.data, location, self._store.bounds)
            self._store.lists.put(location, known)
        return _files(known)

    def added(self, snapshot: Snapshot) -> Sequence[ManifestFile] | None:
        location, count = snapshot.manifest_list, whole_number(snapshot.summary.get("added-data-files"))
        if location is None or count is None or count < 0:
            return None
        known = self._known(location)
        if known is not None:
            return leading_added_manifests(_files(known), snapshot.snapshot_id, count)
        read = self._read_list(location)
        files = read_list(read.data, location, self._store.bounds)
        return leading_added_manifests(files, snapshot.snapshot_id, count)

    def _read_list(self, location: str) -> ReadFile:
        return self._fetched.get(location) or self._store.read(location)

    def _known(self, location: str) -> CachedList | None:
        if location in self._staged:
            return self._staged[location].encoded
        return self._store.lists.get(location)

    def entries(
        self, files: Iterable[ManifestFile], keep: Callable[[ManifestEntry], bool] | None = None
    ) -> Iterator[ManifestEntry]:
        for _, entries in self.read(files):
            for entry in entries:
                if keep is None or keep(entry):
                    yield entry

    def read(self, files: Iterable[ManifestFile]) -> Iterator[tuple[ManifestFile, Iterable[ManifestEntry]]]:
        files = tuple(files)
        contents = self._store.gather(files, lambda each: self._store.read(each.manifest_path))
        for file, read in zip(files, contents, strict=True):
            yield file, _Entries(read, file, self._store.bounds)

    def candidates(self, files: Iterable[ManifestFile], keys: Collection[str]) -> Sequence[ManifestFile]:
        files = tuple(files)
        return tuple(files[at] for at in file_filters.candidates(self._filters(files), keys))

    def naming(self, files: Iterable[ManifestFile], texts: Collection[str]) -> Sequence[ManifestFile]:
        files, wanted = tuple(files), [text.encode() for text in texts]
        found = self._store.gather(files, lambda each: self._store.has_text(each, wanted))
        return tuple(each for each, has_one in zip(files, found, strict=True) if has_one)

    def _filters(self, files: Sequence[ManifestFile]) -> Sequence[bytes]:
        known = [self._store.filters.get(each.manifest_path) for each in files]
        # Skip manifests of delete files, and those without live files.
        unread = {
            at
            for at, each in enumerate(known)
            if each is None and files[at].content == ManifestContent.DATA and files[at].has_live_files
        }
        read = self._store.gather((files[at] for at in sorted(unread)), self._store.read_filter)
        return [next(read) if at in unread else each or b"" for at, each in enumerate(known)]

    def write(
        self,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
    ) -> Sequence[ManifestFile]:
        return self._store.write(folder(metadata), metadata, schema, spec, snapshot_id, entries)

    def stage_list(self, metadata: TableMetadata, snapshot: Snapshot, files: Sequence[ManifestFile]) -> str:
        snapshot_id = snapshot.snapshot_id
        data, encoded = encode_list(
            metadata.format_version,
            snapshot_id,
            snapshot.parent_snapshot_id,
            snapshot.sequence_number,
            snapshot.first_row_id,
            files,
            carried=self._encoded_parent(metadata, snapshot),
            bounds=self._store.bounds,
        )
        self._named += 1
        name = f"snap-{snapshot_id}-{self._named}-{self._uuid}.avro"
        location = join(folder(metadata), name)
        self._staged[location] = _StagedList(data, encoded)
        return location

    def _encoded_parent(self, metadata: TableMetadata, snapshot: Snapshot) -> EncodedList | None:
        parent_id = snapshot.parent_snapshot_id
        parent = None if parent_id is None else metadata.snapshot_by_id(parent_id)
        location = None if parent is None else parent.manifest_list
        known = None if location is None else self._known(location)
        return known if isinstance(known, EncodedList) else None

    def flush(self) -> Sequence[str]:
        locations = tuple(self._staged)
        self._store.files.write_all([(location, self._staged[location].data) for location in locations])
        for location in locations:
            self._store.lists.put(location, self._staged.pop(location).encoded)
        return locations

    def discard(self, locations: Iterable[str]) -> None:
        for location in locations:
            self._staged.pop(location, None)

    def _inline(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of an old v1 snapshot without a list; their list entries are computed from the manifests."""
        length = MANIFEST_TARGET_SIZE.default
        files = [_undescribed(each, length, 0, snapshot.snapshot_id) for each in snapshot.manifests]
        contents = self._store.gather(files, lambda each: self._store.read(each.manifest_path))
        return tuple(
            _describe(read.data, location, snapshot.snapshot_id, self._store.bounds)
            for location, read in zip(snapshot.manifests, contents, strict=True)
        )


def _files(known: CachedList) -> tuple[ManifestFile, ...]:
    return known.files if isinstance(known, EncodedList) else known


def _describe(data: bytes, location: str, snapshot_id: int, bounds: FileBounds) -> ManifestFile:
    spec_id = read_header(data, location, bounds).partition_spec_id
    summary = ManifestSummary(None)
    for entry in decode_manifest(data, location, _undescribed(location, len(data), spec_id, snapshot_id), bounds):
        summary.add(entry)
    file = summary.manifest_file(location, len(data), spec_id, snapshot_id)
    return replace(file, sequence_number=0, min_sequence_number=0)


def _undescribed(location: str, length: int, spec_id: int, snapshot_id: int) -> ManifestFile:
    """A manifest of which no list says what is in it."""
    return ManifestFile(location, length, spec_id, snapshot_id, sequence_number=0, min_sequence_number=0)


class _RollingManifestWriter:
    """Writes entries to manifests; starts a new one at the target size; separates kinds of entries."""

    def __init__(
        self,
        store: ManifestStore,
        folder: str,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
    ) -> None:
        self._store = store
        self._version = metadata.format_version
        self._schema = schema
        self._spec = spec
        self._snapshot_id = snapshot_id
        # A manifest may have one entry more than its target.
        self._target = min(MANIFEST_TARGET_SIZE.of(metadata.properties), store.bounds.manifest_bytes.value // 2)
        self._prefix = join(folder, f"{store.runtime.uuid()}-m")
        self._kinds = EntryKinds(spec.partition_type(schema))
        self._open: dict[EntryKind, ManifestWriter] = {}
        self._live: dict[EntryKind, list[str]] = {}
        self._locations: list[str] = []
        self._written: list[ManifestFile] = []

    def add(self, entry: ManifestEntry) -> None:
        kind = self._kinds.of(entry.data_file)
        writer = self._open.get(kind)
        if writer is None:
            bounds = self._store.bounds
            writer = ManifestWriter(self._version, self._schema, self._spec, self._snapshot_id, kind[0], bounds)
            self._open[kind], self._live[kind] = writer, []
        writer.add(entry)
        if kind[0] == ManifestContent.DATA and entry.is_live:
            self._live[kind].append(entry.data_file.file_path)
        if writer.size >= self._target or writer.entries >= self._store.bounds.entries.value:
            self._write(kind)

    def finish(self) -> tuple[ManifestFile, ...]:
        while self._open:
            self._write(min(self._open))
        return tuple(self._written)

    def remove_all(self) -> None:
        """Delete the manifests written so far, after a failure: no list names them."""
        for location in self._locations:
            try:
                self._store.files.delete(location)
            except IcebergHmsError as error:
                _log.warning("could not delete manifest %s, which no table references: %s", location, error)

    def _write(self, kind: EntryKind) -> None:
        location = f"{self._prefix}{len(self._locations)}.avro"
        data, file = self._open.pop(kind).finish(location)
        self._locations.append(location)
        self._store.files.write(location, data)
        self._store.filters.put(location, file_filters.file_filter(self._live.pop(kind)))
        self._written.append(file)


def _size_of(_location: str, known: CachedList) -> int:
    if isinstance(known, EncodedList):
        return (len(known.files) + 1) * _BYTES_PER_MANIFEST + known.size
    return (len(known) + 1) * _BYTES_PER_MANIFEST
