"""Files and manifests in memory, with faults: every process sees one storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import AlreadyExists, MissingFile, StorageError
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.storage.driver import delete_each
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process
from simulation.world.faults import LIGHT, MODERATE, Wire

T = TypeVar("T")


class Storage:
    """What is on disk.

    files: metadata files; lists and manifests are records in `store`. data: the paths of data files.
    carried: the rows of rewritten files, which are those of the files that they replace.
    on_delete: called with each file, before it is deleted.
    """

    def __init__(self, clock: SimulatedRuntime) -> None:
        self.files: dict[str, bytes] = {}
        self.store = MemoryManifestStore(clock)
        self.data: set[str] = set()
        self.carried: dict[str, tuple[str, ...]] = {}
        self.on_delete: Callable[[str], None] | None = None

    def rows(self, path: str) -> tuple[str, ...]:
        """The rows of a data file: one row of the file's own name, unless the file is a rewritten one."""
        return self.carried.get(path, (path,))

    def exists(self, location: str) -> bool:
        store = self.store
        return location in self.files or location in store.lists or location in store.manifests or location in self.data

    def made(self) -> frozenset[str]:
        """All metadata files, lists and manifests that exist."""
        return frozenset((*self.files, *self.store.lists, *self.store.manifests))

    def delete(self, location: str) -> bool:
        """Remove a file of whatever kind."""
        if not self.exists(location):
            return False
        if self.on_delete is not None:
            self.on_delete(location)
        self.files.pop(location, None)
        self.store.lists.pop(location, None)
        self.store.manifests.pop(location, None)
        self.data.discard(location)
        return True


class SimulatedFiles:
    """coordinator.ports.Files of one process."""

    def __init__(self, storage: Storage, wire: Wire, process: Process) -> None:
        self._storage = storage
        self._wire = wire
        self._process = process

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:  # noqa: ARG002 - the port's
        """As the port says, for files that are never too large."""

        def get() -> bytes:
            if location not in self._storage.files:
                raise MissingFile(location)
            return self._storage.files[location]

        self._wire.scheduler.step()
        return get()

    def write(self, location: str, data: bytes) -> None:
        """As the port says."""
        if location in self._storage.files:
            raise AlreadyExists(f"File already exists: {location}")

        def put() -> None:
            self._storage.files[location] = data

        _touch(self._wire, self._process, f"write {location}", put)

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """As the port says."""
        for location, data in files:
            self.write(location, data)

    def make_folder(self, location: str) -> None:
        """As the port says: this store has no folders."""

    def length(self, location: str) -> int:
        """As the port says."""
        return len(self.read(location))

    def delete(self, location: str) -> bool:
        """As the port says. A fault makes it raise what no port names."""
        if self._wire.strikes("defects", MODERATE):
            raise ValueError(f"delete {location}: an error that no port names")
        return _touch(self._wire, self._process, f"delete {location}", lambda: self._storage.delete(location))

    def delete_all(self, locations: Sequence[str]) -> Deleted:
        return delete_each(self.delete, locations)

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        """As the port says. Files have no age here."""
        self._wire.scheduler.step()
        prefix = f"{folder.rstrip('/')}/"
        found = [(location, len(data)) for location, data in self._storage.files.items() if location.startswith(prefix)]
        yield from (ListedFile(location, length, 0) for location, length in found)

    def list_links(self, _folder: str) -> Iterator[str]:
        """As the port says: there are no links here."""
        return iter(())

    def folder_exists(self, _location: str) -> None:
        """As the port says: this store has no folders."""

    def real_path(self, location: str) -> str:
        """As the port says: there are no links here."""
        return location

    def is_link(self, _location: str) -> bool:
        """As the port says."""
        return False


class SimulatedManifests(MemoryManifests):
    """changes.change.Manifests of one group of one process: the fake in memory, with faults where it writes."""

    def __init__(self, storage: Storage, wire: Wire, process: Process) -> None:
        super().__init__(storage.store)
        self._wire = wire
        self._process = process

    def write(
        self,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
    ) -> Sequence[ManifestFile]:
        """As the port says."""
        written = super().write(metadata, schema, spec, snapshot_id, entries)
        _touch(self._wire, self._process, f"write manifest of {snapshot_id}", lambda: None)
        return written

    def flush(self) -> Sequence[str]:
        """As the port says."""
        return _touch(self._wire, self._process, "flush", super().flush)


def _touch(wire: Wire, process: Process, call: str, effect: Callable[[], T]) -> T:
    """A call that changes files. Its process may crash before or after; an error may hide its effect, or not."""
    wire.before_call(process, call, LIGHT)
    if process.name not in wire.never_paused and wire.strikes("slow_files", MODERATE):
        wire.take_time(process, call)
    if wire.strikes("file_errors", LIGHT):
        if wire.between(0.0, 1.0) < 0.5:
            effect()
        wire.note(process, call, "storage error")
        raise StorageError(f"{call}: the storage reported an error")
    answer = effect()
    wire.note(process, call, "")
    return answer
