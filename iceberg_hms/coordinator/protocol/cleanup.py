"""Delete files that nothing names any more."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iceberg_hms.coordinator.log_and_continue import SWEEP, log_and_continue
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)


#: Table property: whether metadata files that fall out of the metadata log are deleted after a commit.
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"


def delete_files(files: Files, locations: Iterable[str]) -> list[str]:
    """Delete files that are known to be garbage; returns those that were there. Logs and skips a file that cannot be
    deleted: that changes no commit's outcome."""
    deleted = []
    for location in locations:
        with log_and_continue(f"deleting {location}", SWEEP):
            try:
                if files.delete(location):
                    deleted.append(location)
            except IcebergHmsError as error:
                logger.warning("%s could not be deleted: %s", location, error)
    return deleted


def expired_metadata_files(base: TableMetadata, new: TableMetadata) -> list[str]:
    """The metadata files that fell out of the log, if the table's properties ask to delete them (Java's
    CatalogUtil.deleteRemovedMetadataFiles)."""
    if new.properties.get(DELETE_AFTER_COMMIT, "false").lower() != "true":
        return []
    kept = {entry["metadata-file"] for entry in new.metadata_log}
    return [entry["metadata-file"] for entry in base.metadata_log if entry["metadata-file"] not in kept]
