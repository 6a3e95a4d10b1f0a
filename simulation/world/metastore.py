"""The database behind the simulated metastore's servers: in-doubt transactions, a clock of its own, reported changes.

metastore_server.py turns Thrift calls into calls of this database.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import NoSuchTable
from iceberg_hms.metastore.connection.thrift_types import Database, StorageDescriptor, Table
from iceberg_hms.metastore.tables.parameters import ICEBERG, TABLE_TYPE, VIRTUAL_VIEW
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION as METADATA_LOCATION
from iceberg_hms.testing.memory_metastore import LockQueues, LockRow, MemoryMetastore
from simulation.engine.runtime import EPOCH_MS
from simulation.engine.scheduler import Process, Scheduler, Task

#: The database of most tables.
DATABASE = "db"
#: How long a statement waits for a row that another transaction has changed.
_ROW_LOCK_SECONDS = 20.0
#: Seconds within which a lock is new.
_JUST_ACQUIRED = 0.01


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that changed.

    location: None if it was dropped. replaced: the metadata location before, None for a new row.
    expected: the value that the alter compared, None for a blind one. renamed_from: its old name, if it was renamed.
    slept_past_lease: its writer held the lock when it sent the change, and then slept past the lease.
    replaced_unseen: no writer could know of the replaced location, because it came from an in-doubt COMMIT, from a late
    alter that compared atomically beside servers that do not, or from a writer that slept past its lease.
    """

    table: TableName
    location: str | None
    replaced: str | None
    expected: str | None
    process: str
    renamed_from: TableName | None = None
    slept_past_lease: bool = False
    replaced_unseen: bool = False


def iceberg_row(name: TableName, parameters: Mapping[str, str]) -> Any:
    """The row of an Iceberg table with these parameters, whose folder is that of its metadata's folder."""
    folder = parameters.get(METADATA_LOCATION, "").rpartition("/metadata/")[0]
    return Table(
        dbName=name.namespace,
        tableName=name.name,
        owner="simulated",
        tableType="EXTERNAL_TABLE",
        partitionKeys=[],
        sd=StorageDescriptor(cols=[], location=folder, parameters={}),
        parameters={TABLE_TYPE: ICEBERG, **parameters},
    )


