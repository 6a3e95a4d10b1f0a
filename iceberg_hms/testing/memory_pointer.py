"""The TablePointer port in memory, which can answer as misleadingly as a real metastore."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from iceberg_hms.coordinator.hive_ports import HiveColumn
from iceberg_hms.coordinator.ports import (
    Pointer,
    Refused,
    Sending,
    SwapAnswer,
    Swapped,
    TableFolder,
    TableName,
    Unanswered,
    UuidMatches,
)
from iceberg_hms.errors import (
    AlreadyExists,
    CompareAndSwapUnproven,
    MetastoreError,
    MetastoreRefused,
    MetastoreUnavailable,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
    NotFound,
)
from iceberg_hms.format.locations import parse
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.tables.parameters import (
    METADATA_LOCATION,
    PREVIOUS_METADATA_LOCATION,
    UUID,
    is_iceberg,
    is_iceberg_view,
    owner_of,
    parameters_for,
)
from iceberg_hms.testing.memory_metastore import MemoryMetastore

_MAX_PARAMETER_SIZE = 32_672
#: Changes whose expected value is never right again.
_COMPARED = frozenset({"swap", "become_iceberg", "become_hive", "clear_mark"})


class ScriptedAnswer(Enum):
    """What the fake does with a call that changes a row (swap, create, rename, drop), and how it answers."""

    #: Apply the change if possible, and answer truly.
    TRUE = auto()
    #: Do not apply it; answer so, for a reason that is no conflict.
    REFUSED = auto()
    #: Apply it, and answer that the table had moved: the metastore retried its own committed change.
    REFUSED_AFTER_APPLY = auto()
    #: Apply it, and lose the reply.
    REPLY_LOST = auto()
    #: Lose the request.
    REQUEST_LOST = auto()
    #: Do not reply; apply it when the test calls `deliver_delayed`, if possible then.
    DELAYED = auto()
    #: As DELAYED, with a reply: an error of the metastore's database, whose transaction is in doubt.
    IN_DOUBT = auto()


@dataclass(frozen=True)
class MemoryRow:
    """A table's or view's row in the fake: its parameters, its owner and its folder; what it is, and a view's SQL; and
    what a Hive table has. folders: of its partitions."""

    parameters: Mapping[str, str]
    owner: str | None = None
    location: str | None = None
    table_type: str = "EXTERNAL_TABLE"
    sql: str | None = None
    columns: tuple[HiveColumn, ...] = ()
    partition_keys: tuple[HiveColumn, ...] = ()
    input_format: str | None = None
    serde: str | None = None
    folders: tuple[str, ...] = ()


class MemoryTablePointer:
    """coordinator.ports.TablePointer.

    answers: how the fake answers the next changes, one each; TRUE when it is empty.
    before_moves: functions to call before the next changes, one each, such as another writer's swap.
    load_errors: the next loads raise them, one each.
    look_ups: functions to call before the next searches for a UUID, one each.
    unlucky: names of tables that a search with known locations overlooks in every other turn.
    atomic: whether the server is proven to compare and swap atomically; Unanswered carries it. If not, the fake
    makes no swap that must be atomic; the other swaps still compare.
    writes: the answer of `accepts_writes`. folders: of namespaces whose properties do not say them.
    metastore: has the rows, and the namespaces as dictionaries of their properties.
    user: owns new rows without another owner. calls: (method, table name), in order.
    """

    def __init__(self, namespaces: Iterable[str] = ("db",)) -> None:
        self.metastore = MemoryMetastore[MemoryRow]()
        self.metastore.databases.update({name: {} for name in namespaces})
        self.folders: dict[str, list[str]] = {}
        self.answers: deque[ScriptedAnswer] = deque()
        self.before_moves: deque[Callable[[], None]] = deque()
        self.load_errors: deque[MetastoreError] = deque()
        self.look_ups: deque[Callable[[], None]] = deque()
        self.unlucky: frozenset[str] = frozenset()
        self.atomic = True
        self.writes: bool | None = True
        self.user = ""
        self.calls: list[tuple[str, TableName]] = []
        self._delayed: list[Callable[[], SwapAnswer]] = []
        self._mutex = threading.RLock()

    @property
    def rows(self) -> dict[TableName, MemoryRow]:
        """Those of the metastore."""
        return self.metastore.rows

    def load(self, name: TableName) -> Pointer:
        """As the port says."""
        return pointer_of(name, self.read(name))

    def read(self, name: TableName) -> MemoryRow:
        """One load of a row, with the next of `load_errors`. Raises NoSuchTable."""
        with self._mutex:
            self.calls.append(("load", name))
            if self.load_errors:
                raise self.load_errors.popleft()
            return self.metastore.get(name)

    def databases(self) -> list[str]:
        """As the port says."""
        with self._mutex:
            self.calls.append(("databases", TableName("", "")))
            return sorted(self.metastore.databases)

    def database_folders(self, *, timeout_seconds: float) -> dict[str, list[str]]:  # noqa: ARG002 - the port's
        """As the port says."""
        with self._mutex:
            self.calls.append(("database_folders", TableName("", "")))
            said = {name: database.get("location") for name, database in sorted(self.metastore.databases.items())}
            return {name: self.folders.get(name, [location] if location else []) for name, location in said.items()}

    def folders_in(self, namespace: str, *, timeout_seconds: float) -> list[TableFolder]:  # noqa: ARG002 - the port's
        """As the port says."""
        with self._mutex:
            self.calls.append(("folders_in", TableName(namespace, "")))
            rows = self.metastore.rows_in(namespace)
        there = ((name, row) for name, row in rows.items() if row.location)
        return [TableFolder(name, row.location or "", bool(row.partition_keys)) for name, row in there]

    def partition_folders(self, name: TableName, *, timeout_seconds: float) -> Iterator[str]:
        """As the port says."""
        with self._mutex:
            self.calls.append(("partition_folders", name))
            row = self.metastore.rows_in(name.namespace).get(name)
        if row is None:
            return
        if timeout_seconds <= 0:
            raise MetastoreUnavailable("There was no time to read all partitions", next_step="")
        yield from row.folders

    def find_by_uuid(self, namespace: str, uuid: str, *, timeout_seconds: float) -> UuidMatches:  # noqa: ARG002 - the port's
        """As the port says."""
        with self._mutex:
            self.calls.append(("find_by_uuid", TableName(namespace, "")))
            if self.look_ups:
                self.look_ups.popleft()()
            rows = self.metastore.rows_in(namespace)
            found = [pointer_of(name, row) for name, row in rows.items() if _is_table(row)]
        said = [each for each in found if each.parameters.get(UUID, "").lower() == uuid.lower()]
        return UuidMatches(said, [each for each in found if UUID not in each.parameters])

    def find_by_folder(self, namespace: str, folder: str, *, timeout_seconds: float) -> list[Pointer]:  # noqa: ARG002 - the port's
        """As the port says, and no others."""
        *above, last = parse(folder).path.strip("/").split("/")
        parts = (f"/{last}/", *(f"/{each}/metadata/" for each in above))
        with self._mutex:
            self.calls.append(("find_by_folder", TableName(namespace, "")))
            rows = self.metastore.rows_in(namespace).items()
        found = [pointer_of(name, row, allow_view=True) for name, row in rows if _is_table(row) or _is_view(row)]
        return [each for each in found if any(part in each.metadata_location for part in parts)]

    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: TableMetadata,
        replaced: TableMetadata,
        sending: Sending,
        *,
        owns_folder: bool = False,
    ) -> SwapAnswer:
        """As the port says."""
        parameters = parameters_for(
            base.parameters,
            location,
            metadata,
            replaced=replaced,
            max_size=_MAX_PARAMETER_SIZE,
            owns_folder=owns_folder,
        )
        row = replace(base.table, parameters=parameters, location=metadata.location)
        return self.alter("swap", base, base.name, row, sending)

    def accepts_writes(self, name: TableName) -> bool | None:
        """As the port says: returns `writes`."""
        self.calls.append(("accepts_writes", name))
        return self.writes

    def create(
        self, name: TableName, location: str, metadata: TableMetadata, owner: str | None, *, owns_folder: bool = False
    ) -> SwapAnswer:
        """As the port says."""
        parameters = parameters_for(
            {}, location, metadata, replaced=None, max_size=_MAX_PARAMETER_SIZE, owns_folder=owns_folder
        )
        row = MemoryRow(parameters, owner_of(metadata.properties, owner, self.user), metadata.location)
        return self.change("create", name, lambda: self.metastore.insert(name, row))

    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        """As the port says."""
        return self.alter("rename", base, to, base.table, sending)

    def drop(self, base: Pointer, sending: Sending) -> SwapAnswer:  # noqa: ARG002 - the port's
        """As the port says."""
        return self.change("drop", base.name, lambda: self.metastore.remove(base.name))

    def list_tables(self, namespace: str) -> list[str]:
        """Names of the Iceberg tables of a namespace, sorted. Raises NoSuchNamespace."""
        self.metastore.database(namespace)
        rows = self.metastore.rows_in(namespace)
        return sorted(name.name for name, row in rows.items() if is_iceberg(row.parameters))

    def list_tables_after(self, namespace: str, after: str | None, limit: int) -> tuple[list[str], bool]:
        """The first `limit` of these names after `after`, and whether there are more. Raises NoSuchNamespace."""
        names = [name for name in self.list_tables(namespace) if after is None or name > after]
        return names[:limit], len(names) > limit

    def locations_in(
        self,
        namespace: str,
        names: Collection[str] | None = None,
        *,
        known: Mapping[str, str] | None = None,
        turn: int = 0,
    ) -> dict[str, str]:
        """The metadata locations of the Iceberg tables of a namespace, or of those among them with these names. Raises
        the next of `load_errors`. One of `unlucky` that is known and moved has its known location once more."""
        with self._mutex:
            self.calls.append(("locations", TableName(namespace, "")))
            if self.load_errors:
                raise self.load_errors.popleft()
            rows = self.metastore.rows_in(namespace)
        found = {
            name.name: row.parameters[METADATA_LOCATION]
            for name, row in rows.items()
            if _is_table(row) and (names is None or name.name in names)
        }
        overlooked = self.unlucky if turn % 2 else frozenset[str]()
        return {
            name: (known or {}).get(name, location) if name in overlooked else location
            for name, location in found.items()
        }

    def add_hive_table(self, name: TableName, location: str | None = None) -> None:
        """Add a row of a table that is not Iceberg's."""
        with self._mutex:
            self.rows[name] = MemoryRow({"transient_lastDdlTime": "1"}, location=location, table_type="MANAGED_TABLE")

    def point(self, name: TableName, location: str) -> None:
        """Swap as another writer without any check: the row now has this metadata location."""
        with self._mutex:
            row = self.rows[name]
            moved = {METADATA_LOCATION: location, PREVIOUS_METADATA_LOCATION: row.parameters[METADATA_LOCATION]}
            self.rows[name] = replace(row, parameters={**row.parameters, **moved})

    def deliver_delayed(self) -> list[SwapAnswer]:
        """Apply the delayed changes; returns the answers, which no client receives."""
        with self._mutex:
            delayed, self._delayed = self._delayed, []
            return [move() for move in delayed]

    def alter(
        self,
        method: str,
        base: Pointer,
        to: TableName,
        row: MemoryRow,
        sending: Sending,
        missing: Callable[[TableName], NotFound] = NoSuchTable,
    ) -> SwapAnswer:
        """Write a row over the one that was read as `base`. missing: the error for one that is gone. Raises
        CompareAndSwapUnproven."""
        expected = METADATA_LOCATION, base.metadata_location
        return self.replace(method, base.name, expected, to, row, sending, missing)

    def replace(
        self,
        method: str,
        name: TableName,
        expected: tuple[str, str],
        to: TableName,
        row: MemoryRow,
        sending: Sending,
        missing: Callable[[TableName], NotFound] = NoSuchTable,
    ) -> SwapAnswer:
        """Write a row over the one with a name, if that has a parameter (its key and value). Raises
        CompareAndSwapUnproven."""
        if sending.require_cas and not self.atomic:
            raise CompareAndSwapUnproven("The metastore is not proven to compare and swap atomically")

        def write() -> None:
            self.metastore.compare(name, *expected)
            self.metastore.alter(name, to, row)

        return self.change(method, name, write, missing)

    def change(
        self,
        method: str,
        name: TableName,
        change: Callable[[], None],
        missing: Callable[[TableName], NotFound] = NoSuchTable,
    ) -> SwapAnswer:
        """Change the metastore, and answer as the script says."""

        def move() -> SwapAnswer:
            try:
                change()
            except NoSuchTable:
                return Refused(True, missing(name))
            except NoSuchNamespace as error:
                return Refused(False, error)
            except (AlreadyExists, MetastoreRefused) as error:
                return Refused(True, error)
            return Swapped()

        return self.move(method, name, move, self.atomic and method in _COMPARED)

    def move(self, method: str, name: TableName, move: Callable[[], SwapAnswer], atomic: bool = False) -> SwapAnswer:
        """Make one change of a row, and answer as the script says."""
        with self._mutex:
            self.calls.append((method, name))
            if self.before_moves:
                self.before_moves.popleft()()
            match self.answers.popleft() if self.answers else ScriptedAnswer.TRUE:
                case ScriptedAnswer.TRUE:
                    return move()
                case ScriptedAnswer.REFUSED:
                    return Refused(False, MetastoreRefused("The metastore refused it"))
                case ScriptedAnswer.REFUSED_AFTER_APPLY:
                    move()
                    return Refused(True, MetastoreRefused("The table has been modified"))
                case ScriptedAnswer.REPLY_LOST:
                    move()
                case ScriptedAnswer.DELAYED:
                    self._delayed.append(move)
                case ScriptedAnswer.IN_DOUBT:
                    self._delayed.append(move)
                    return Refused(False, MetastoreRefused("The database did not answer"), in_doubt=True)
                case ScriptedAnswer.REQUEST_LOST:
                    pass
            return Unanswered(MetastoreUnavailable("The metastore did not answer"), atomic)


def _is_table(row: MemoryRow) -> bool:
    return is_iceberg(row.parameters) and METADATA_LOCATION in row.parameters


def _is_view(row: MemoryRow) -> bool:
    return is_iceberg_view(row.table_type, row.parameters) and METADATA_LOCATION in row.parameters


def pointer_of(name: TableName, row: MemoryRow, *, allow_view: bool = False) -> Pointer:
    """The row of an Iceberg table, or of a view if that is allowed. Raises NotAnIcebergTable."""
    is_view = is_iceberg_view(row.table_type, row.parameters)
    if not (_is_table(row) or (allow_view and _is_view(row))):
        raise NotAnIcebergTable(name, row.table_type, is_view=is_view)
    location = row.parameters[METADATA_LOCATION]
    previous = row.parameters.get(PREVIOUS_METADATA_LOCATION)
    return Pointer(name, location, previous, row.parameters, row, row.location, is_view)
