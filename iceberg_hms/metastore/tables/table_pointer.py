"""Rows of Iceberg tables in the metastore: the TablePointer port over Thrift.

compare_and_swap/swap.py sends the swaps (HIVE-26882). Tables are read by get_table_req alone: Hive 4.0.1 has no
get_table (HIVE-26537).
"""

from __future__ import annotations

import copy
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, Refused, SwapAnswer, Swapped, TableName, Unanswered, UuidMatches
from iceberg_hms.coordinator.protocol.lease_check import require_fresh_locks
from iceberg_hms.errors import (
    AlreadyExists,
    InvalidInput,
    MetastoreError,
    MetastoreUnavailable,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
)
from iceberg_hms.format.locations import parse
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.compare_and_swap.swap import SwapSender
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NO_DATABASE, Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.storable import (
    COMMENT_MAX,
    HIVE_4_COMMENT_MAX,
    LOCATION_MAX,
    OWNER_MAX,
    require,
    require_lockable,
)
from iceberg_hms.metastore.connection.thrift_types import GetTableRequest, Table
from iceberg_hms.metastore.connection.versions import has_local_time_zones, has_wide_columns
from iceberg_hms.metastore.tables.columns import columns, has_instants, has_long_comments, storage_descriptor
from iceberg_hms.metastore.tables.name_pages import NamePages
from iceberg_hms.metastore.tables.parameters import (
    METADATA_LOCATION,
    PREVIOUS_METADATA_LOCATION,
    TABLE_OWNER,
    TABLE_TYPE,
    UUID,
    hive_engine_enabled,
    is_iceberg,
    parameters_for,
)
from iceberg_hms.metastore.tables.table_names import TableNames

logger = logging.getLogger(__name__)

_EXTERNAL_TABLE = "EXTERNAL_TABLE"
#: As Java: kept for ever.
_RETENTION = 2**31 - 1
#: How many tables' refused columns are remembered, so that a swap is not refused twice for the same columns.
_REFUSED_COLUMNS_MAX = 1_000


