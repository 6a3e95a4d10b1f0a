"""Deletes the files of a dropped table."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from iceberg_hms.coordinator.location_policy import LocationGuard
from iceberg_hms.coordinator.ports import CommitPorts, Manifests
from iceberg_hms.coordinator.protocol.guarded_manifests import GuardedManifests
from iceberg_hms.coordinator.protocol.metadata_cache import TableVersion
from iceberg_hms.coordinator.protocol.own_files import delete_own_files, find_own_files
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)

#: Table property; false: other tables share the data files, so a purge must keep them.
GC_ENABLED = "gc.enabled"


def purge_files(ports: CommitPorts, dropped: TableVersion, guard: LocationGuard | None = None) -> None:
    """Delete a dropped table's own files (`OwnFiles`): data (unless `gc.enabled=false`), manifests, lists, statistics
    and metadata files, in this order, so that after an interruption the remaining files still lead to the rest. Logs
    what it keeps or cannot delete, and goes on: the table itself is dropped already. Call only after the drop is
    proved. guard: of what may be read to find files; None: everything."""
    row, metadata = dropped.pointer, dropped.metadata
    try:
        own = find_own_files(ports, row)
    except IcebergHmsError as error:
        logger.warning("the files of the dropped table %s are kept: other tables may name them: %s", row.name, error)
        return
    if own.reason:
        logger.warning("the files of the dropped table %s are kept: %s", row.name, own.reason)
        return
    delete = partial(delete_own_files, ports, row, own, why="purge")
    lists = [snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list]
    reader = ports.manifests() if guard is None else GuardedManifests(ports.manifests(), guard)
    manifests = _manifests(reader, metadata)
    # As Java reads a boolean: anything but "true" is false.
    if metadata.properties.get(GC_ENABLED, "true").lower() == "true":
        delete(_data_files(reader, manifests))
    delete(manifest.manifest_path for manifest in manifests)
    delete(lists)
    for key in ("statistics", "partition-statistics"):
        delete(_named(metadata.fields.get(key), "statistics-path"))
    delete(_named(metadata.fields.get("metadata-log"), "metadata-file"))
    delete([row.metadata_location])


def _named(entries: Any, key: str) -> list[str]:
    """The files that a list of the metadata names. Malformed entries are logged and skipped."""
    found: list[str] = []
    for entry in entries if isinstance(entries, Sequence) else ():
        path = entry.get(key) if isinstance(entry, Mapping) else None
        if isinstance(path, str):
            found.append(path)
        else:
            logger.warning("a file cannot be found for deletion: %s has no %s", entry, key)
    return found


def _manifests(reader: Manifests, metadata: TableMetadata) -> list[ManifestFile]:
    found: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        try:
            found.update((manifest.manifest_path, manifest) for manifest in reader.list(snapshot))
        except IcebergHmsError as error:
            logger.warning("files of snapshot %d cannot be found for deletion: %s", snapshot.snapshot_id, error)
    return list(found.values())


def _data_files(reader: Manifests, manifests: Iterable[ManifestFile]) -> Iterable[str]:
    paths: set[str] = set()
    for manifest in manifests:
        try:
            paths.update(entry.data_file.file_path for entry in reader.entries([manifest]))
        except IcebergHmsError as error:
            logger.warning("files of %s cannot be found for deletion: %s", manifest.manifest_path, error)
    return paths
