"""What the table itself says of a swap whose answer cannot be trusted: it was made, it was not, or nobody can tell.

A metastore that retries inside can refuse its own committed change, and a reply can be lost (apache/iceberg#11814,
#11866). So after a refusal or a lost reply we look at the pointer, and at the chain of metadata files behind it:

    SUCCESS   the pointer is ours, or the chain behind it names our file
    FAILURE   the chain goes back to the base that we built on, and does not name our file
    UNKNOWN   the chain has a gap: a file of it is gone, or it is longer than we follow

Where the chain has a gap the table's snapshots may still tell: if all that the swap carried is in the table, it landed.
Where there is no gap they prove nothing, and some of them prove nothing at all: an earlier swap may have brought one.

The metadata log holds only the last `write.metadata.previous-versions-max` files (100), so we follow the chain through
the oldest file that a log names, and that file's log, back to our base.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto

from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: The most hops through oldest log entries; each covers a whole metadata log.
CHAIN_HOPS_MAX = 100


class CommitStatus(Enum):
    SUCCESS = auto()
    FAILURE = auto()
    UNKNOWN = auto()


def check_status(
    cache: MetadataCache,
    current_location: str,
    *,
    ours: str,
    base: str,
    snapshot_ids: Collection[int] = (),
) -> CommitStatus:
    """Look for a swap from the metadata file `base` to the file `ours` behind `current_location`.

    snapshot_ids: of all changes that the swap carried; empty if one of them adds no snapshot.
    """
    found = _by_chain(cache, current_location, ours, base)
    if found is CommitStatus.UNKNOWN and snapshot_ids:
        known = _snapshots(cache, current_location)
        if all(id_ in known for id_ in snapshot_ids):
            return CommitStatus.SUCCESS
    return found


def _by_chain(cache: MetadataCache, current_location: str, ours: str, base: str) -> CommitStatus:
    if current_location == ours:
        return CommitStatus.SUCCESS
    if current_location == base:
        return CommitStatus.FAILURE
    location = current_location
    for _ in range(CHAIN_HOPS_MAX):
        try:
            metadata = cache.get(location) if location == current_location else cache.peek(location)
        except IcebergHmsError:
            return CommitStatus.UNKNOWN
        if _names(metadata, ours):
            return CommitStatus.SUCCESS
        if _names(metadata, base):
            return CommitStatus.FAILURE
        oldest = metadata.metadata_log[0]["metadata-file"] if metadata.metadata_log else None
        if oldest is None or oldest == location:
            return CommitStatus.UNKNOWN
        location = oldest
    return CommitStatus.UNKNOWN


def _snapshots(cache: MetadataCache, location: str) -> Collection[int]:
    try:
        return {snapshot.snapshot_id for snapshot in cache.get(location).snapshots}
    except IcebergHmsError:
        return ()


def _names(metadata: TableMetadata, location: str) -> bool:
    return any(entry["metadata-file"] == location for entry in metadata.metadata_log)
