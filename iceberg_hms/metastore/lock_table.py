"""The metastore's lock table for operators: everything that is in it, and whether lock calls work at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.entries import Entry, LockEntries
from iceberg_hms.metastore.identity import agent_info
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.scratch import scratch_name
from iceberg_hms.metastore.thrift_types import LockState, LockType, ShowLocksRequest, UnlockRequest


@dataclass(frozen=True, slots=True)
class Row:
    """One component of a lock as show_locks tells it. table is "" for a lock on a whole database.

    kind: EXCLUSIVE, SHARED_READ... state: ACQUIRED, WAITING... transaction_id: None outside of transactions.
    acquired_ms, heartbeat_ms: by the metastore database's clock; None where the server does not tell.
    """

    lock_id: int
    namespace: str
    table: str
    state: str
    kind: str
    transaction_id: int | None
    user: str
    host: str
    agent_info: str
    acquired_ms: int | None
    heartbeat_ms: int | None


class LockTable:
    """The locks of one metastore. All raise ServerFault, MetastoreUnavailable."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool

    def rows(self, name: TableName | None = None) -> list[Row]:
        """The locks of a table, or all, in the order of their ids."""
        request = ShowLocksRequest(isExtended=False)
        if name is not None:
            request.dbname, request.tablename = name.namespace, name.name
        answer = self._pool.run(lambda client: client.call("show_locks", rqst=request), idempotent=True)
        return sorted(
            (_row(element) for element in answer.locks), key=lambda row: (row.lock_id, row.namespace, row.table)
        )

    def remove(self, lock_id: int) -> None:
        """Unlock; harmless when the lock is gone. A transaction's lock is refused: it ends with its transaction."""
        self._pool.run(lambda client: client.call("unlock", rqst=UnlockRequest(lockid=lock_id)), idempotent=True)


def api_works(settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Whether any server of the list carries out a lock call on a fresh connection. It is tried on a name that no table
    has. Never raises."""
    for uri in settings.metastore_uris:
        pool = ClientPool(
            [uri],
            size=1,
            connect_timeout_ms=settings.connect_timeout_ms,
            socket_timeout_ms=settings.socket_timeout_ms,
            user=settings.user,
        )
        try:
            entries = LockEntries(pool, settings.user)
            entry: Entry = entries.enqueue(scratch_name("default", clock), agent_info("probe"))
            entries.remove(entry)
        except MetastoreError:
            continue
        else:
            return True
        finally:
            pool.close()
    return False


def _row(element: Any) -> Row:
    return Row(
        lock_id=element.lockid,
        namespace=element.dbname or "",
        table=element.tablename or "",
        state=LockState._VALUES_TO_NAMES.get(element.state, str(element.state)),
        kind=LockType._VALUES_TO_NAMES.get(element.type, str(element.type)),
        transaction_id=element.txnid or None,
        user=element.user or "",
        host=element.hostname or "",
        agent_info=element.agentInfo or "",
        acquired_ms=element.acquiredat or None,
        heartbeat_ms=element.lastheartbeat or None,
    )
