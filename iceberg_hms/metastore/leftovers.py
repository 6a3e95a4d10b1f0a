"""For how long a lock of the metastore may still be swapped under, after its API broke."""

from __future__ import annotations

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.capabilities import probe
from iceberg_hms.metastore.lease import lease_or_default
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.verdict import CompareAndSwap


def leftover_seconds(pool: ClientPool, settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> float:
    """Seconds until nobody sends a swap any more under a lock that was got before: its heartbeats fail, so after one
    lease it no longer covers anything. 0 where every server of the list is proven to compare and swap atomically: there
    such a swap is refused. Raises MetastoreUnavailable."""
    if all(_is_atomic(uri, settings, clock) for uri in settings.metastore_uris):
        return 0.0
    return lease_or_default(pool, settings)


def _is_atomic(uri: str, settings: Settings, clock: Clock) -> bool:
    try:
        return probe(uri, settings, clock=clock).compare_and_swap is CompareAndSwap.ATOMIC
    except MetastoreError:
        return False
