"""Delete files that nothing names any more."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from iceberg_hms.coordinator.log_and_continue import SWEEP, log_and_continue
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import DELETE_AFTER_COMMIT, is_true

logger = logging.getLogger(__name__)


class Deleted(NamedTuple):
    """What became of files: those that were there and are gone, and how many could not be deleted."""

    locations: list[str]
    failed: int


def delete_files(files: Files, locations: Iterable[str]) -> Deleted:
    """Delete files that are known to be garbage, each before the next one is asked for. Logs and skips a file that
    cannot be deleted: that changes no commit's outcome."""
    deleted: list[str] = []
    failed = 0
    for location in locations:
        failed += 1
        with log_and_continue(f"deleting {location}", SWEEP):
            try:
                if files.delete(location):
                    deleted.append(location)
                failed -= 1
            except IcebergHmsError as error:
                logger.warning("%s could not be deleted: %s", location, error)
    return Deleted(deleted, failed)


def expired_metadata_files(base: TableMetadata, new: TableMetadata) -> list[str]:
    """The metadata files that fell out of the log, if the table's properties ask to delete them (Java's
    CatalogUtil.deleteRemovedMetadataFiles)."""
    if not is_true(DELETE_AFTER_COMMIT, new.properties):
        return []
    kept = {entry["metadata-file"] for entry in new.metadata_log}
    return [entry["metadata-file"] for entry in base.metadata_log if entry["metadata-file"] not in kept]
