"""Rows of tables and views in the metastore: read, created, altered, renamed and dropped over Thrift, whatever is in
them.

compare_and_swap/swap.py sends the alters (HIVE-26882). Rows are read by get_table_req alone: Hive 4.0.1 has no
get_table (HIVE-26537).
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache, partial
from typing import Any

from iceberg_hms.clock import Clock
from iceberg_hms.coordinator.ports import Pointer, Refused, Sending, SwapAnswer, TableName
from iceberg_hms.errors import (
    AlreadyExists,
    InvalidInput,
    MetastoreError,
    MetastoreUnavailable,
    NoSuchNamespace,
    NoSuchTable,
    NotFound,
)
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.metastore.compare_and_swap.row_write import LateWrite, ReadRow, fault_of, write_row
from iceberg_hms.metastore.compare_and_swap.swap import SwapSender
from iceberg_hms.metastore.connection.faults import NO_DATABASE, Fault, ServerFault
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
from iceberg_hms.metastore.tables.parameters import (
    METADATA_LOCATION,
    TABLE_OWNER,
    TABLE_TYPE,
    is_iceberg,
    is_iceberg_view,
)

logger = logging.getLogger(__name__)

#: As Java: kept for ever.
_RETENTION = 2**31 - 1


class HmsRows:
    """The rows of one kind. Safe for threads: what it learns of the server never changes.

    kind: "Table" or "View", for messages. missing: the error for a name that has none."""

    def __init__(self, pool: ClientPool, clock: Clock, *, kind: str, missing: Callable[[TableName], NotFound]) -> None:
        self._pool = pool
        self._clock = clock
        self.kind = kind
        self._missing = missing
        #: Whether the metastore's release has wide columns for names and comments; asks it once.
        self.has_wide_columns = cache(partial(pool.run, has_wide_columns, idempotent=True))
        self._has_local_time_zones = cache(partial(pool.run, has_local_time_zones, idempotent=True))
        self.swaps = SwapSender(pool, clock=clock)

    def load(self, name: TableName) -> Any:
        """The row with a name. Raises `missing`; MetastoreUnavailable for an error that may pass, such as an outage of
        the metastore's database."""
        request = GetTableRequest(dbName=name.namespace, tblName=name.name)
        try:
            table = self._pool.ask("get_table_req", req=request).table
        except ServerFault as fault:
            if fault.fault is Fault.NO_SUCH_OBJECT:
                raise self._missing(name) from None
            if not fault.final:
                raise MetastoreUnavailable(f"The metastore could not read {name}: {fault.detail}") from fault
            raise
        if (table.dbName.lower(), table.tableName.lower()) != (name.namespace, name.name):
            # The metastore or its database takes another spelling for this row's, whose lock has the row's own name.
            raise self._missing(name)
        return table

    def new(
        self, name: TableName, table_type: str, parameters: dict[str, str], owner: str | None, **fields: Any
    ) -> Any:
        """A row that is not in the metastore yet, without columns. owner: as `owner_of` has it.
        Raises InvalidInput for a name or owner that the metastore cannot hold."""
        require_lockable(name, self.has_wide_columns)
        require(f"the {self.kind.lower()}'s owner ({TABLE_OWNER})", owner or "", OWNER_MAX)
        seconds = self._clock.now_ms() // 1000
        return Table(
            tableName=name.name,
            dbName=name.namespace,
            owner=owner,
            createTime=seconds,
            lastAccessTime=seconds,
            retention=_RETENTION,
            partitionKeys=[],
            parameters=parameters,
            tableType=table_type,
            **fields,
        )

    def columns(
        self, schema: Schema, current: Any = (), keys: Collection[str] = (), before: Schema | None = None
    ) -> list[Any]:
        """The columns of a row with this schema, as `columns.columns`."""
        is_wide = has_long_comments(schema) and self.has_wide_columns()
        comment_max = HIVE_4_COMMENT_MAX if is_wide else COMMENT_MAX
        zones = has_instants(schema.as_struct()) and self._has_local_time_zones()
        return columns(
            schema, local_time_zones=zones, current=current, keys=keys, before=before, comment_max=comment_max
        )

    def with_columns(self, table: Any, cols: list[Any], location: str, *, hive_engine: bool = False) -> Any:
        """The row with these columns and this location. Raises InvalidInput for a location that is too long."""
        require(f"the {self.kind.lower()}'s location", location, LOCATION_MAX)
        table = copy.copy(table)
        table.sd = storage_descriptor(table.sd, cols, location, hive_engine=hive_engine)
        return table

    def create(self, name: TableName, table: Any) -> SwapAnswer:
        """As `TablePointer.create`."""
        answer = self._pool.run_with_location(
            lambda client: write_row(client, self._clock, "create_table", LateWrite.HARMLESS, Sending(), tbl=table)
        )
        if not isinstance(answer, Refused):
            return answer
        match fault_of(answer):
            case Fault.ALREADY_EXISTS:
                return Refused(True, AlreadyExists(f"{self.kind} already exists: {name}"))
            case Fault.NO_SUCH_OBJECT | Fault.NO_SUCH_DATABASE | Fault.INVALID:
                # Hive 2.3 calls a missing database an invalid object, and says no more than its name.
                if self._is_no_namespace(name.namespace):
                    return Refused(False, NoSuchNamespace(name.namespace))
                return Refused(False, InvalidInput(f"The metastore does not take {name}: {_detail_of(answer)}"))
        return answer

    def alter(self, base: Pointer, table: Any, sending: Sending) -> SwapAnswer:
        """Write `table` over the row that was read as `base`, expecting its metadata location."""
        return self._gone(self.swaps.alter(base, table, sending), base.name)

    def replace(self, base: ReadRow, table: Any, sending: Sending) -> SwapAnswer:
        """Write `table` over any row, expecting what `base` says."""
        return self._gone(self.swaps.replace(base, table, sending), base.name)

    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        """As `TablePointer.rename`. Raises InvalidInput as `new`."""
        require_lockable(to, self.has_wide_columns)
        table = copy.copy(base.table)
        table.dbName, table.tableName = to.namespace, to.name
        answer = self.alter(base, table, sending)
        match fault_of(answer):
            case Fault.ALREADY_EXISTS:
                return Refused(True, AlreadyExists(f"{self.kind} already exists: {to}"))
            case Fault.NO_SUCH_DATABASE:
                return Refused(False, NoSuchNamespace(to.namespace))
            case Fault.INVALID:
                return Refused(False, InvalidInput(f"The metastore does not take {to}: {_detail_of(answer)}"))
            case Fault.OTHER if self._is_no_namespace(to.namespace):
                # Hive 4.1 names the database that is not there, and does not say what about it.
                return Refused(False, NoSuchNamespace(to.namespace))
        return answer

    def drop(self, name: TableName, sending: Sending) -> SwapAnswer:
        """As `TablePointer.drop`."""
        arguments = {"dbname": name.namespace, "name": name.name, "deleteData": False}
        # Carried out late it removes what has the name by then, on any server.
        late = LateWrite.OVERWRITES
        answer = self._pool.run(
            lambda client: write_row(client, self._clock, "drop_table", late, sending, **arguments),
            idempotent=False,
            overdue=sending.overdue,
        )
        return self._gone(answer, name)

    def check_namespace(self, namespace: str) -> None:
        """Raises NoSuchNamespace."""
        try:
            self._pool.ask("get_database", name=namespace)
        except ServerFault as fault:
            if fault.fault in NO_DATABASE:
                raise NoSuchNamespace(namespace) from None
            raise

    def _is_no_namespace(self, namespace: str) -> bool:
        """Whether it is known that there is no such database. Raises nothing: a request has been sent already."""
        try:
            self.check_namespace(namespace)
        except NoSuchNamespace:
            return True
        except MetastoreError as error:
            logger.info("Whether the database %s exists is unknown: %s", namespace, error.message)
        return False

    def _gone(self, answer: SwapAnswer, name: TableName) -> SwapAnswer:
        """A row that is gone is a conflict: another writer dropped or renamed it."""
        if isinstance(answer, Refused) and isinstance(answer.error, NoSuchTable):
            return replace(answer, error=self._missing(name))
        return Refused(True, self._missing(name)) if fault_of(answer) is Fault.NO_SUCH_OBJECT else answer


def _detail_of(answer: SwapAnswer) -> str:
    return answer.error.detail if isinstance(answer, Refused) and isinstance(answer.error, ServerFault) else ""


def kind_of(table: Any) -> str:
    """What a row is, for messages."""
    parameters = table.parameters or {}
    said = parameters.get(TABLE_TYPE)
    if not said:
        return str(table.tableType)
    is_ours = is_iceberg(parameters) or is_iceberg_view(table.tableType, parameters)
    if is_ours and not parameters.get(METADATA_LOCATION):
        return f"{table.tableType} that says {TABLE_TYPE}={said} without {METADATA_LOCATION}"
    return f"{table.tableType}, {TABLE_TYPE}={said}"