class HmsTablePointer:
    """coordinator.ports.TablePointer on a metastore; also lists tables."""

    def __init__(self, pool: ClientPool, settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pool = pool
        self._max_parameter_size = settings.table_property_max_size
        self._list_all = settings.list_all_tables
        self._clock = clock
        self._swaps = SwapSender(pool, clock=clock)
        self._local_time_zones: bool | None = None
        self._wide_columns: bool | None = None
        self._names = TableNames(pool, clock=clock)
        self._pages = NamePages(self._names, list_all=self._list_all, clock=clock)
        self._mutex = threading.Lock()
        self._refused_columns: OrderedDict[TableName, list[Any]] = OrderedDict()

    def load(self, name: TableName) -> Pointer:
        """As the port says."""
        request = GetTableRequest(dbName=name.namespace, tblName=name.name)
        try:
            table = self._pool.run(lambda client: client.call("get_table_req", req=request), idempotent=True).table
        except ServerFault as fault:
            if fault.fault is Fault.NO_SUCH_OBJECT:
                raise NoSuchTable(name) from None
            raise
        if (table.dbName.lower(), table.tableName.lower()) != (name.namespace, name.name):
            # The metastore or its database takes another spelling for this row's, whose lock has the row's own name.
            raise NoSuchTable(name)
        return _pointer(name, table)

    def databases(self) -> Sequence[str]:
        """As the port says."""
        return self._names.databases()

    def find_by_uuid(self, namespace: str, uuid: str, *, timeout_seconds: float) -> UuidMatches:
        """As the port says."""
        rows = self._names.with_uuid(namespace, uuid, seconds=timeout_seconds)
        there = [row for row in rows if row.parameters.get(METADATA_LOCATION)]
        found = [_pointer(TableName(namespace, row.tableName), row) for row in there]
        silent = [each for each in found if UUID not in each.parameters]
        return UuidMatches([each for each in found if UUID in each.parameters], silent)

    def find_by_folder(self, namespace: str, folder: str, *, timeout_seconds: float) -> Sequence[Pointer]:
        """As the port says."""
        rows = self._names.near_folder(namespace, parse(folder).path, seconds=timeout_seconds)
        there = (row for row in rows if row.parameters.get(METADATA_LOCATION))
        return [_pointer(TableName(namespace, row.tableName), row) for row in there]

    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: TableMetadata,
        replaced: TableMetadata,
        *,
        require_cas: bool = False,
    ) -> SwapAnswer:
        """As the port says. If the server forbids the new columns
        (hive.metastore.disallow.incompatible.col.type.changes) the swap is sent again with the columns that the row
        has: the server had refused before it changed anything."""
        table = copy.copy(base.table)
        table.parameters = parameters_for(
            base.parameters, location, metadata, replaced=replaced, max_size=self._max_parameter_size
        )
        old_columns = base.table.sd.cols if base.table.sd is not None else []
        cols = self._columns(metadata, old_columns)
        if self._were_refused(base.name, cols):
            cols = old_columns
        answer = self._alter(base, self._with_columns(table, cols, metadata), require_cas)
        if cols == old_columns or not _refused_columns(answer):
            return answer
        logger.warning(
            "The metastore refuses the columns of %s because hive.metastore.disallow.incompatible.col.type.changes is "
            "set; its row keeps the old ones. Iceberg readers are not affected",
            base.name,
        )
        self._remember_refused(base.name, cols)
        return self._alter(base, self._with_columns(table, old_columns, metadata), require_cas)

    def accepts_writes(self, name: TableName) -> bool | None:
        """As the port says."""
        return self._swaps.accepts_writes(name.namespace)

    def create(self, name: TableName, location: str, metadata: TableMetadata, owner: str | None) -> SwapAnswer:
        """As the port says. owner: the row's owner unless the table has `hive.metastore.table.owner`.

        Raises InvalidInput, before anything is sent, for a name, owner or location that the metastore cannot hold."""
        require_lockable(name, self._has_wide_columns)
        owner = metadata.properties.get(TABLE_OWNER) or owner
        require(f"the table's owner ({TABLE_OWNER})", owner or "", OWNER_MAX)
        seconds = self._clock.now_ms() // 1000
        table = Table(
            tableName=name.name,
            dbName=name.namespace,
            owner=owner,
            createTime=seconds,
            lastAccessTime=seconds,
            retention=_RETENTION,
            partitionKeys=[],
            parameters=parameters_for({}, location, metadata, replaced=None, max_size=self._max_parameter_size),
            tableType=_EXTERNAL_TABLE,
        )
        table = self._with_columns(table, self._columns(metadata), metadata)
        answer = self._send("create_table", tbl=table)
        if not isinstance(answer, Refused):
            return answer
        match _fault_of(answer):
            case Fault.ALREADY_EXISTS:
                return Refused(True, AlreadyExists(f"Table already exists: {name}"))
            case Fault.NO_SUCH_OBJECT | Fault.NO_SUCH_DATABASE | Fault.INVALID:
                # Hive 2.3 calls a missing database an invalid object, and says no more than its name.
                if self._is_no_namespace(name.namespace):
                    return Refused(False, NoSuchNamespace(name.namespace))
                return Refused(False, InvalidInput(f"The metastore does not take {name}: {_detail_of(answer)}"))
        return answer

    def rename(self, base: Pointer, to: TableName, *, require_cas: bool = False) -> SwapAnswer:
        """As the port says. Raises InvalidInput as `create`."""
        require_lockable(to, self._has_wide_columns)
        table = copy.copy(base.table)
        table.dbName, table.tableName = to.namespace, to.name
        answer = self._alter(base, table, require_cas)
        match _fault_of(answer):
            case Fault.ALREADY_EXISTS:
                return Refused(True, AlreadyExists(f"Table already exists: {to}"))
            case Fault.NO_SUCH_DATABASE:
                return Refused(False, NoSuchNamespace(to.namespace))
            case Fault.INVALID:
                return Refused(False, InvalidInput(f"The metastore does not take {to}: {_detail_of(answer)}"))
            case Fault.OTHER if self._is_no_namespace(to.namespace):
                # Hive 4.1 names the database that is not there, and does not say what about it.
                return Refused(False, NoSuchNamespace(to.namespace))
        return answer

    def drop(self, base: Pointer) -> SwapAnswer:
        """As the port says."""
        name = base.name
        arguments = {"dbname": name.namespace, "name": name.name, "deleteData": False}
        # A drop that is carried out late removes the table that has the name by then, on any server.
        return _gone(self._send("drop_table", patiently=True, **arguments), name)

    def list_tables(self, namespace: str) -> Sequence[str]:
        """Names of the Iceberg tables of a database, sorted; of all tables and views with `list-all-tables`.
        Raises NoSuchNamespace."""
        names = self._names.all_in(namespace) if self._list_all else self._names.iceberg_in(namespace)
        if not names:
            # The metastore answers an empty list for a database that is not there.
            self._check_namespace(namespace)
        return sorted(names)

    def list_tables_after(self, namespace: str, after: str | None, limit: int) -> tuple[Sequence[str], bool]:
        """The first `limit` names of `list_tables` after `after`, and whether there may be more. A page after the first
        may come from a list that is 30 s old. Raises NoSuchNamespace."""
        names, more = self._pages.page(namespace, after, limit)
        if not names:
            self._check_namespace(namespace)
        return names, more

    def _check_namespace(self, namespace: str) -> None:
        try:
            self._ask("get_database", name=namespace)
        except ServerFault as fault:
            if fault.fault in NO_DATABASE:
                raise NoSuchNamespace(namespace) from None
            raise

    def _is_no_namespace(self, namespace: str) -> bool:
        """Whether it is known that there is no such database. Raises nothing: a request has been sent already."""
        try:
            self._check_namespace(namespace)
        except NoSuchNamespace:
            return True
        except MetastoreError as error:
            logger.info("Whether the database %s exists is unknown: %s", namespace, error.message)
        return False

    def _ask(self, method: str, **arguments: Any) -> Any:
        return self._pool.run(lambda client: client.call(method, **arguments), idempotent=True)

    def _send(self, method: str, *, patiently: bool = False, **arguments: Any) -> SwapAnswer:
        """A call that changes a row, once. patiently: only the lock protects the table; raises LockLost then."""

        def send(client: MetastoreClient) -> SwapAnswer:
            call = client.call
            if patiently:
                require_fresh_locks()
                call = client.call_patiently
            sent = self._clock.monotonic()
            try:
                call(method, **arguments)
            except ServerFault as fault:
                return Refused(fault.fault is Fault.TABLE_MODIFIED, fault, in_doubt=not fault.final)
            except NoAnswer as error:
                if error.is_over and patiently:
                    return Refused(False, MetastoreUnavailable(error.message), in_doubt=True)
                waited = self._clock.monotonic() - sent
                return Unanswered(MetastoreUnavailable(error.message), waited_seconds=waited)
            return Swapped()

        if method == "create_table":
            return self._pool.run_with_location(send)
        return self._pool.run(send, idempotent=False)

    def _alter(self, base: Pointer, table: Any, require_cas: bool = False) -> SwapAnswer:
        return _gone(self._swaps.alter(base, table, require_cas=require_cas), base.name)

    def _columns(self, metadata: TableMetadata, current: Sequence[Any] = ()) -> list[Any]:
        schema = metadata.schema
        is_wide = has_long_comments(schema) and self._has_wide_columns()
        comment_max = HIVE_4_COMMENT_MAX if is_wide else COMMENT_MAX
        zones = has_instants(schema.as_struct()) and self._has_local_time_zones()
        return columns(schema, local_time_zones=zones, current=current, comment_max=comment_max)

    def _has_local_time_zones(self) -> bool:
        if self._local_time_zones is None:
            self._local_time_zones = self._pool.run(has_local_time_zones, idempotent=True)
        return self._local_time_zones

    def _has_wide_columns(self) -> bool:
        if self._wide_columns is None:
            self._wide_columns = self._pool.run(has_wide_columns, idempotent=True)
        return self._wide_columns

    def _with_columns(self, table: Any, cols: list[Any], metadata: TableMetadata) -> Any:
        require("the table's location", metadata.location, LOCATION_MAX)
        table = copy.copy(table)
        engine = hive_engine_enabled(metadata)
        table.sd = storage_descriptor(table.sd, cols, metadata.location, hive_engine=engine)
        return table

    def _were_refused(self, name: TableName, cols: list[Any]) -> bool:
        with self._mutex:
            return self._refused_columns.get(name) == cols

    def _remember_refused(self, name: TableName, cols: list[Any]) -> None:
        with self._mutex:
            self._refused_columns[name] = cols
            self._refused_columns.move_to_end(name)
            while len(self._refused_columns) > _REFUSED_COLUMNS_MAX:
                self._refused_columns.popitem(last=False)


