"""The database behind the simulated metastore's servers: rows, the lock queue with its lease, and a clock of its own.

service.py is what a server makes of a call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import (
    AlreadyExistsException,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
)

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.thrift_types import Database, Table
from iceberg_hms.metastore.tables.parameters import ICEBERG, TABLE_TYPE
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION as METADATA_LOCATION
from simulation.engine.runtime import EPOCH_MS
from simulation.engine.scheduler import Process, Scheduler, Task

#: Of the tables in all scenarios.
DATABASE = "db"
#: For so long a statement waits for a row that another transaction has changed.
_ROW_LOCK_SECONDS = 20.0


class SwapSupport(Enum):
    """What a server makes of the expected value of an alter.

    ATOMIC: compares and swaps (HIVE-26882 with HIVE-28121). CHECKED: compares, then swaps. IGNORED: 3.1.3, which knows
    no such key. BROKEN: fails every alter that carries the right one (4.0.1 on Derby).
    """

    ATOMIC = "atomic"
    CHECKED = "checked"
    IGNORED = "ignored"
    BROKEN = "broken"


@dataclass(slots=True)
class LockRow:
    """A line of HIVE_LOCKS. seen: simulated seconds of the last heartbeat or check. acquired: it was told so.
    looked: its owner has seen who is before it."""

    id: int
    table: TableName
    agent_info: str
    process: str
    seen: float
    acquired: bool = False
    saw_queue: bool = False


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that changed. location: None if it was dropped. replaced: where it pointed before, None for a new row.
    expected: the compare-and-swap value that the alter carried, None for a blind one. was: its name before, if it was
    renamed. overslept: its writer had the lock when it sent it, or was about to, and slept past its lease then.
    was_unseen: what was there came out of a COMMIT in doubt, or was overslept: its writer could not know of it."""

    table: TableName
    location: str | None
    replaced: str | None
    expected: str | None
    process: str
    renamed_from: TableName | None = None
    slept_past_lease: bool = False
    replaced_unseen: bool = False


def iceberg_row(name: TableName, parameters: Mapping[str, str]) -> Any:
    """The row of an Iceberg table with these parameters."""
    return Table(
        dbName=name.namespace,
        tableName=name.name,
        owner="simulated",
        tableType="EXTERNAL_TABLE",
        partitionKeys=[],
        parameters={TABLE_TYPE: ICEBERG, **parameters},
    )


