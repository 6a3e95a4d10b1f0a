"""One metastore server: its answers to a client's Thrift calls, with the errors of Hive's servers.

Several servers share one database (metastore.py), and may have different versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import (
    GetTableResult,
    GetTablesResult,
    InvalidObjectException,
    InvalidOperationException,
    LockResponse,
    MetaException,
    NoSuchObjectException,
    OpenTxnsResponse,
    ShowLocksResponse,
    ShowLocksResponseElement,
)
from thrift.Thrift import TApplicationException, TException

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.thrift_types import LockState, LockType
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION
from simulation.engine.scheduler import Scheduler
from simulation.world.metastore import LockRow, Metastore, SwapSupport, copied

_CONDITION = re.compile(r'hive_filter_field_params__([\w.-]+)\s*(=|like)\s*"([^"]*)"', re.IGNORECASE)
#: The errors of a server without a lock API, and of one whose lock tables are missing.
_LOCK_ERRORS: tuple[Callable[[str], TException], ...] = (
    lambda method: TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{method}'"),
    lambda _: MetaException("Unable to update transaction database: Table/View 'HIVE_LOCKS' does not exist."),
)


class SimulatedServer:
    """A server at one address.

    swap_support: what it makes of expected values. has_locks: whether its lock API works while the database's does.
    says_unsupported: it answers lock calls as unknown methods while its lock API does not work.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        metastore: Metastore,
        uri: str,
        *,
        swap_support: SwapSupport = SwapSupport.ATOMIC,
        has_locks: bool = True,
        says_unsupported: bool = True,
    ) -> None:
        self.uri = uri
        self.swap_support = swap_support
        self.metastore = metastore
        self.has_locks = has_locks
        self._lock_error = _LOCK_ERRORS[not says_unsupported]
        self._scheduler = scheduler

    def answer(self, method: str, arguments: dict[str, Any], process: str) -> Any:
        """Carry out a call of a process. Raises the error that the server answers."""
        handler = getattr(self, f"_{method}", None)
        if handler is None:
            raise TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{method}'")
        return handler(process, **arguments)

    # Databases

    def _get_all_databases(self, _: str) -> list[str]:
        return list(self.metastore.databases)

    def _get_database(self, _: str, name: str) -> Any:
        if name not in self.metastore.databases:
            raise NoSuchObjectException(f"database hive.{name}")
        return copied(self.metastore.databases[name])

    def _alter_database(self, process: str, dbname: str, db: Any) -> None:
        self._get_database(process, dbname)
        self.metastore.databases[dbname] = copied(db)

    # Tables

    def _get_table_req(self, _: str, req: Any) -> Any:
        return GetTableResult(table=self.metastore.get(TableName(req.dbName, req.tblName)))

    def _get_table_objects_by_name_req(self, _: str, req: Any) -> Any:
        names = (TableName(req.dbName, each) for each in req.tblNames)
        return GetTablesResult(tables=[self.metastore.get(name) for name in names if name in self.metastore.rows])

    def _get_all_tables(self, _: str, db_name: str) -> list[str]:
        return [name.name for name in self.metastore.rows if name.namespace == db_name]

    def _get_table_names_by_filter(self, _: str, dbname: str, filter: str, max_tables: int) -> list[str]:
        if dbname not in self.metastore.databases:
            raise NoSuchObjectException(f"database hive.{dbname}")
        rows = [row for name, row in self.metastore.rows.items() if name.namespace == dbname]
        found = [row.tableName for row in rows if _meets(filter, row.parameters)]
        if self.metastore.on_searched is not None:
            self.metastore.on_searched(dbname)
        return found if max_tables < 0 else found[:max_tables]

    def _create_table(self, process: str, tbl: Any) -> None:
        if tbl.dbName not in self.metastore.databases:
            raise InvalidObjectException(tbl.dbName)
        self.metastore.insert(copied(tbl), process=process)

    def _drop_table(self, process: str, dbname: str, name: str, deleteData: bool) -> None:  # noqa: ARG002, N803 - the IDL's
        self.metastore.remove(TableName(dbname, name), process=process)

    def _alter_table_with_environment_context(
        self, process: str, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        name = TableName(dbname, tbl_name)
        rows = self.metastore.rows
        environment = (environment_context.properties if environment_context is not None else None) or {}
        key, expected = environment.get("expected_parameter_key"), environment.get("expected_parameter_value")
        if name not in rows:
            raise InvalidOperationException(f"{name} table not found")
        to = TableName(new_tbl.dbName, new_tbl.tableName)
        if key and expected and self.swap_support is not SwapSupport.IGNORED:
            self._compare(name, new_tbl, key, expected)
            if self.swap_support is SwapSupport.ATOMIC:
                # The statement that writes compares again, after it waited for the rows.
                self.metastore.wait_for_rows(name, to)
                self._compare(name, new_tbl, key, expected)
        if rows[name].tableType != "VIRTUAL_VIEW" and (new_tbl.partitionKeys or []) != (rows[name].partitionKeys or []):
            raise InvalidOperationException("partition keys can not be changed.")
        if to.namespace not in self.metastore.databases:
            raise InvalidOperationException(
                f"Unable to change partition or table. Database {to.namespace} does not exist"
            )
        if to != name and to in rows:
            raise InvalidOperationException(f"new table {to} already exists")
        known = expected if key == METADATA_LOCATION else None
        self.metastore.write(name, copied(new_tbl), expected=known, process=process)

    def _compare(self, name: TableName, new: Any, key: str, expected: str) -> None:
        """HIVE-26882, with HIVE-28121 or without it."""
        if self.swap_support is not SwapSupport.CHECKED and new.parameters.get(key) is None:
            raise MetaException(f"New value for expected key {key} is not set")
        if name not in self.metastore.rows:
            raise InvalidOperationException(f"{name} table not found")
        found = self.metastore.rows[name].parameters.get(key)
        if found != expected:
            if key == METADATA_LOCATION:
                self.metastore.refused.add(new.parameters[METADATA_LOCATION])
            raise modified(key, found)
        if self.swap_support is SwapSupport.BROKEN:
            raise MetaException('Error executing SQL query "update "TABLE_PARAMS" set ...": types do not match')
        if self.swap_support is SwapSupport.CHECKED:
            # Another writer may come between the comparison and the write.
            self._scheduler.step()
            if name not in self.metastore.rows:
                raise InvalidOperationException(f"{name} table not found")

    # Locks

    def _lock(self, process: str, rqst: Any) -> Any:
        self._require_locks("lock")
        (component,) = rqst.component
        table = TableName(component.dbname, component.tablename)
        return self._state_of(self.metastore.enqueue(table, rqst.agentInfo, process))

    def _check_lock(self, _: str, rqst: Any) -> Any:
        self._require_locks("check_lock")
        return self._state_of(rqst.lockid)

    def _state_of(self, lock: int) -> Any:
        acquired = self.metastore.check(lock)
        return LockResponse(lockid=lock, state=LockState.ACQUIRED if acquired else LockState.WAITING)

    def _heartbeat(self, _: str, ids: Any) -> None:
        self._require_locks("heartbeat")
        self.metastore.renew(ids.lockid)

    def _unlock(self, process: str, rqst: Any) -> None:
        self._require_locks("unlock")
        self.metastore.unlock(rqst.lockid, process)

    def _show_locks(self, process: str, rqst: Any) -> Any:
        self._require_locks("show_locks")
        table = None if rqst.tablename is None else TableName(rqst.dbname, rqst.tablename)
        entries = self.metastore.entries(table)
        for entry in entries:
            entry.saw_queue |= entry.process == process
        return ShowLocksResponse(locks=[self._shown(entry) for entry in entries])

    def _shown(self, entry: LockRow) -> Any:
        return ShowLocksResponseElement(
            lockid=entry.id,
            dbname=entry.table.namespace,
            tablename=entry.table.name,
            state=LockState.ACQUIRED if entry.acquired else LockState.WAITING,
            type=LockType.EXCLUSIVE,
            lastheartbeat=self.metastore.heartbeat_ms(entry),
            user="simulated",
            hostname=entry.process,
            agentInfo=entry.agent_info,
        )

    def _require_locks(self, method: str) -> None:
        if not (self.has_locks and self.metastore.lock_api_works):
            raise self._lock_error(method)

    # The rest

    def _get_config_value(self, _: str, name: str, defaultValue: str) -> str:  # noqa: N803 - the IDL's name
        if name != "metastore.txn.timeout":
            return defaultValue
        return f"{self.metastore.lease_seconds:.0f}s"

    def _getVersion(self, _: str) -> str:  # noqa: N802 - the IDL's name
        return "4.1.0"

    def _open_txns(self, _: str, rqst: Any) -> Any:
        return OpenTxnsResponse(txn_ids=list(range(rqst.num_txns)))

    def _abort_txn(self, _: str, rqst: Any) -> None:  # noqa: ARG002 - the IDL's
        return


def modified(key: str, found: str | None) -> TException:
    """The error of a server whose row has another value than the alter expects."""
    return MetaException(f"The table has been modified. The parameter value for key '{key}' is '{found}'")


def _meets(text: str, parameters: dict[str, str]) -> bool:
    """Whether parameters meet a filter: conditions joined by `or` or by `and`."""
    met = [key in parameters and _is_like(parameters[key], how, value) for key, how, value in _CONDITION.findall(text)]
    return all(met) if re.search(r'" and ', text, re.IGNORECASE) else any(met)


def _is_like(found: str, how: str, value: str) -> bool:
    if how == "=":
        return found == value
    # JDO's patterns know only these parts of regular expressions.
    pattern = re.escape(value).replace(r"\.\*", ".*").replace(r"\.", ".")
    return re.fullmatch(pattern, found) is not None
