"""The Manifests port for a client's change: reads and writes only what the client may name.

A client's manifest list names manifests, and nobody has checked them before the change reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from iceberg_hms.coordinator.locations.location_policy import LocationGuard
from iceberg_hms.coordinator.ports import CommitPorts, Manifests
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema


def manifests_for(ports: CommitPorts, guard: LocationGuard | None) -> Manifests:
    """What reads and writes for the guard's client; None: for a caller who has the process's rights. What is done for
    clients asks for it here, and nowhere for the port itself: a rule of tests/tidy.py."""
    return guarded(ports.manifests(), guard)


def guarded(manifests: Manifests, guard: LocationGuard | None) -> Manifests:
    """The same for a port that the changes of a group share."""
    return manifests if guard is None else GuardedManifests(manifests, guard)


class GuardedManifests:
    """Implements `changes.change.Manifests`. Every call may raise LocationNotAllowed, before anything is opened."""

    def __init__(self, manifests: Manifests, guard: LocationGuard) -> None:
        self._manifests = manifests
        self._guard = guard
        self.flush = manifests.flush
        self.discard = manifests.discard

    def fetch(self, lists: Sequence[str]) -> None:
        """As the port says, but it raises LocationNotAllowed too."""
        for location in lists:
            self._guard.check_read(location, "manifest-list")
        self._manifests.fetch(lists)

    def list(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """As the port says."""
        self._check_snapshot(snapshot)
        return self._manifests.list(snapshot)

    def added(self, snapshot: Snapshot) -> Sequence[ManifestFile] | None:
        """As the port says."""
        self._check_snapshot(snapshot)
        return self._manifests.added(snapshot)

    def entries(
        self, files: Iterable[ManifestFile], keep: Callable[[ManifestEntry], bool] | None = None
    ) -> Iterator[ManifestEntry]:
        """As the port says."""
        return self._manifests.entries(self._checked(files), keep)

    def read(self, files: Iterable[ManifestFile]) -> Iterator[tuple[ManifestFile, Iterable[ManifestEntry]]]:
        """As the port says."""
        return self._manifests.read(self._checked(files))

    def candidates(self, files: Iterable[ManifestFile], keys: Collection[str]) -> Sequence[ManifestFile]:
        """As the port says."""
        return self._manifests.candidates(self._checked(files), keys)

    def naming(self, files: Iterable[ManifestFile], texts: Collection[str]) -> Sequence[ManifestFile]:
        """As the port says."""
        return self._manifests.naming(self._checked(files), texts)

    def write(
        self,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
    ) -> Sequence[ManifestFile]:
        """As the port says."""
        self._guard.check_metadata_folder(metadata)
        return self._manifests.write(metadata, schema, spec, snapshot_id, entries)

    def stage_list(self, metadata: TableMetadata, snapshot: Snapshot, files: Sequence[ManifestFile]) -> str:
        """As the port says."""
        self._guard.check_metadata_folder(metadata)
        location = self._manifests.stage_list(metadata, snapshot, files)
        self._guard.made(location)
        return location

    def _check_snapshot(self, snapshot: Snapshot) -> None:
        location = snapshot.manifest_list
        if location is not None:
            self._guard.check_read(location, "manifest-list")
        for manifest in snapshot.manifests:
            self._guard.check_read(manifest, "manifests")

    def _checked(self, files: Iterable[ManifestFile]) -> Sequence[ManifestFile]:
        files = tuple(files)
        for file in files:
            self._guard.check_read(file.manifest_path, "a manifest of the manifest list")
        return files