class Metastore:
    """Rows and locks; every call takes effect at once, and raises what Hive's servers raise.

    lease_seconds: after which the reaper removes an entry that nobody renewed. reaper: whether it runs at all.
    reaper_delay: seconds by which it is late. skew_ms: of the database's clock.
    on_move: told of every Iceberg row that changed. on_acquired: told which process got a lock.
    refused: where alters would have pointed that found another value than they expected. on_taken: told which
    entry another process than its owner removed.
    lock_api_works: whether lock calls are carried out.

    A transaction whose COMMIT is in doubt keeps the rows that it has changed. Others read them as they were before, and
    wait for them to write, for a while.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        lease_seconds: float = 300.0,
        reaper: bool = True,
        reaper_delay: float = 0.0,
        skew_ms: int = 0,
    ) -> None:
        self.lease_seconds = lease_seconds
        self.rows: dict[TableName, Any] = {}
        self.databases: dict[str, Any] = {}
        self.lock_api_works = True
        self.locks: list[LockRow] = []
        self.on_row_change: Callable[[RowChange], None] | None = None
        self.on_acquired: Callable[[str], None] | None = None
        self.refused: set[str] = set()
        self.on_removed_by_other: Callable[[LockRow, str], None] | None = None
        self._scheduler = scheduler
        self._reaper = reaper
        self._reaper_delay = reaper_delay
        self._skew_ms = skew_ms
        self._last_lock = 0
        #: The changes of calls that run now and are not to be committed yet.
        self._prepared: dict[Task, list[Callable[[], None]]] = {}
        #: Who waits for each row that a transaction in doubt has.
        self._in_doubt: dict[TableName, list[Task]] = {}
        #: Where the pointer was moved to when nobody could expect it.
        self._unseen: set[str | None] = set()
        #: Whether the lease of a swap's lock has passed while its writer slept, by where it points.
        self.slept_past_lease: dict[str | None, Callable[[], bool]] = {}

    def add_database(self, name: str, parameters: Mapping[str, str]) -> None:
        self.databases[name] = Database(name=name, parameters=dict(parameters))

    def database_parameters(self, name: str) -> dict[str, str]:
        """A database's parameters."""
        return dict(self.databases[name].parameters)

    def location(self, name: TableName) -> str:
        """Where a table's pointer stands."""
        return str(self.rows[name].parameters[METADATA_LOCATION])

    def get(self, name: TableName) -> Any:
        """A copy of a row."""
        if name not in self.rows:
            raise NoSuchObjectException(f"{name} table not found")
        return copied(self.rows[name])

    def insert(self, row: Any, *, process: str) -> None:
        """A new row. The name is a key of the database."""
        name = TableName(row.dbName, row.tableName)
        if name in self.rows:
            raise AlreadyExistsException(f"Table {name} already exists")
        self.wait_for_rows(name)
        if name in self.rows:
            raise MetaException('Put request failed : INSERT INTO "TBLS" ...: duplicate key value')

        def insert() -> None:
            self.rows[name] = row
            self._notify(name, row, None, None, process)

        self._commit(insert, name)

    def write(self, name: TableName, row: Any, *, expected: str | None, process: str) -> None:
        """Put a row in the place of another one, under its own name. expected: what the caller said of its pointer."""
        to = TableName(row.dbName, row.tableName)
        self.wait_for_rows(name, to)
        if name not in self.rows or (to != name and to in self.rows):
            raise MetaException('Put request failed : UPDATE "TBLS" ...: the row is another one by now')

        def write() -> None:
            replaced = self.rows.pop(name)
            self.rows[to] = row
            self._notify(to, row, replaced, expected, process, renamed_from=name if to != name else None)

        self._commit(write, name, to)

    def remove(self, name: TableName, *, process: str) -> None:
        """Drop a row."""
        self.wait_for_rows(name)
        if name not in self.rows:
            raise NoSuchObjectException(f"{name} table not found")

        def remove() -> None:
            self._notify(name, None, self.rows.pop(name), None, process)

        self._commit(remove, name)

    def wait_for_rows(self, *names: TableName) -> None:
        """Wait until no transaction in doubt has one of these rows. Raises what a server says when that takes long."""
        deadline = self._scheduler.now + _ROW_LOCK_SECONDS
        while waiters := [self._in_doubt[name] for name in names if name in self._in_doubt]:
            if self._scheduler.now >= deadline:
                raise MetaException("Put request failed : UPDATE ...: canceling statement due to lock timeout")
            self._scheduler.wait(waiters[0], deadline - self._scheduler.now)

    def prepare_call(self, call: Callable[[], object]) -> Callable[[], None]:
        """Carry out a call but for its COMMIT, and return that. Raises what the call raises."""
        task = self._scheduler.current
        changes = self._prepared[task] = []
        try:
            call()
        finally:
            del self._prepared[task]

        def commit() -> None:
            for change in changes:
                change()

        return commit

    def _commit(self, change: Callable[[], None], *names: TableName) -> None:
        priority_waits = self._prepared.get(self._scheduler.current) if self._prepared else None
        if priority_waits is None:
            change()
            return
        waiters: list[Task] = []
        self._in_doubt.update(dict.fromkeys(names, waiters))

        def commit() -> None:
            for name in set(names):
                del self._in_doubt[name]
            change()
            self._unseen.update(
                self.rows[name].parameters.get(METADATA_LOCATION) for name in names if name in self.rows
            )
            self._scheduler.wake(waiters)

        priority_waits.append(commit)

    def enqueue(self, table: TableName, agent_info: str, process: str) -> int:
        """A new line at the end of a table's queue; returns its id."""
        self._last_lock += 1
        self.locks.append(LockRow(self._last_lock, table, agent_info, process, self._scheduler.now))
        return self._last_lock

    def entries(self, table: TableName | None = None) -> list[LockRow]:
        """The lines of a table, or all."""
        self._reap()
        return [entry for entry in self.locks if table in (None, entry.table)]

    def renew(self, lock: int) -> LockRow:
        """Note that an entry's owner lives."""
        self._reap()
        for entry in self.locks:
            if entry.id == lock:
                entry.seen = self._scheduler.now
                return entry
        raise NoSuchLockException(f"No such lock: lockid:{lock}")

    def check(self, lock: int) -> bool:
        """Whether an entry is the first of its table; renews it."""
        entry = self.renew(lock)
        acquired = next(each for each in self.locks if each.table == entry.table) is entry
        if acquired and not entry.acquired and self.on_acquired is not None:
            self.on_acquired(entry.process)
        entry.acquired = acquired
        return acquired

    def unlock(self, lock: int, process: str) -> None:
        """Remove an entry, if it is there."""
        for entry in self.locks:
            if entry.id == lock and entry.process != process and self.on_removed_by_other is not None:
                self.on_removed_by_other(entry, process)
        self.locks = [entry for entry in self.locks if entry.id != lock]

    def watch_lock(self, table: TableName, location: str, process: Process) -> None:
        """A process is about to send a swap that nothing but its lock fences. Only if it sleeps from now on past the
        lease can no client keep that swap from going over others' commits."""
        mine = (table, process.name, True)
        held = [each for each in self.locks if (each.table, each.process, each.acquired) == mine]
        self.slept_past_lease.pop(location, None)
        if held and self._scheduler.now <= held[0].seen + self.lease_seconds:
            self.slept_past_lease[location] = lambda: self._slept_past_the_lease(held[0], process)

    def _slept_past_the_lease(self, entry: LockRow, process: Process) -> bool:
        ended = entry.seen + self.lease_seconds
        return self._scheduler.now > ended and process.slept_at(ended)

    def heartbeat_ms(self, entry: LockRow) -> int:
        """When an entry was renewed, by the database's clock."""
        return EPOCH_MS + self._skew_ms + int(entry.seen * 1000)

    def _reap(self) -> None:
        if self._reaper:
            oldest = self._scheduler.now - self.lease_seconds - self._reaper_delay
            self.locks = [entry for entry in self.locks if entry.seen >= oldest]

    def _notify(
        self,
        name: TableName,
        row: Any,
        replaced: Any,
        expected: str | None,
        process: str,
        renamed_from: TableName | None = None,
    ) -> None:
        """Tell of it; scratch rows are nobody's business."""
        to, before = (None if each is None else each.parameters.get(METADATA_LOCATION) for each in (row, replaced))
        if self.on_row_change is not None and (to is not None or before is not None):
            unseen = before in self._unseen
            slept_past_lease = to in self.slept_past_lease and self.slept_past_lease[to]()
            if slept_past_lease:
                self._unseen.add(to)
            self.on_row_change(RowChange(name, to, before, expected, process, renamed_from, slept_past_lease, unseen))


def copied(row: Any) -> Any:
    """A row whose parameters may be changed."""
    own = copy.copy(row)
    own.parameters = dict(row.parameters)
    return own
