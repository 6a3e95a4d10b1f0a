"""The metastore's lock table for operators: everything that is in it, whose holders seem to be dead, whether lock calls
work at all, and for how long a lock may still be swapped under if they do not.

dead_lock_reaper.py may not remove an entry if nothing is known to protect the table from its dead holder's swap. An
operator may; this module names such entries.
"""

from __future__ import annotations

from typing import Any, Final

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import heartbeat_seconds
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreError, MetastoreUnavailable
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.metastore.compare_and_swap.proofs import prove_server
from iceberg_hms.metastore.compare_and_swap.scratch_row import scratch_name
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.faults import NoAnswer
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import LockState, LockType, ShowLocksRequest, UnlockRequest
from iceberg_hms.metastore.locks.holder_identity import has_ended, parse
from iceberg_hms.metastore.locks.lease import lease_seconds
from iceberg_hms.metastore.locks.lock_entries import LockEntries

#: How many heartbeats the entry of a process that seems to have ended must have missed.
_MISSED_HEARTBEATS: Final = 2


class LockTable:
    """The locks of one metastore: locking.lock_admin.LockKeeper. All raise ServerFault, MetastoreUnavailable."""

    def __init__(self, pool: ClientPool, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pool = pool
        self._clock = clock

    def entries(self, name: TableName | None = None) -> list[LockRecord]:
        """As the protocol says, in the order of their ids: each component of a lock. Times are by the clock of the
        metastore's database; None where the server does not tell."""
        request = ShowLocksRequest(isExtended=False)
        if name is not None:
            request.dbname, request.tablename = name.namespace, name.name
        answer = self._pool.ask("show_locks", rqst=request)
        rows = sorted(answer.locks, key=lambda row: (row.lockid, row.dbname or "", row.tablename or ""))
        lease_ms = 1000 * (lease_seconds(self._pool) or float("inf")) if rows else 0.0
        now_ms: int | None = self._clock.now_ms()
        if any(_why_dead(row, abs(_age(row, now_ms)), lease_ms) for row in rows):
            # Heartbeats are by the database's clock, which may differ from ours.
            now_ms = self._database_ms()
        return [_record(row, _why_dead(row, _age(row, now_ms), lease_ms)) for row in rows]

    def remove(self, lock_id: str) -> None:
        """As the protocol says. The server refuses a transaction's lock, which ends with it."""
        self._pool.ask("unlock", rqst=UnlockRequest(lockid=int(lock_id)))

    def _database_ms(self) -> int | None:
        """The time by the database's clock, from a lock of our own on a name that no table has; None if that fails."""
        entries = LockEntries(self._pool, "")
        name = scratch_name("default", self._clock)
        try:
            with entries.trial(name, "clock"):
                return next((found.heartbeat_ms for found in entries.of(name)), None)
        except MetastoreError:
            return None


def api_works(pool: ClientPool, settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Whether any server of the pool's list carries out a lock call, on a fresh connection and a name that no table
    has. Raises MetastoreUnavailable if none answers: that says nothing of what they do for others."""
    silent: MetastoreUnavailable | None = None
    is_refused = False
    for uri in pool.uris:
        alone, works = pool.only(uri), False
        try:
            with LockEntries(alone, settings.user).trial(scratch_name("default", clock), "probe"):
                works = True
        except (MetastoreUnavailable, NoAnswer) as error:
            silent = MetastoreUnavailable(error.message)
        except MetastoreError:
            is_refused = True
        finally:
            alone.close()
        if works:
            # Even if the lock could not be removed again.
            return True
    if silent is not None and not is_refused:
        raise silent
    return False


def granted_lock_seconds(pool: ClientPool, settings: Settings, namespace: str, *, clock: Clock = SYSTEM_CLOCK) -> float:
    """Seconds until no writer swaps any more under a lock that it got before the lock API broke.

    Such a lock's heartbeats fail, so it covers nothing after one lease; what was sent by then gets
    `metastore.unanswered-swap-timeout-ms`. 0 where every server of the list proves that it compares and swaps
    atomically in this database, since it refuses such a swap then. Raises MetastoreUnavailable.
    """
    if all(_is_atomic(pool, uri, namespace, clock) for uri in settings.metastore_uris):
        return 0.0
    lease = lease_seconds(pool) or settings.lock_lease_default_ms / 1000
    return lease + settings.unanswered_swap_timeout_ms / 1000


def _is_atomic(pool: ClientPool, uri: str, namespace: str, clock: Clock) -> bool:
    alone = pool.only(uri)
    try:
        return prove_server(alone, namespace, clock).support is CompareAndSwap.ATOMIC
    finally:
        alone.close()


def _record(row: Any, seems_dead: str) -> LockRecord:
    """row: as show_locks gives it."""
    return LockRecord(
        lock_id=str(row.lockid),
        keeper="hms",
        table=f"{row.dbname or ''}.{row.tablename}" if row.tablename else row.dbname or "",
        state=LockState._VALUES_TO_NAMES.get(row.state, str(row.state)),
        kind=LockType._VALUES_TO_NAMES.get(row.type, str(row.type)),
        user=row.user or "",
        host=row.hostname or "",
        agent_info=row.agentInfo or "",
        since_ms=row.acquiredat or None,
        heartbeat_ms=row.lastheartbeat or None,
        seems_dead=seems_dead,
    )


def _age(row: Any, now_ms: int | None) -> float:
    """Milliseconds since the last heartbeat. Locks of transactions have none of their own."""
    if row.txnid or not row.lastheartbeat or now_ms is None:
        return 0.0
    return float(now_ms - row.lastheartbeat)


def _why_dead(row: Any, age_ms: float, lease_ms: float) -> str:
    holder = parse(row.agentInfo or "")
    if holder is not None and holder.lease_seconds is not None:
        lease_ms = min(lease_ms, 1000 * holder.lease_seconds)
    # A process that lives on a clone of this machine keeps renewing its lock.
    beats_ms = _MISSED_HEARTBEATS * heartbeat_seconds(lease_ms / 1000) * 1000
    if holder is not None and age_ms >= beats_ms and has_ended(holder):
        return f"process {holder.pid} of this machine has ended"
    if age_ms > lease_ms:
        return f"it was not renewed for {age_ms / 1000:.0f} s, with a lease of {lease_ms / 1000:.0f} s"
    return ""
