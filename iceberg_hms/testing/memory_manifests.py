"""The Manifests port in memory. It keeps records undecoded, so that thousands of simulated commits are quick."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from iceberg_hms.changes.summary import whole_number
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import AlreadyExists, InvalidInput, MissingFile
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import FileContent, ManifestEntry, inherit
from iceberg_hms.format.manifests.manifest_list import (
    ManifestContent,
    ManifestFile,
    assign_numbers,
    leading_added_manifests,
)
from iceberg_hms.format.manifests.manifest_writer import EntryKind, EntryKinds, ManifestSummary, as_written
from iceberg_hms.format.metadata.metadata_file import folder
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema

#: The length that a list gives for a manifest, which has no bytes here.
_LENGTH = 1_000


class MemoryManifestStore:
    """What groups share: manifests and flushed lists, by location. `open` returns the port of a new group."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.manifests: dict[str, tuple[ManifestEntry, ...]] = {}
        self.lists: dict[str, tuple[ManifestFile, ...]] = {}
        self.mutex = threading.Lock()

    def open(self) -> MemoryManifests:
        return MemoryManifests(self)


class MemoryManifests:
    """Implements `changes.change.Manifests`."""

    def __init__(self, store: MemoryManifestStore) -> None:
        self._store = store
        self._staged: dict[str, tuple[ManifestFile, ...]] = {}

    def fetch(self, lists: Sequence[str]) -> None:
        """Nothing is far away."""

    def list(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        location = snapshot.manifest_list
        if location is None:
            return tuple(self._inline(each, snapshot.snapshot_id) for each in snapshot.manifests)
        if location in self._staged:
            return self._staged[location]
        with self._store.mutex:
            if location not in self._store.lists:
                raise MissingFile(location)
            return self._store.lists[location]

    def added(self, snapshot: Snapshot) -> Sequence[ManifestFile] | None:
        count = whole_number(snapshot.summary.get("added-data-files"))
        if snapshot.manifest_list is None or count is None or count < 0:
            return None
        return leading_added_manifests(self.list(snapshot), snapshot.snapshot_id, count)

    def entries(
        self, files: Iterable[ManifestFile], keep: Callable[[ManifestEntry], bool] | None = None
    ) -> Iterator[ManifestEntry]:
        for _, entries in self.read(files):
            for entry in entries:
                if keep is None or keep(entry):
                    yield entry

    def read(self, files: Iterable[ManifestFile]) -> Iterator[tuple[ManifestFile, Iterable[ManifestEntry]]]:
        for file in files:
            yield file, tuple(inherit(_of_spec(self._stored(file.manifest_path), file), file))

    def candidates(self, files: Iterable[ManifestFile], keys: Collection[str]) -> Sequence[ManifestFile]:
        data = [each for each in files if each.content == ManifestContent.DATA]
        return tuple(
            file
            for file, entries in self.read(data)
            if any(each.is_live and file_key(each.data_file.file_path) in keys for each in entries)
        )

    def naming(self, files: Iterable[ManifestFile], texts: Collection[str]) -> Sequence[ManifestFile]:
        return tuple(
            file
            for file, entries in self.read(files)
            if any(text in each.data_file.file_path for each in entries for text in texts)
        )

    def write(
        self,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
    ) -> Sequence[ManifestFile]:
        version = metadata.format_version
        names = {each.name for each in spec.fields}
        kinds = EntryKinds(spec.partition_type(schema))
        stored: dict[EntryKind, list[ManifestEntry]] = {}
        for entry in entries:
            if set(entry.data_file.partition) != names:
                raise InvalidInput(f"{entry.data_file.file_path} has other partition values than spec {spec.spec_id}")
            is_data = entry.data_file.content == FileContent.DATA
            if version == 1 and not is_data:
                raise InvalidInput("Cannot store delete files in a v1 table")
            stored.setdefault(kinds.of(entry.data_file), []).append(as_written(entry, version, snapshot_id))
        prefix = f"{folder(metadata)}/{self._store.clock.uuid()}-m"
        written = []
        for number, kind in enumerate(sorted(stored)):
            summary = ManifestSummary(spec.partition_type(schema))
            for entry in stored[kind]:
                summary.add(entry)
            location = f"{prefix}{number}.avro"
            written.append(summary.manifest_file(location, _LENGTH, spec.spec_id, snapshot_id, kind[0]))
            with self._store.mutex:
                self._store.manifests[location] = tuple(stored[kind])
        return tuple(written)

    def stage_list(self, metadata: TableMetadata, snapshot: Snapshot, files: Sequence[ManifestFile]) -> str:
        numbered, _ = assign_numbers(
            files,
            format_version=metadata.format_version,
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
        )
        location = f"{folder(metadata)}/snap-{snapshot.snapshot_id}-1-{self._store.clock.uuid()}.avro"
        self._staged[location] = numbered
        return location

    def flush(self) -> Sequence[str]:
        locations = tuple(self._staged)
        with self._store.mutex:
            for location in locations:
                if location in self._store.lists:
                    raise AlreadyExists(f"File already exists: {location}")
                self._store.lists[location] = self._staged.pop(location)
        return locations

    def discard(self, locations: Iterable[str]) -> None:
        for location in locations:
            self._staged.pop(location, None)

    def _stored(self, location: str) -> tuple[ManifestEntry, ...]:
        with self._store.mutex:
            if location not in self._store.manifests:
                raise MissingFile(location)
            return self._store.manifests[location]

    def _inline(self, location: str, snapshot_id: int) -> ManifestFile:
        entries = self._stored(location)
        # As for a manifest file without a list: no partition bounds, and version 1 has no sequence numbers.
        summary = ManifestSummary(None)
        for entry in entries:
            summary.add(entry)
        spec_id = entries[0].data_file.spec_id if entries else 0
        line = summary.manifest_file(location, _LENGTH, spec_id, snapshot_id)
        return replace(line, sequence_number=0, min_sequence_number=0)


def _of_spec(entries: Iterable[ManifestEntry], file: ManifestFile) -> Iterator[ManifestEntry]:
    """Entries as a reader sees them: their spec id comes from the list."""
    for entry in entries:
        yield replace(entry, data_file=replace(entry.data_file, spec_id=file.partition_spec_id))
