"""Finds and deletes the files that snapshots led to which were removed from a table.

Java has two strategies. Its incremental one looks at what the removed snapshots added and deleted, and is right only
for a history in one line. Its reachable one compares what removed and live snapshots lead to, which is right for
branches, cherry-picks and rollbacks too: that is this one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from iceberg_hms.catalog.maintenance.deletion import Deletion
from iceberg_hms.catalog.maintenance.reachable_files import (
    ReachableFiles,
    in_batches,
    live_files,
    manifests_of,
    named_by,
    statistics_of,
)
from iceberg_hms.catalog.maintenance.reports import DeletedFiles, FileKind, FoundFile, Progress
from iceberg_hms.coordinator.files.own_files import find_own_files
from iceberg_hms.coordinator.ports import CommitPorts
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.errors import IcebergHmsError, MissingFile
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning.manifest_columns import ManifestColumns

#: How many manifests are read together.
_MANIFESTS: Final = 64


class ExpiredFiles:
    """The files of removed snapshots.

    columns: of manifests, without a cache. load: the table as it is now. on_progress: told of manifests that were read
    and files that were deleted.
    """

    def __init__(
        self, ports: CommitPorts, columns: ManifestColumns, load: Callable[[], TableVersion], on_progress: Progress
    ) -> None:
        self._ports = ports
        self._columns = columns
        self._load = load
        self._on_progress = on_progress

    def delete(self, base: TableMetadata, removed: Collection[int]) -> DeletedFiles:
        """Delete what only the removed snapshots led to. Call it once it is known that their removal is committed.
        Raises nothing of ours: the result says why it stopped.

        base: metadata with the snapshots. removed: their ids."""
        result = DeletedFiles()
        try:
            deletion = self._find(self._load(), base, removed, result)
        except IcebergHmsError as error:
            result.stopped = str(error)
        else:
            deletion.delete(result)
        return result

    def preview(self, after: TableVersion, base: TableMetadata, removed: Collection[int]) -> DeletedFiles:
        """What `delete` would delete once the table is as in `after`. Raises MissingFile, CorruptFile, StorageError,
        MetastoreError."""
        result = DeletedFiles()
        result.deleted.extend(self._find(after, base, removed, result).files())
        return result

    def _find(self, now: TableVersion, base: TableMetadata, removed: Collection[int], result: DeletedFiles) -> Deletion:
        """now: the table without the removed snapshots. Adds to the result what has to be kept."""
        reached = ReachableFiles(self._ports, self._columns, self._on_progress)
        deletion = Deletion(self._ports, now, reached, self._load, self._on_progress, "expired snapshots")
        # Only metadata that was read after the commit says what is live; in it a snapshot may be back.
        ids = set(removed) - now.metadata.raw_snapshots_by_id.keys()
        snapshots = [each for each in base.snapshots if each.snapshot_id in ids]
        if now.metadata.uuid != base.uuid or not snapshots:
            return deletion
        own = find_own_files(self._ports, now.pointer)
        live = reached.manifests(now.metadata)
        manifests = self._removed_manifests(snapshots, live, deletion)
        self._add_in_order(deletion, base, snapshots, manifests)
        deletion.keep_foreign(own, result)
        deletion.keep([now.pointer.metadata_location, *named_by(now.metadata)])
        deletion.keep(each.manifest_path for each in live)
        if manifests:
            # Only a manifest names data and delete files: without one of the removed snapshots none may go.
            deletion.keep(reached.content(live))
        return deletion

    def _removed_manifests(
        self, snapshots: Sequence[Snapshot], live: Sequence[ManifestFile], deletion: Deletion
    ) -> list[ManifestFile]:
        """The manifests that removed snapshots list, and no live one."""
        key = deletion.identity.key
        kept = {key(each.manifest_path) for each in live}
        found: dict[str, ManifestFile] = {}
        for each in snapshots:
            try:
                listed = list(manifests_of(self._ports, [each]))
            except MissingFile:
                # An earlier expiration began to delete it, or somebody else did.
                continue
            found.update((key(file.manifest_path), file) for file in listed if key(file.manifest_path) not in kept)
        return list(found.values())

    def _add_in_order(
        self,
        deletion: Deletion,
        base: TableMetadata,
        snapshots: Sequence[Snapshot],
        manifests: Sequence[ManifestFile],
    ) -> None:
        """Data first: what is left after an interruption still says what belonged to it."""
        read = 0
        for some in in_batches(manifests, _MANIFESTS):
            try:
                deletion.add(live_files(self._columns, some))
            except MissingFile:
                # An earlier expiration deleted one of them, or somebody else did: read the others alone.
                for each in some:
                    with suppress(MissingFile):
                        deletion.add(live_files(self._columns, [each]))
            read += len(some)
            self._on_progress("reading manifests of expired snapshots", read)
        deletion.add(FoundFile(each.manifest_path, FileKind.MANIFEST, each.manifest_length) for each in manifests)
        lists = [each.manifest_list for each in snapshots if each.manifest_list is not None]
        deletion.add(FoundFile(each, FileKind.MANIFEST_LIST, self._length(each)) for each in lists)
        ids = {each.snapshot_id for each in snapshots}
        deletion.add(
            FoundFile(path, FileKind.STATISTICS, length) for id_, path, length in statistics_of(base) if id_ in ids
        )

    def _length(self, location: str) -> int | None:
        try:
            return self._ports.files.length(location)
        except IcebergHmsError:
            return None
