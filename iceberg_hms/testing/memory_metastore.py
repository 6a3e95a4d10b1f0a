"""What a Hive Metastore keeps and what it refuses, in memory: databases, rows of tables and views, and locks.

Three doors lead to it: the fakes of the ports beside this module; Thrift's calls, in the simulation; and a socket, in
the tests of the drivers. Each door puts its own rows and databases in, and says in its own words what is refused here.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    LockLost,
    MetastoreRefused,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
)


class WithParameters(Protocol):
    """A row."""

    @property
    def parameters(self) -> Mapping[str, str]: ...


Row = TypeVar("Row", bound=WithParameters)


class MemoryMetastore(Generic[Row]):
    """Databases by name, rows by name, locks. Every call takes effect at once."""

    def __init__(self, locks: LockQueues | None = None) -> None:
        self.databases: dict[str, Any] = {}
        self.rows: dict[TableName, Row] = {}
        self.locks = LockQueues() if locks is None else locks

    def database(self, name: str) -> Any:
        """Raises NoSuchNamespace."""
        if name not in self.databases:
            raise NoSuchNamespace(name)
        return self.databases[name]

    def create_database(self, name: str, database: Any) -> None:
        """Raises AlreadyExists."""
        if name in self.databases:
            raise AlreadyExists(f"Namespace already exists: {name}")
        self.databases[name] = database

    def drop_database(self, name: str) -> None:
        """Raises NoSuchNamespace, NamespaceNotEmpty."""
        self.database(name)
        if self.rows_in(name):
            raise NamespaceNotEmpty(name)
        del self.databases[name]

    def rows_in(self, database: str) -> dict[TableName, Row]:
        """The rows of a database, in the order in which they came."""
        return {name: row for name, row in list(self.rows.items()) if name.namespace == database}

    def get(self, name: TableName) -> Row:
        """Raises NoSuchTable."""
        row = self.rows.get(name)
        if row is None:
            raise NoSuchTable(name)
        return row

    def insert(self, name: TableName, row: Row, *, process: str = "") -> None:
        """Add a row. process: who does. Raises NoSuchNamespace, AlreadyExists."""
        self.database(name.namespace)
        if name in self.rows:
            raise AlreadyExists(f"Table already exists: {name}")
        self.commit(None, name, row, None, process)

    def compare(self, name: TableName, key: str, expected: str) -> None:
        """Raises NoSuchTable; MetastoreRefused if a row's parameter has another value."""
        found = self.get(name).parameters.get(key)
        if found != expected:
            raise MetastoreRefused(f"The table has been modified. The parameter value for key '{key}' is '{found}'")

    def alter(
        self, name: TableName, to: TableName, row: Row, *, expected: str | None = None, process: str = ""
    ) -> None:
        """Replace a row, under a new name if `to` is one. expected: what a server compared before, if it did. Raises
        NoSuchTable, NoSuchNamespace, AlreadyExists."""
        self.get(name)
        self.database(to.namespace)
        if to != name and to in self.rows:
            raise AlreadyExists(f"Table already exists: {to}")
        self.commit(name, to, row, expected, process)

    def remove(self, name: TableName, *, process: str = "") -> None:
        """Raises NoSuchTable."""
        self.get(name)
        self.commit(name, None, None, None, process)

    def commit(
        self,
        name: TableName | None,
        to: TableName | None,
        row: Row | None,
        expected: str | None,  # noqa: ARG002 - for those who report changes
        process: str,  # noqa: ARG002
    ) -> None:
        """Write a change that nothing forbids. name: None for a new row. to, row: None for one that is dropped."""
        if name is not None:
            del self.rows[name]
        if to is not None and row is not None:
            self.rows[to] = row


@dataclass(slots=True, eq=False)
class LockRow:
    """An entry of the lock table. seen: seconds of its last heartbeat or check. acquired: the last check found it the
    first of its table. kind: its LockType. txn: the transaction that it is of, if it is of one."""

    id: int
    table: TableName
    agent_info: str
    process: str
    seen: float
    acquired: bool = False
    user: str = ""
    host: str = ""
    kind: int | None = None
    txn: int | None = None


class LockQueues:
    """The entries of all tables' locks in the order of their arrival. The first one of a table has its lock.

    now: seconds. lease_seconds: an entry that was not renewed for so long is gone. on_acquired: called with each entry
    that became the first, when a check finds it so.
    """

    def __init__(self, now: Callable[[], float] = SYSTEM_CLOCK.monotonic, *, lease_seconds: float = math.inf) -> None:
        self.rows: dict[int, LockRow] = {}
        self.now = now
        self.on_acquired: Callable[[LockRow], object] | None = None
        self._lease_seconds = lease_seconds
        self._mutex = threading.RLock()
        self._last = 0

    def enqueue(self, table: TableName, agent_info: str, process: str = "", **fields: Any) -> LockRow:
        """Add an entry at the end of a table's queue. fields: of LockRow."""
        with self._mutex:
            self._last += 1
            row = self.rows[self._last] = LockRow(self._last, table, agent_info, process, self.now(), **fields)
            return row

    def entries(self, table: TableName | None = None) -> list[LockRow]:
        """The entries of a table, or all."""
        with self._mutex:
            self._end_leases()
            return [row for row in self.rows.values() if table in (None, row.table)]

    def renew(self, lock: int) -> LockRow:
        """Renew an entry. Raises LockLost."""
        with self._mutex:
            self._end_leases()
            if lock not in self.rows:
                raise LockLost(f"No such lock: lockid:{lock}")
            self.rows[lock].seen = self.now()
            return self.rows[lock]

    def check(self, lock: int) -> bool:
        """Whether an entry is the first of its table; renews it. Raises LockLost."""
        with self._mutex:
            row = self.renew(lock)
            acquired = self.entries(row.table)[0] is row
            if acquired and not row.acquired and self.on_acquired is not None:
                self.on_acquired(row)
            row.acquired = acquired
            return acquired

    def remove(self, lock: int) -> None:
        """Remove an entry, if it exists."""
        with self._mutex:
            self.rows.pop(lock, None)

    def reap(self, table: TableName) -> None:
        """Remove the holder's entry, as a metastore does after a lease."""
        for row in self.entries(table)[:1]:
            self.remove(row.id)

    def _end_leases(self) -> None:
        oldest = self.now() - self._lease_seconds
        for row in [each for each in self.rows.values() if each.seen < oldest]:
            del self.rows[row.id]
