"""Entries of the metastore's lock table: enqueue, check, renew, list, remove. One call each."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import (
    CheckLockRequest,
    DataOperationType,
    HeartbeatRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)
from iceberg_hms.metastore.locks.holder_identity import agent_info, parse
from iceberg_hms.metastore.locks.lease import ServerLeases


@dataclass(frozen=True, slots=True)
class LockEntry:
    """One entry. lock_id is the metastore's. heartbeat_ms: when it was last renewed, by the clock of the metastore's
    database. reads: a query of Hive's requested it. since_ms: when it got the lock, by the same clock. Only `of` fills
    in these three."""

    lock_id: int
    acquired: bool
    agent_info: str = ""
    user: str = ""
    host: str = ""
    heartbeat_ms: int | None = None
    reads: bool = False
    since_ms: int | None = None

    @property
    def is_foreign_writer(self) -> bool:
        """Whether a foreign writer requested it: no process of ours, and no query."""
        return not self.reads and parse(self.agent_info) is None

    def record(self, name: TableName) -> LockRecord:
        """The same for operators. name: the table's."""
        return LockRecord(
            lock_id=str(self.lock_id),
            keeper="hms",
            table=str(name),
            state="ACQUIRED" if self.acquired else "WAITING",
            kind="SHARED_READ" if self.reads else "EXCLUSIVE",
            user=self.user,
            host=self.host,
            agent_info=self.agent_info,
            since_ms=self.since_ms,
            heartbeat_ms=self.heartbeat_ms,
        )

    def __str__(self) -> str:
        return f"lock {self.lock_id} of {self.user or '?'} on {self.host or '?'} ({self.agent_info or 'no agentInfo'})"


class LockEntries:
    """The lock API for one user. All raise ServerFault and MetastoreUnavailable; `enqueue` alone raises NoAnswer.

    leases: asks the server of each connection before an entry is requested, checked or renewed there; None: nobody is
    asked.
    """

    def __init__(self, pool: ClientPool, user: str, leases: ServerLeases | None = None) -> None:
        self._pool = pool
        self._leases = leases
        self._user = user or "unknown"
        self._host = socket.gethostname()

    def enqueue(self, name: TableName, agent_info: str) -> LockEntry:
        """Request the exclusive lock of a table. Not idempotent: an unanswered call may leave an entry."""
        component = LockComponent(
            type=LockType.EXCLUSIVE,
            level=LockLevel.TABLE,
            dbname=name.namespace,
            tablename=name.name,
            # Other values, and none at all, are refused by one version or another (apache/iceberg#11784).
            operationType=DataOperationType.NO_TXN,
        )
        request = LockRequest(component=[component], user=self._user, hostname=self._host, agentInfo=agent_info)
        answer = self._pool.run(self._with_lease("lock", rqst=request), idempotent=False)
        return self._own(answer.lockid, answer.state, agent_info)

    @contextmanager
    def trial(self, scratch: TableName, purpose: str) -> Iterator[LockEntry]:
        """Request a lock on a name that no table has, to see what the lock API does, and remove it at the end."""
        entry = self.enqueue(scratch, agent_info(purpose))
        try:
            yield entry
        finally:
            self.remove(entry)

    def check(self, entry: LockEntry) -> LockEntry:
        """The entry as it is now; the server also counts this as a heartbeat. Fault NO_SUCH_LOCK when it is gone."""
        request = CheckLockRequest(lockid=entry.lock_id)
        answer = self._pool.run(self._with_lease("check_lock", rqst=request), idempotent=True)
        return self._own(answer.lockid, answer.state, entry.agent_info)

    def renew(self, entry: LockEntry) -> None:
        """A heartbeat. Fault NO_SUCH_LOCK when the entry is gone."""
        request = HeartbeatRequest(lockid=entry.lock_id)
        self._pool.run_for_held_lock(self._with_lease("heartbeat", ids=request))

    def remove(self, entry: LockEntry) -> None:
        """Unlock. Succeeds too when the entry is gone already."""
        request = UnlockRequest(lockid=entry.lock_id)
        self._pool.run_for_held_lock(lambda client: client.call("unlock", rqst=request))

    def of(self, name: TableName) -> list[LockEntry]:
        """All entries of a table, in the order of their ids."""
        request = ShowLocksRequest(dbname=name.namespace, tablename=name.name, isExtended=False)
        answer = self._pool.ask("show_locks", rqst=request)
        found = [
            LockEntry(
                element.lockid,
                element.state == LockState.ACQUIRED,
                element.agentInfo or "",
                element.user or "",
                element.hostname or "",
                element.lastheartbeat or None,
                element.type == LockType.SHARED_READ,
                element.acquiredat or None,
            )
            for element in answer.locks
        ]
        return sorted(found, key=lambda entry: entry.lock_id)

    def own(self, name: TableName, agent_info: str) -> list[LockEntry]:
        """The entries of a table that carry this agentInfo."""
        return [entry for entry in self.of(name) if entry.agent_info == agent_info]

    def _own(self, lock_id: int, state: int, agent_info: str) -> LockEntry:
        return LockEntry(lock_id, state == LockState.ACQUIRED, agent_info, self._user, self._host)

    def _with_lease(self, method: str, **arguments: Any) -> Callable[[MetastoreClient], Any]:
        """A call that asks its server for the lease first."""

        def call(client: MetastoreClient) -> Any:
            if self._leases is not None:
                self._leases.ask(client)
            return client.call(method, **arguments)

        return call
