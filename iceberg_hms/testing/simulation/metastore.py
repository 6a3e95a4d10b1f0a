"""The simulated metastore: rows, compare-and-swap in the four kinds that servers have, and the lock queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from iceberg_hms.coordinator.ports import Refused, SwapAnswer, Swapped, TableName
from iceberg_hms.errors import AlreadyExists, LockUnavailable, MetastoreRefused, NoSuchTable
from iceberg_hms.testing.simulation.scheduler import Scheduler

METADATA_LOCATION = "metadata_location"
PREVIOUS_METADATA_LOCATION = "previous_metadata_location"


class Verdict(Enum):
    """What a server makes of the expected value of an alter.

    ATOMIC: compares and swaps (HIVE-26882 with HIVE-28121). CHECKED: compares, then swaps. IGNORED: 3.1.3, which knows
    no such key. BROKEN: fails every alter that carries one (4.0.1 on Derby).
    """

    ATOMIC = "atomic"
    CHECKED = "checked"
    IGNORED = "ignored"
    BROKEN = "broken"


@dataclass(slots=True)
class LockEntry:
    """A line of HIVE_LOCKS. seen: simulated seconds of the last heartbeat or check. acquired: it was told so.
    waited: it was told to wait."""

    id: int
    table: TableName
    request: str
    process: str
    seen: float
    acquired: bool = False
    waited: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """A row that changed. location: None if it was dropped. replaced: where it pointed before, None for a new row.
    expected: the compare-and-swap value that the alter carried, None for a blind one. was: its name before, if it was
    renamed."""

    table: TableName
    location: str | None
    replaced: str | None
    expected: str | None
    process: str
    was: TableName | None = None


class Metastore:
    """Rows and locks; every call takes effect at once.

    lease_seconds: after which the reaper removes an entry that nobody renewed. reaper: whether it runs at all.
    reaper_delay: seconds by which it is late.
    on_move: told of every row that changed. on_acquired: told which process got a lock.
    lock_api_works: whether lock calls are carried out. databases: the parameters of each.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        verdict: Verdict = Verdict.ATOMIC,
        lease_seconds: float = 300.0,
        reaper: bool = True,
        reaper_delay: float = 0.0,
    ) -> None:
        self.verdict = verdict
        self.lease_seconds = lease_seconds
        self.rows: dict[TableName, Mapping[str, str]] = {}
        self.databases: dict[str, dict[str, str]] = {}
        self.lock_api_works = True
        self.locks: list[LockEntry] = []
        self.on_move: Callable[[Moved], None] | None = None
        self.on_acquired: Callable[[str], None] | None = None
        self._scheduler = scheduler
        self._reaper = reaper
        self._reaper_delay = reaper_delay
        self._last_lock = 0

    def get(self, table: TableName) -> Mapping[str, str]:
        """A row's parameters. Raises NoSuchTable."""
        if table not in self.rows:
            raise NoSuchTable(table)
        return self.rows[table]

    def alter(
        self, table: TableName, parameters: Mapping[str, str], *, expected: str | None, process: str
    ) -> SwapAnswer:
        """Write a row back whole. expected: the metadata_location that it must have; None asks nothing."""
        if (refusal := self._refusal(table, expected)) is not None:
            return refusal
        if self.verdict is Verdict.CHECKED:
            self._scheduler.step()
        if table not in self.rows:
            return Refused(True, NoSuchTable(table))
        self._set(table, parameters, expected, process)
        return Swapped()

    def insert(self, table: TableName, parameters: Mapping[str, str], *, process: str) -> SwapAnswer:
        """A new row. The name is a key of the database, whatever the server makes of expected values."""
        if table in self.rows:
            return Refused(True, AlreadyExists(f"Table already exists: {table}"))
        self._set(table, parameters, None, process)
        return Swapped()

    def rename(
        self, table: TableName, to: TableName, parameters: Mapping[str, str], *, expected: str, process: str
    ) -> SwapAnswer:
        """Give a row another name: an alter, which writes it back whole."""
        if (refusal := self._refusal(table, expected)) is not None:
            return refusal
        if self.verdict is Verdict.CHECKED:
            self._scheduler.step()
        if to in self.rows:
            return Refused(True, AlreadyExists(f"Table already exists: {to}"))
        if table not in self.rows:
            return Refused(True, NoSuchTable(table))
        replaced = self.rows.pop(table)[METADATA_LOCATION]
        self.rows[to] = parameters
        self._moved(Moved(to, parameters[METADATA_LOCATION], replaced, expected, process, was=table))
        return Swapped()

    def remove(self, table: TableName, *, process: str) -> SwapAnswer:
        """Drop a row; no expected value."""
        if table not in self.rows:
            return Refused(True, NoSuchTable(table))
        replaced = self.rows.pop(table)[METADATA_LOCATION]
        self._moved(Moved(table, None, replaced, None, process))
        return Swapped()

    def enqueue(self, table: TableName, request: str, process: str) -> int:
        """A new line at the end of a table's queue; returns its id. Raises LockUnavailable, as all lock calls."""
        self._check_lock_api()
        self._last_lock += 1
        self.locks.append(LockEntry(self._last_lock, table, request, process, self._scheduler.now))
        return self._last_lock

    def find(self, table: TableName, request: str) -> int | None:
        """A table's entry of a request, as show_locks has it."""
        self._check_lock_api()
        self._reap()
        return next((entry.id for entry in self.locks if (entry.table, entry.request) == (table, request)), None)

    def check(self, lock: int) -> bool | None:
        """Whether an entry is the first of its table; renews it. None: it is gone."""
        self._check_lock_api()
        self._reap()
        for entry in self.locks:
            if entry.id == lock:
                entry.seen = self._scheduler.now
                acquired = next(each for each in self.locks if each.table == entry.table) is entry
                if acquired and not entry.acquired and self.on_acquired is not None:
                    self.on_acquired(entry.process)
                entry.acquired = acquired
                entry.waited |= not acquired
                return acquired
        return None

    def unlock(self, lock: int) -> bool:
        """Remove an entry; False if it was gone."""
        self._check_lock_api()
        before = len(self.locks)
        self.locks = [entry for entry in self.locks if entry.id != lock]
        return len(self.locks) < before

    def holds(self, table: TableName, process: str) -> bool:
        """Whether a process has the lock of a table now."""
        self._reap()
        first = next((entry for entry in self.locks if entry.table == table), None)
        return first is not None and first.process == process

    def _reap(self) -> None:
        if self._reaper:
            oldest = self._scheduler.now - self.lease_seconds - self._reaper_delay
            self.locks = [entry for entry in self.locks if entry.seen >= oldest]

    def _check_lock_api(self) -> None:
        if not self.lock_api_works:
            raise LockUnavailable("the lock API of the metastore is broken")

    def _refusal(self, table: TableName, expected: str | None) -> Refused | None:
        """What a server makes of an expected value before it writes."""
        if expected is not None and self.verdict is Verdict.BROKEN:
            return Refused(False, MetastoreRefused("Cannot update parameter with JDO"))
        if expected is not None and self.verdict in (Verdict.ATOMIC, Verdict.CHECKED):
            return self._compare(table, expected)
        return None

    def _compare(self, table: TableName, expected: str) -> Refused | None:
        if table not in self.rows:
            return Refused(True, NoSuchTable(table))
        found = self.rows[table][METADATA_LOCATION]
        if found == expected:
            return None
        message = f"The table has been modified. The parameter value for key '{METADATA_LOCATION}' is '{found}'"
        return Refused(True, MetastoreRefused(message))

    def _set(self, table: TableName, parameters: Mapping[str, str], expected: str | None, process: str) -> None:
        replaced = self.rows[table][METADATA_LOCATION] if table in self.rows else None
        self.rows[table] = parameters
        self._moved(Moved(table, parameters[METADATA_LOCATION], replaced, expected, process))

    def _moved(self, moved: Moved) -> None:
        if self.on_move is not None:
            self.on_move(moved)
