"""Delete the files of a table that is gone from the metastore."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iceberg_hms.coordinator.garbage import delete_files
from iceberg_hms.coordinator.world import World
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.manifest_list import ManifestFile
from iceberg_hms.format.metadata import TableMetadata

logger = logging.getLogger(__name__)

#: Table property: false says that the files are shared with others and must not be deleted.
GC_ENABLED = "gc.enabled"


def purge_files(world: World, metadata: TableMetadata, metadata_location: str) -> None:
    """Delete data (unless `gc.enabled=false`), manifests, lists, statistics and metadata files, in this order, so that
    what was not reached can still be found from what is left. A file that cannot be deleted is logged and passed over:
    the table itself is dropped already. Call only after the drop is proven."""
    lists = [snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list]
    manifests = _manifests(world, metadata)
    if metadata.properties.get(GC_ENABLED, "true").lower() != "false":
        delete_files(world.files, _data_files(world, manifests))
    delete_files(world.files, (manifest.manifest_path for manifest in manifests))
    delete_files(world.files, lists)
    for key in ("statistics", "partition-statistics"):
        delete_files(world.files, (entry["statistics-path"] for entry in metadata.raw.get(key) or ()))
    delete_files(world.files, (entry["metadata-file"] for entry in metadata.metadata_log))
    delete_files(world.files, [metadata_location])


def _manifests(world: World, metadata: TableMetadata) -> list[ManifestFile]:
    reader = world.manifests()
    found: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        try:
            found.update((manifest.manifest_path, manifest) for manifest in reader.list(snapshot))
        except IcebergHmsError as error:
            logger.warning("files of snapshot %d cannot be found for deletion: %s", snapshot.snapshot_id, error)
    return list(found.values())


def _data_files(world: World, manifests: Iterable[ManifestFile]) -> Iterable[str]:
    reader = world.manifests()
    paths: set[str] = set()
    for manifest in manifests:
        try:
            paths.update(entry.data_file.file_path for entry in reader.entries([manifest]))
        except IcebergHmsError as error:
            logger.warning("files of %s cannot be found for deletion: %s", manifest.manifest_path, error)
    return paths
