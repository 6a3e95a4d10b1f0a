"""Times that callers give, and the snapshot that was current then."""

from __future__ import annotations

import datetime
from typing import Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: Milliseconds since 1970 UTC; or a datetime with a time zone.
Timestamp = int | datetime.datetime

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def as_millis(timestamp: Timestamp, *, round_up: bool = False) -> int:
    """A time in milliseconds since 1970 UTC. round_up: microseconds of a datetime count as a whole millisecond, so that
    "before the time" stays so; else they are cut off. Raises InvalidInput for a datetime without a time zone, which
    each machine would read differently, and for other types."""
    if isinstance(timestamp, datetime.datetime):
        if timestamp.utcoffset() is None:
            raise InvalidInput(
                f"{timestamp!r} has no time zone", next_step="pass one with tzinfo, as datetime.now(datetime.UTC)"
            )
        micros = (timestamp - _EPOCH) // _MICROSECOND
        return -(-micros // 1_000) if round_up else micros // 1_000
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        return timestamp
    raise InvalidInput(f"a time is whole milliseconds since 1970 or a datetime, but is {timestamp!r}")


def snapshot_as_of(metadata: TableMetadata, timestamp_ms: int, *, inclusive: bool = True) -> Snapshot | None:
    """The snapshot that was current at a time, by the snapshot log (spec: Point in Time Reads; Java:
    SnapshotUtil.snapshotIdAsOfTime); None if the log does not go back so far. inclusive: whether what became current at
    the time itself counts."""
    found, at = None, None
    for entry in metadata.snapshot_log:
        became_at = entry["timestamp-ms"]
        is_early = became_at <= timestamp_ms if inclusive else became_at < timestamp_ms
        if is_early and (at is None or became_at > at):
            found, at = entry["snapshot-id"], became_at
    return None if found is None else metadata.snapshot_by_id(found)