class Metastore(MemoryMetastore[Any]):
    """The metastore in memory with a clock of its own, in-doubt transactions, and a reaper that may be late.

    lease_seconds: the reaper removes an entry that was not renewed for so long. reaper: whether it runs.
    reaper_delay: seconds by which it is late. skew_ms: of the database's clock.
    on_row_change: called with every row of a table that changed; on_view_change: of a view.
    on_insert: called with the name of each new Iceberg table. on_searched: called with a database that was searched for
    a table, before the caller gets its answer.
    refused: the locations of refused compare-and-swaps. on_removed_by_other: called with an entry and the process that
    removed it, if the process is not its owner.
    lock_api_works: whether lock calls are carried out. saw_queue: the entries whose owners listed the queue.

    A transaction whose COMMIT is in doubt keeps its changed rows locked. Others read the rows as they were before;
    writers wait for them, for a while.
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
        reaped_after = lease_seconds + reaper_delay if reaper else math.inf
        super().__init__(LockQueues(lambda: scheduler.now, lease_seconds=reaped_after))
        self.lease_seconds = lease_seconds
        self.lock_api_works = True
        self.on_row_change: Callable[[RowChange], None] | None = None
        self.on_view_change: Callable[[RowChange], None] | None = None
        self.on_insert: Callable[[TableName], None] | None = None
        self.on_searched: Callable[[str], None] | None = None
        self.refused: set[str] = set()
        self.on_removed_by_other: Callable[[LockRow, str], None] | None = None
        self.saw_queue: set[int] = set()
        self._scheduler = scheduler
        self._reaper = reaper
        self._skew_ms = skew_ms
        #: The uncommitted changes of the calls that run now.
        self._prepared: dict[Task, list[Callable[[], None]]] = {}
        #: The tasks that wait for each row that an in-doubt transaction has changed.
        self._in_doubt: dict[TableName, list[Task]] = {}
        #: Metadata locations that appeared when no writer could know of them.
        self._unseen: set[str | None] = set()
        #: For each location that a blind swap sets: whether its writer slept past the lease of its lock.
        self.slept_past_lease: dict[str | None, Callable[[], bool]] = {}

    def add_database(self, name: str, parameters: Mapping[str, str]) -> None:
        # All tables have one folder, which lies directly below that of every database.
        self.create_database(name, Database(name=name, locationUri="file:/", parameters=dict(parameters)))

    def database_parameters(self, name: str) -> dict[str, str]:
        """A database's parameters."""
        return dict(self.database(name).parameters)

    def location(self, name: TableName) -> str:
        """A table's metadata location."""
        return str(self.rows[name].parameters[METADATA_LOCATION])

    def commit(
        self, name: TableName | None, to: TableName | None, row: Any, expected: str | None, process: str
    ) -> None:
        """Write a change at once; within `prepare_call`, when the caller commits it."""
        names = [each for each in dict.fromkeys((name, to)) if each is not None]
        self.wait_for_rows(*names)
        if (name is not None and name not in self.rows) or (to not in (None, name) and to in self.rows):
            # Another transaction came first.
            raise NoSuchTable(names[0]) if to is None else MetaException("Put request failed: it is another row by now")

        def change() -> None:
            replaced = None if name is None else self.rows[name]
            MemoryMetastore.commit(self, name, to, row, expected, process)
            self._notify(names[-1], row, replaced, expected, process, None if to in (None, name) else name)
            if name is None and self.on_insert is not None and row.parameters.get(METADATA_LOCATION):
                self.on_insert(names[-1])

        prepared = self._prepared.get(self._scheduler.current) if self._prepared else None
        if prepared is None:
            change()
        else:
            prepared.append(self._leave_in_doubt(change, names))

    def landed_unseen(self, location: str) -> None:
        """Note that an alter set a table's location when its writer had long gone."""
        self._unseen.add(location)

    def wait_for_rows(self, *names: TableName) -> None:
        """Wait until no in-doubt transaction has one of these rows. Raises a server's lock timeout."""
        deadline = self._scheduler.now + _ROW_LOCK_SECONDS
        while waiters := [self._in_doubt[name] for name in names if name in self._in_doubt]:
            if self._scheduler.now >= deadline:
                raise MetaException("Put request failed : UPDATE ...: canceling statement due to lock timeout")
            self._scheduler.wait(waiters[0], deadline - self._scheduler.now)

    def prepare_call(self, call: Callable[[], object]) -> Callable[[], None]:
        """Carry out a call without its COMMIT, and return the COMMIT. Raises what the call raises."""
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

    def _leave_in_doubt(self, change: Callable[[], None], names: Sequence[TableName]) -> Callable[[], None]:
        """Keep rows locked until the COMMIT, which is returned."""
        waiters: list[Task] = []
        self._in_doubt.update(dict.fromkeys(names, waiters))

        def commit() -> None:
            for name in names:
                del self._in_doubt[name]
            change()
            self._unseen.update(
                self.rows[name].parameters.get(METADATA_LOCATION) for name in names if name in self.rows
            )
            self._scheduler.wake(waiters)

        return commit

    def has_new_lock(self, process: str) -> bool:
        """Whether a process has just acquired a lock of any table."""
        renewed = self._scheduler.now - _JUST_ACQUIRED
        return any(each.process == process and each.acquired and each.seen >= renewed for each in self._locks())

    def of_another(self, lock: int, process: str) -> LockRow | None:
        """The entry, if another process requested it."""
        row = self.locks.rows.get(lock)
        return row if row is not None and row.process != process else None

    def watch_lock(self, table: TableName, location: str, process: Process) -> None:
        """A process is about to send a blind swap. No client can keep that swap from overwriting others' commits if the
        process sleeps past the lease from now on and the reaper removes its lock; only then the checks excuse it."""
        mine = (table, process.name, True)
        held = [each for each in self._locks() if (each.table, each.process, each.acquired) == mine]
        self.slept_past_lease.pop(location, None)
        if held and self._scheduler.now <= held[0].seen + self.lease_seconds:
            self.slept_past_lease[location] = lambda: self._slept_past_the_lease(held[0], process)

    def _slept_past_the_lease(self, entry: LockRow, process: Process) -> bool:
        ended = entry.seen + self.lease_seconds
        return self._reaper and self._scheduler.now > ended and process.slept_at(ended)

    def heartbeat_ms(self, entry: LockRow) -> int:
        """When an entry was last renewed, by the database's clock."""
        return EPOCH_MS + self._skew_ms + int(entry.seen * 1000)

    def _locks(self) -> list[LockRow]:
        """All entries, those that the reaper has not removed yet included."""
        return list(self.locks.rows.values())

    def _notify(
        self,
        name: TableName,
        row: Any,
        replaced: Any,
        expected: str | None,
        process: str,
        renamed_from: TableName | None = None,
    ) -> None:
        """Report a row change, unless it is a scratch row's."""
        to, before = (None if each is None else each.parameters.get(METADATA_LOCATION) for each in (row, replaced))
        is_view = (replaced if row is None else row).tableType == VIRTUAL_VIEW
        on_change = self.on_view_change if is_view else self.on_row_change
        if on_change is not None and (to is not None or before is not None):
            unseen = before in self._unseen
            slept_past_lease = to in self.slept_past_lease and self.slept_past_lease[to]()
            if slept_past_lease:
                self._unseen.add(to)
            on_change(RowChange(name, to, before, expected, process, renamed_from, slept_past_lease, unseen))
