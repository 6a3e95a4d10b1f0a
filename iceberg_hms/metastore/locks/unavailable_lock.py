"""For how long a lock of the metastore may still be swapped under, after its API broke."""

from __future__ import annotations

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.compare_and_swap.findings import CompareAndSwap
from iceberg_hms.metastore.connection.capabilities import probe
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lease import lease_or_default


def leftover_seconds(pool: ClientPool, settings: Settings, namespace: str, *, clock: Clock = SYSTEM_CLOCK) -> float:
    """Seconds until no swap is made any more under a lock that was got before: its heartbeats fail, so after one lease
    it no longer covers anything, and what was sent by then has its time. 0 where every server of the list is proven to
    compare and swap atomically in this database: there such a swap is refused. Raises MetastoreUnavailable."""
    if all(_is_atomic(pool, uri, settings, namespace, clock) for uri in settings.metastore_uris):
        return 0.0
    return lease_or_default(pool, settings) + settings.unanswered_swap_timeout_ms / 1000


def _is_atomic(pool: ClientPool, uri: str, settings: Settings, namespace: str, clock: Clock) -> bool:
    try:
        found = probe(uri, settings, namespace=namespace, clock=clock, pool=pool)
    except MetastoreError:
        return False
    return found.compare_and_swap is CompareAndSwap.ATOMIC
