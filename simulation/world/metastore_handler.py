"""What a metastore's server answers to Thrift calls, with the errors of Hive's servers, over a metastore in memory."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes
from hmsclient.genthrift.hive_metastore.ttypes import (
    AlreadyExistsException,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
)
from thrift.Thrift import TException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    IcebergHmsError,
    LockLost,
    MetastoreRefused,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
)
from iceberg_hms.metastore.connection.thrift_types import LockState, extended
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION, VIRTUAL_VIEW
from iceberg_hms.testing.memory_metastore import LockRow, MemoryMetastore

_CONDITION = re.compile(r'hive_filter_field_params__([\w.-]+) like "([^"]*)"')

_GetTableResult = extended(ttypes.GetTableResult)
_GetTablesResult = extended(ttypes.GetTablesResult)
_LockResponse = extended(ttypes.LockResponse)
_ShowLocksResponse = extended(ttypes.ShowLocksResponse)
_ShowLocksResponseElement = extended(ttypes.ShowLocksResponseElement)
_OpenTxnsResponse = extended(ttypes.OpenTxnsResponse)


class SwapSupport(StrEnum):
    """What a server makes of the expected value of an alter.

    ATOMIC: compares and swaps atomically (HIVE-26882 with HIVE-28121). CHECKED: compares, then swaps. IGNORED: does not
    know the key (3.1.3). BROKEN: fails every alter that carries the right value (4.0.1 on Derby).
    """

    ATOMIC = "atomic"
    CHECKED = "checked"
    IGNORED = "ignored"
    BROKEN = "broken"


class MetastoreHandler:
    """A method for each call, with the names of the IDL. They raise what the server answers.

    swap_support: what it makes of expected values. caller: the process whose calls these are. version: its release.
    config: its settings.
    """

    def __init__(
        self, metastore: MemoryMetastore[Any], *, swap_support: str = SwapSupport.ATOMIC, version: str = "4.1.0"
    ) -> None:
        self.metastore = metastore
        self.swap_support = swap_support
        self.version = version
        self.config: dict[str, str] = {}
        self.caller = ""

    # Databases

    def get_all_databases(self) -> list[str]:
        return list(self.metastore.databases)

    def get_database(self, name: str) -> Any:
        with _answered({NoSuchNamespace: NoSuchObjectException(f"database hive.{name}")}):
            return copied(self.metastore.database(name))

    def create_database(self, database: Any) -> None:
        name = database.name
        if not name.replace("_", "").isalnum():
            raise InvalidObjectException(f"{name} is not a valid database name")
        with _answered({AlreadyExists: AlreadyExistsException(f"Database {name} already exists")}):
            self.metastore.create_database(name, database)

    def alter_database(self, dbname: str, db: Any) -> None:
        self.get_database(dbname)
        self.metastore.databases[dbname] = copied(db)

    def drop_database(self, name: str, **_: Any) -> None:
        not_empty = InvalidOperationException(f"Database {name} is not empty. One or more tables exist.")
        missing = MetaException("java.lang.NullPointerException")
        with _answered({NoSuchNamespace: missing, NamespaceNotEmpty: not_empty}):
            self.metastore.drop_database(name)

    # Tables

    def get_table_req(self, req: Any) -> Any:
        name = TableName(req.dbName, req.tblName)
        with _answered({NoSuchTable: NoSuchObjectException(f"{name} table not found")}):
            return _GetTableResult(table=copied(self.metastore.get(name)))

    def get_table_objects_by_name_req(self, req: Any) -> Any:
        names = (TableName(req.dbName, each) for each in req.tblNames)
        rows = self.metastore.rows
        return _GetTablesResult(tables=[copied(rows[name]) for name in names if name in rows])

    def get_all_tables(self, db_name: str) -> list[str]:
        return [name.name for name in self.metastore.rows_in(db_name)]

    def get_table_names_by_filter(self, dbname: str, filter: str, max_tables: int) -> list[str]:
        self.get_database(dbname)
        rows = self.metastore.rows_in(dbname)
        found = [name.name for name, row in rows.items() if _meets(filter, row.parameters or {})]
        return found if max_tables < 0 else found[:max_tables]

    def get_partition_names(self, db_name: str, tbl_name: str, max_parts: int) -> list[str]:  # noqa: ARG002 - the IDL's
        name = TableName(db_name, tbl_name)
        with _answered({NoSuchTable: NoSuchObjectException(f"{name} table not found")}):
            self.metastore.get(name)
        # No table here has partitions.
        return []

    def create_table(self, tbl: Any) -> None:
        name = TableName(tbl.dbName, tbl.tableName)
        if " " in name.name:
            raise InvalidObjectException(f"{name.name} is not a valid object name")
        taken = AlreadyExistsException(f"Table {name} already exists")
        with _answered({NoSuchNamespace: InvalidObjectException(name.namespace), AlreadyExists: taken}):
            self.metastore.insert(name, copied(tbl), process=self.caller)

    def drop_table(self, dbname: str, name: str, **_: Any) -> None:
        table = TableName(dbname, name)
        with _answered({NoSuchTable: NoSuchObjectException(f"{table} table not found")}):
            self.metastore.remove(table, process=self.caller)

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        name, to = TableName(dbname, tbl_name), TableName(new_tbl.dbName, new_tbl.tableName)
        environment = (environment_context.properties if environment_context is not None else None) or {}
        key, expected = environment.get("expected_parameter_key"), environment.get("expected_parameter_value")
        missing = InvalidOperationException(f"{name} table not found")
        nowhere = f"Unable to change partition or table. Database {to.namespace} does not exist"
        taken = InvalidOperationException(f"new table {to} already exists")
        with _answered(
            {NoSuchTable: missing, NoSuchNamespace: InvalidOperationException(nowhere), AlreadyExists: taken}
        ):
            self.metastore.get(name)
            if key and expected and self.support_of(dbname) != SwapSupport.IGNORED:
                self.compare(name, new_tbl, key, expected)
            row = self.metastore.get(name)
            self.check_columns(row, new_tbl)
            if row.tableType != VIRTUAL_VIEW and (new_tbl.partitionKeys or []) != (row.partitionKeys or []):
                raise InvalidOperationException("partition keys can not be changed.")
            known = expected if key == METADATA_LOCATION else None
            self.metastore.alter(name, to, copied(new_tbl), expected=known, process=self.caller)

    def support_of(self, _database: str) -> str:
        """What it makes of expected values in a database."""
        return self.swap_support

    def compare(self, name: TableName, new: Any, key: str, expected: str) -> None:
        """HIVE-26882, with HIVE-28121 or without it. new: the row that is to be written. Raises NoSuchTable."""
        support = self.support_of(name.namespace)
        if support != SwapSupport.CHECKED and new.parameters.get(key) is None:
            raise MetaException(f"New value for expected key {key} is not set")
        try:
            self.metastore.compare(name, key, expected)
        except MetastoreRefused as error:
            raise MetaException(error.message) from None
        if support == SwapSupport.BROKEN:
            raise MetaException('Error executing SQL query "update "TABLE_PARAMS" set ...", 42818')

    def check_columns(self, row: Any, new: Any) -> None:
        """Refuse the columns of a row, where a server does."""

    # Locks

    def lock(self, rqst: Any) -> Any:
        (component,) = rqst.component
        row = self.metastore.locks.enqueue(
            TableName(component.dbname, component.tablename),
            rqst.agentInfo,
            self.caller,
            user=rqst.user,
            host=rqst.hostname,
            kind=component.type,
        )
        return self._state_of(row.id)

    def check_lock(self, rqst: Any) -> Any:
        return self._state_of(rqst.lockid)

    def heartbeat(self, ids: Any) -> None:
        with _answered({LockLost: NoSuchLockException(f"No such lock: lockid:{ids.lockid}")}):
            self.metastore.locks.renew(ids.lockid)

    def unlock(self, rqst: Any) -> None:
        self.metastore.locks.remove(rqst.lockid)

    def show_locks(self, rqst: Any) -> Any:
        table = None if rqst.tablename is None else TableName(rqst.dbname, rqst.tablename)
        return _ShowLocksResponse(locks=[self.shown(row) for row in self.metastore.locks.entries(table)])

    def shown(self, row: LockRow) -> Any:
        """An entry as `show_locks` answers it."""
        return _ShowLocksResponseElement(
            lockid=row.id,
            dbname=row.table.namespace,
            tablename=row.table.name,
            state=LockState.ACQUIRED if row.acquired else LockState.WAITING,
            type=row.kind,
            txnid=row.txn,
            lastheartbeat=self.heartbeat_ms(row),
            user=row.user,
            hostname=row.host,
            agentInfo=row.agent_info,
        )

    def heartbeat_ms(self, row: LockRow) -> int:
        """When an entry was last renewed, by the database's clock."""
        return round(row.seen * 1000)

    def _state_of(self, lock: int) -> Any:
        with _answered({LockLost: NoSuchLockException(f"No such lock: lockid:{lock}")}):
            acquired = self.metastore.locks.check(lock)
        return _LockResponse(lockid=lock, state=LockState.ACQUIRED if acquired else LockState.WAITING)

    # The rest

    def get_config_value(self, name: str, defaultValue: str) -> str:  # noqa: N803 - the IDL's name
        return self.config.get(name, defaultValue)

    def getVersion(self) -> str:  # noqa: N802 - the IDL's name
        return self.version

    def open_txns(self, rqst: Any) -> Any:
        return _OpenTxnsResponse(txn_ids=list(range(rqst.num_txns)))

    def abort_txn(self, rqst: Any) -> None:
        """Nothing to abort: no row belongs to a transaction."""


def copied(row: Any) -> Any:
    """A copy of a row or a database, with parameters of its own."""
    own = copy.copy(row)
    own.parameters = dict(row.parameters or {})
    return own


@contextmanager
def _answered(errors: Mapping[type[IcebergHmsError], TException]) -> Iterator[None]:
    """Say what the metastore refuses in Thrift's words. errors: for each kind of refusal, what the server answers."""
    try:
        yield
    except tuple(errors) as error:
        raise errors[type(error)] from None


def _meets(text: str, parameters: dict[str, str]) -> bool:
    """Whether parameters meet a filter: one of its conditions, joined by `or`."""
    conditions = [_CONDITION.fullmatch(each) for each in text.split(" or ")]
    if None in conditions:
        raise MetaException(f"Error parsing partition filter; lexer error: {text}")
    return any(_is_like(parameters.get(each[1]), each[2]) for each in conditions if each)


def _is_like(found: str | None, value: str) -> bool:
    # JDO's patterns know only these parts of regular expressions.
    pattern = re.escape(value).replace(r"\.\*", ".*").replace(r"\.", ".")
    return found is not None and re.fullmatch(pattern, found) is not None
