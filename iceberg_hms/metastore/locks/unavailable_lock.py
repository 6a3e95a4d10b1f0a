"""How long a lock of the metastore may still be swapped under after its API broke."""

from __future__ import annotations

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.metastore.compare_and_swap.proofs import prove_server
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lease import lease_or_default


def granted_lock_seconds(pool: ClientPool, settings: Settings, namespace: str, *, clock: Clock = SYSTEM_CLOCK) -> float:
    """Seconds until no writer swaps any more under a lock that it got before the lock API broke.

    Such a lock's heartbeats fail, so it covers nothing after one lease; what was sent by then gets
    `metastore.unanswered-swap-timeout-ms`. 0 where every server of the list proves that it compares and swaps
    atomically in this database, since it refuses such a swap then. Raises MetastoreUnavailable.
    """
    if all(_is_atomic(pool, uri, namespace, clock) for uri in settings.metastore_uris):
        return 0.0
    return lease_or_default(pool, settings) + settings.unanswered_swap_timeout_ms / 1000


def _is_atomic(pool: ClientPool, uri: str, namespace: str, clock: Clock) -> bool:
    alone = pool.only(uri)
    try:
        return prove_server(alone, namespace, clock).support is CompareAndSwap.ATOMIC
    finally:
        alone.close()
