"""Delete files that nothing names any more."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from iceberg_hms.coordinator.log_and_continue import SWEEP, log_and_continue
from iceberg_hms.coordinator.ports import CommitPorts, Deleted, TableName
from iceberg_hms.errors import StorageError
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import DELETE_AFTER_COMMIT, is_true

logger = logging.getLogger(__name__)

#: How many files one event names.
PUBLISHED_MAX: Final = 1_000
#: How many files that stay one line of the log names.
NAMED_MAX: Final = 10
#: Why files are deleted that this process wrote for a commit, and that no table names.
OWN_FILES: Final = "own files"
#: Why files are deleted from which an interrupted migration could have gone on.
MIGRATION_PROGRESS: Final = "migration progress"
_NEVER_NAMED: Final = frozenset({OWN_FILES, MIGRATION_PROGRESS})
_DEFECT: Final = StorageError("the driver of the store failed", next_step="report it with the trace in the log")


def delete_files(ports: CommitPorts, name: TableName, locations: Iterable[str], why: str = OWN_FILES) -> Deleted:
    """Delete files of one table that are known to be garbage. What stays is logged by path, published and returned:
    it changes no commit's outcome. Raises nothing.

    why: as the events `files-deleted` and `files-left` have it. What no table ever named concerns nobody once it is
    gone, so only what stays of it is published."""
    wanted = list(locations)
    found = Deleted((), dict.fromkeys(wanted, _DEFECT))
    with log_and_continue(f"deleting {len(wanted)} files", SWEEP):
        found = ports.files.delete_all(wanted)
    with log_and_continue(f"telling of {len(wanted)} deleted files", SWEEP):
        if why not in _NEVER_NAMED:
            for some in _parts(found.locations):
                ports.events.publish({"event": "files-deleted", "table": name, "why": why, "locations": some})
        for some in _parts(list(found.failed)):
            ports.events.publish({"event": "files-left", "table": name, "why": why, "locations": some})
        if found.failed:
            _log(name, why, found)
    return found


def _parts(locations: Sequence[str]) -> Iterator[Sequence[str]]:
    return (locations[start : start + PUBLISHED_MAX] for start in range(0, len(locations), PUBLISHED_MAX))


def _log(name: TableName, why: str, found: Deleted) -> None:
    """One line, however many they are; the reason is that of the first."""
    location, reason = next(iter(found.failed.items()))
    some = ", ".join(islice(found.failed, 1, NAMED_MAX))
    others = f" (nor {some}{', ...' if len(found.failed) > NAMED_MAX else ''})" if some else ""
    logger.warning(
        "%s could not be deleted: %s%s; %d files of %s stay (%s)",
        *(location, reason, others, len(found.failed), name, why),
    )


def expired_metadata_files(base: TableMetadata, new: TableMetadata) -> list[str]:
    """The metadata files that fell out of the log, if the table's properties ask to delete them (Java's
    CatalogUtil.deleteRemovedMetadataFiles)."""
    if not is_true(DELETE_AFTER_COMMIT, new.properties):
        return []
    kept = {entry["metadata-file"] for entry in new.metadata_log}
    return [entry["metadata-file"] for entry in base.metadata_log if entry["metadata-file"] not in kept]
