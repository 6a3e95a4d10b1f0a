"""Delete files that nothing names any more."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iceberg_hms.coordinator.log_and_continue import SWEEP, log_and_continue
from iceberg_hms.coordinator.ports import Deleted, Files
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import DELETE_AFTER_COMMIT, is_true

logger = logging.getLogger(__name__)


def delete_files(files: Files, locations: Iterable[str]) -> Deleted:
    """Delete files that are known to be garbage. Logs and skips a file that cannot be deleted: that changes no commit's
    outcome."""
    wanted = list(locations)
    with log_and_continue(f"deleting {len(wanted)} files", SWEEP):
        deleted = files.delete_all(wanted)
        for location, error in deleted.failed.items():
            logger.warning("%s could not be deleted: %s", location, error)
        return deleted
    return Deleted((), {})


def expired_metadata_files(base: TableMetadata, new: TableMetadata) -> list[str]:
    """The metadata files that fell out of the log, if the table's properties ask to delete them (Java's
    CatalogUtil.deleteRemovedMetadataFiles)."""
    if not is_true(DELETE_AFTER_COMMIT, new.properties):
        return []
    kept = {entry["metadata-file"] for entry in new.metadata_log}
    return [entry["metadata-file"] for entry in base.metadata_log if entry["metadata-file"] not in kept]