def _pointer(name: TableName, table: Any) -> Pointer:
    """The row of an Iceberg table. Raises NotAnIcebergTable."""
    parameters: Mapping[str, str] = table.parameters or {}
    location = parameters.get(METADATA_LOCATION)
    if not is_iceberg(parameters) or not location:
        raise NotAnIcebergTable(name, _kind_of(table, parameters))
    folder = None if table.sd is None else table.sd.location
    return Pointer(name, location, parameters.get(PREVIOUS_METADATA_LOCATION), parameters, table, folder or None)


def _fault_of(answer: SwapAnswer) -> Fault | None:
    if isinstance(answer, Refused) and isinstance(answer.error, ServerFault):
        return answer.error.fault
    return None


def _detail_of(answer: SwapAnswer) -> str:
    if isinstance(answer, Refused) and isinstance(answer.error, ServerFault):
        return answer.error.detail
    return ""


def _refused_columns(answer: SwapAnswer) -> bool:
    return _fault_of(answer) is Fault.INCOMPATIBLE_COLUMNS


def _gone(answer: SwapAnswer, name: TableName) -> SwapAnswer:
    """A row that is gone is a conflict: another writer dropped or renamed it."""
    return Refused(True, NoSuchTable(name)) if _fault_of(answer) is Fault.NO_SUCH_OBJECT else answer


def _kind_of(table: Any, parameters: Mapping[str, str]) -> str:
    if is_iceberg(parameters):
        return f"{table.tableType} that says {TABLE_TYPE}=ICEBERG without {METADATA_LOCATION}"
    other = parameters.get(TABLE_TYPE)
    return f"{table.tableType}, {TABLE_TYPE}={other}" if other else str(table.tableType)
