"""Rows of Iceberg tables in the metastore: the TablePointer port over Thrift (`rows.py` sends the calls)."""

from __future__ import annotations

import copy
import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableFolder, TableName, UuidMatches
from iceberg_hms.errors import MetastoreUnavailable, NoSuchTable, NotAnIcebergTable
from iceberg_hms.format.locations import parse
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.compare_and_swap.row_write import fault_of
from iceberg_hms.metastore.connection.faults import COLUMNS_REFUSED, Fault, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.parameters import (
    EXTERNAL_TABLE,
    METADATA_LOCATION,
    PREVIOUS_METADATA_LOCATION,
    UUID,
    hive_engine_enabled,
    is_iceberg,
    is_iceberg_view,
    owner_of,
    parameters_for,
)
from iceberg_hms.metastore.tables.partitions import PartitionRows
from iceberg_hms.metastore.tables.pointer_locations import PointerLocations
from iceberg_hms.metastore.tables.rows import HmsRows, kind_of
from iceberg_hms.metastore.tables.table_names import NamePages, TableNames

logger = logging.getLogger(__name__)

#: How many tables' refused columns are remembered, so that a swap is not refused twice for the same columns.
_REFUSED_COLUMNS_MAX = 1_000


class HmsTablePointer:
    """coordinator.ports.TablePointer on a metastore; also lists tables."""

    def __init__(self, pool: ClientPool, settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max_parameter_size = settings.table_property_max_size
        self._user = settings.user
        self._list_all = settings.list_all_tables
        self._rows = HmsRows(pool, clock, kind="Table", missing=NoSuchTable)
        self._clock = clock
        self._names = TableNames(pool, clock=clock)
        self._partitions = PartitionRows(pool)
        self._locations = PointerLocations(self._names, clock)
        self._pages = NamePages(self._names, list_all=self._list_all, clock=clock)
        self._mutex = threading.Lock()
        self._refused_columns: OrderedDict[TableName, list[Any]] = OrderedDict()

    def load(self, name: TableName) -> Pointer:
        return pointer_of(name, self._rows.load(name))

    def databases(self) -> Sequence[str]:
        return self._names.databases()

    def database_folders(self, *, timeout_seconds: float) -> Mapping[str, Sequence[str]]:
        return self._names.database_folders(seconds=timeout_seconds)

    def folders_in(self, namespace: str, *, timeout_seconds: float) -> Sequence[TableFolder]:
        rows = self._names.rows_of(namespace, seconds=timeout_seconds)
        there = (row for row in rows if row.sd is not None and row.sd.location)
        return [
            TableFolder(TableName(namespace, row.tableName), row.sd.location, bool(row.partitionKeys)) for row in there
        ]

    def partition_folders(self, name: TableName, *, timeout_seconds: float) -> Iterator[str]:
        deadline = self._clock.monotonic() + timeout_seconds

        def look_at_the_clock() -> None:
            if self._clock.monotonic() > deadline:
                raise MetastoreUnavailable(f"{name} has too many partitions to read them in time", next_step="")

        try:
            names = self._partitions.names(name)
            for partition in self._partitions.records(name, names, look_at_the_clock):
                if partition.sd is not None and partition.sd.location:
                    yield partition.sd.location
        except ServerFault:
            # For a table that is gone, 2.3.10 reports an internal error.
            if self._is_there(name):
                raise

    def _is_there(self, name: TableName) -> bool:
        try:
            self._rows.load(name)
        except NoSuchTable:
            return False
        return True

    def find_by_uuid(self, namespace: str, uuid: str, *, timeout_seconds: float) -> UuidMatches:
        rows = self._names.with_uuid(namespace, uuid, seconds=timeout_seconds)
        there = [row for row in rows if row.parameters.get(METADATA_LOCATION)]
        found = [pointer_of(TableName(namespace, row.tableName), row) for row in there]
        silent = [each for each in found if UUID not in each.parameters]
        return UuidMatches([each for each in found if UUID in each.parameters], silent)

    def find_by_folder(self, namespace: str, folder: str, *, timeout_seconds: float) -> Sequence[Pointer]:
        rows = self._names.near_folder(namespace, parse(folder).path, seconds=timeout_seconds)
        there = (row for row in rows if row.parameters.get(METADATA_LOCATION))
        return [pointer_of(TableName(namespace, row.tableName), row, allow_view=True) for row in there]

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
        """As the port says. If the server forbids the new columns (`COLUMNS_REFUSED`:
        hive.metastore.disallow.incompatible.col.type.changes, hive.metastore.limit.partition.request) the swap is sent
        again with the columns that the row has: the server had refused before it changed anything. A row that can
        become a Hive table's again has the columns of that until a commit changes the schema."""
        table = copy.copy(base.table)
        table.parameters = parameters_for(
            base.parameters,
            location,
            metadata,
            replaced=replaced,
            max_size=self._max_parameter_size,
            owns_folder=owns_folder,
        )
        old_columns = base.table.sd.cols if base.table.sd is not None else []
        cols, before = old_columns, None if base.hive_table is None else replaced.schema
        if metadata.schema != before:
            keys = {each.name.lower() for each in base.table.partitionKeys or ()}
            cols = self._rows.columns(metadata.schema, old_columns, keys, before)
        if self._were_refused(base.name, cols):
            cols = old_columns
        answer = self._rows.alter(base, self._with_columns(table, cols, metadata), sending)
        if cols == old_columns or fault_of(answer) not in COLUMNS_REFUSED:
            return answer
        is_limit = fault_of(answer) is Fault.TOO_MANY_PARTITIONS
        logger.warning(
            "The metastore refuses the columns of %s because hive.metastore.%s is set; its row keeps the old ones. "
            "Iceberg readers are not affected",
            base.name,
            "limit.partition.request" if is_limit else "disallow.incompatible.col.type.changes",
        )
        self._remember_refused(base.name, cols)
        return self._rows.alter(base, self._with_columns(table, old_columns, metadata), sending)

    def accepts_writes(self, name: TableName) -> bool | None:
        return self._rows.swaps.accepts_writes(name.namespace)

    def create(
        self, name: TableName, location: str, metadata: TableMetadata, owner: str | None, *, owns_folder: bool = False
    ) -> SwapAnswer:
        """As the port says. Raises InvalidInput, before anything is sent, for a name, owner or location that the
        metastore cannot hold."""
        parameters = parameters_for(
            {}, location, metadata, replaced=None, max_size=self._max_parameter_size, owns_folder=owns_folder
        )
        owner = owner_of(metadata.properties, owner, self._user)
        table = self._rows.new(name, EXTERNAL_TABLE, parameters, owner)
        return self._rows.create(name, self._with_columns(table, self._rows.columns(metadata.schema), metadata))

    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        """As the port says. Raises InvalidInput as `create`."""
        return self._rows.rename(base, to, sending)

    def drop(self, base: Pointer, sending: Sending) -> SwapAnswer:
        return self._rows.drop(base.name, sending)

    def list_tables(self, namespace: str) -> Sequence[str]:
        """Names of the Iceberg tables of a database, sorted; of all tables and views with `list-all-tables`.
        Raises NoSuchNamespace."""
        names = self._names.all_in(namespace) if self._list_all else self._names.iceberg_in(namespace)
        if not names:
            # The metastore answers an empty list for a database that is not there.
            self._rows.check_namespace(namespace)
        return sorted(names)

    def list_tables_after(self, namespace: str, after: str | None, limit: int) -> tuple[Sequence[str], bool]:
        """The first `limit` names of `list_tables` after `after`, and whether there may be more. A page after the first
        may come from a list that is 30 s old. Raises NoSuchNamespace."""
        names, more = self._pages.page(namespace, after, limit)
        if not names:
            self._rows.check_namespace(namespace)
        return names, more

    def locations_in(
        self,
        namespace: str,
        names: Collection[str] | None = None,
        *,
        known: Mapping[str, str] | None = None,
        turn: int = 0,
    ) -> Mapping[str, str]:
        """As `catalog.services.TableLister` says; `pointer_locations.py` says how."""
        return self._locations.read(namespace, names, known or {}, turn)

    def _with_columns(self, table: Any, cols: list[Any], metadata: TableMetadata) -> Any:
        engine = hive_engine_enabled(metadata)
        return self._rows.with_columns(table, cols, metadata.location, hive_engine=engine)

    def _were_refused(self, name: TableName, cols: list[Any]) -> bool:
        with self._mutex:
            return self._refused_columns.get(name) == cols

    def _remember_refused(self, name: TableName, cols: list[Any]) -> None:
        with self._mutex:
            self._refused_columns[name] = cols
            self._refused_columns.move_to_end(name)
            while len(self._refused_columns) > _REFUSED_COLUMNS_MAX:
                self._refused_columns.popitem(last=False)


def pointer_of(name: TableName, table: Any, *, allow_view: bool = False) -> Pointer:
    """The row of an Iceberg table, or of a view if that is allowed. Raises NotAnIcebergTable."""
    parameters: Mapping[str, str] = table.parameters or {}
    location = parameters.get(METADATA_LOCATION)
    is_view = is_iceberg_view(table.tableType, parameters)
    if not location or not (is_iceberg(parameters) or (is_view and allow_view)):
        raise NotAnIcebergTable(name, kind_of(table), is_view=is_view)
    folder = None if table.sd is None else table.sd.location
    previous = parameters.get(PREVIOUS_METADATA_LOCATION)
    return Pointer(name, location, previous, parameters, table, folder or None, is_view)
