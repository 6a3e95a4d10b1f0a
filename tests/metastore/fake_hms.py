"""A metastore in memory that speaks real Thrift on a real socket, and misbehaves on demand.

It is the other end of the wire for the drivers' tests: rows, databases and a fair lock table, with Hive 2.3's answers.
Before a call, `misbehave[method]` may hold one of the ways below; each is used once, in order.
"""

from __future__ import annotations

import copy
import itertools
import re
import socket
import socketserver
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import (
    AlreadyExistsException,
    CheckLockRequest,
    Database,
    GetTableResult,
    GetTablesResult,
    InvalidObjectException,
    InvalidOperationException,
    LockResponse,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
    OpenTxnsResponse,
    ShowLocksResponse,
    ShowLocksResponseElement,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException, TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import extended, messages

ACQUIRED, WAITING = 1, 2

_LIKE = re.compile(r'hive_filter_field_params__(?P<key>\w+) like "(?P<value>[^"]*)"')


class DropBefore(Exception):
    """Hang up without doing the call."""


class DropAfter(Exception):
    """Do the call and hang up without a reply."""


class Garble(Exception):
    """Do the call and reply with bytes that are no Thrift."""


class WrongReply(Exception):
    """Reply to another call."""


class StaleReply(Exception):
    """Reply to an earlier call of the same method."""


class Answer(Exception):
    """Leave the call undone and reply with these bytes for its result, as a server with another IDL may."""

    def __init__(self, result: bytes, kind: int = TMessageType.REPLY) -> None:
        super().__init__(result)
        self.result = result
        self.kind = kind


class StoreClosed(TException):  # type: ignore[misc]  # Thrift has no types
    """Leave this call undone, and all that follow on this connection: its handler lost its store (seen on 4.1.0)."""


#: What such a handler answers, as Java words it.
STORE_CLOSED = "MetaException(message:javax.jdo.JDOFatalUserException: Persistence Manager has been closed)"
#: It needs no store for these.
_STORELESS = frozenset({"set_ugi", "get_config_value", "getVersion"})


class Silence(Exception):
    """Do the call and never reply, until the server stops."""


class Late(Exception):
    """Do the call, and reply, when `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()


class FakeHms:
    """compare_and_swap: "atomic", "checked", "ignored" or "broken"; compare_and_swap_of: the same of single databases,
    as behind a proxy that sends them to metastores of their own. disallow_column_changes: Hive's stock setting.
    now_ms: the clock of its database. calls: names of all methods called, in order.
    before: by method, what happens before each of its calls."""

    def __init__(self) -> None:
        self.databases: dict[str, Any] = {}
        self.tables: dict[tuple[str, str], Any] = {}
        self.partitions: dict[tuple[str, str], dict[str, Any]] = {}
        self.locks: dict[int, Any] = {}
        self.config = {"hive.txn.timeout": "300s"}
        self.compare_and_swap = "atomic"
        self.compare_and_swap_of: dict[str, str] = {}
        self.disallow_column_changes = False
        self.columns_are_checked_first = False
        self.filter_works = True
        self.version = "3.0"
        self.now_ms = 1_700_000_000_000
        self.calls: list[str] = []
        self.rows_sent: list[int] = []
        self.misbehave: defaultdict[str, deque[Any]] = defaultdict(deque)
        self.before: dict[str, Callable[[], Any]] = {}
        self.mutex = threading.RLock()
        self._ids = itertools.count(1)
        self.add_database("db")

    def add_database(self, name: str) -> None:
        database = extended(Database)
        self.databases[name] = database(name=name, locationUri=f"file:/w/{name}.db", parameters={})

    # Databases

    def get_all_databases(self) -> list[str]:
        return list(self.databases)

    def get_database(self, name: str) -> Any:
        if name not in self.databases:
            raise NoSuchObjectException(name)
        return self.databases[name]

    def create_database(self, database: Any) -> None:
        if database.name in self.databases:
            raise AlreadyExistsException(f"Database {database.name} already exists")
        if not database.name.replace("_", "").isalnum():
            raise InvalidObjectException(f"{database.name} is not a valid database name")
        self.databases[database.name] = database

    def alter_database(self, dbname: str, db: Any) -> None:
        self.get_database(dbname)
        self.databases[dbname] = db

    def drop_database(self, name: str, **_: Any) -> None:
        if name not in self.databases:
            raise MetaException("java.lang.NullPointerException")
        if any(key[0] == name for key in self.tables):
            raise InvalidOperationException(f"Database {name} is not empty. One or more tables exist.")
        del self.databases[name]

    # Tables

    def get_table_req(self, req: Any) -> Any:
        return extended(GetTableResult)(table=copy.deepcopy(self._row(req.dbName, req.tblName)))

    def get_table_objects_by_name_req(self, req: Any) -> Any:
        rows = [row for key, row in self.tables.items() if key[0] == req.dbName and key[1] in req.tblNames]
        self.rows_sent.append(len(rows))
        return extended(GetTablesResult)(tables=copy.deepcopy(rows))

    def get_all_tables(self, db_name: str) -> list[str]:
        return [key[1] for key in self.tables if key[0] == db_name]

    def get_table_names_by_filter(self, dbname: str, filter: str, max_tables: int) -> list[str]:
        """Knows `parameter like "expression"`, and `or` between them."""
        if not self.filter_works:
            raise MetaException("Comparisons between 'CLOB' and 'CLOB' are not supported")
        assert max_tables == -1
        asked = [_LIKE.fullmatch(each) for each in filter.split(" or ")]
        assert all(asked), filter
        wanted = [(each["key"], re.compile(each["value"])) for each in asked if each]
        return [
            name
            for (namespace, name), row in self.tables.items()
            if namespace == dbname
            and any(value.fullmatch((row.parameters or {}).get(key, "\n")) for key, value in wanted)
        ]

    def get_partition_names(self, db_name: str, tbl_name: str, max_parts: int) -> list[str]:
        assert max_parts == -1
        return list(self.partitions.get((db_name, tbl_name), {}))

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: list[str]) -> list[Any]:
        partitions = self.partitions[db_name, tbl_name]
        return [partitions[name] for name in names]

    def create_table(self, tbl: Any) -> None:
        if " " in tbl.tableName:
            raise InvalidObjectException(f"{tbl.tableName} is not a valid object name")
        if tbl.dbName not in self.databases:
            raise InvalidObjectException(tbl.dbName)
        if (tbl.dbName, tbl.tableName) in self.tables:
            raise AlreadyExistsException(f"Table {tbl.tableName} already exists")
        self.tables[tbl.dbName, tbl.tableName] = tbl

    def drop_table(self, dbname: str, name: str, **_: Any) -> None:
        self._row(dbname, name)
        del self.tables[dbname, name]

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        if (dbname, tbl_name) not in self.tables:
            raise InvalidOperationException(f"{dbname}.{tbl_name} table not found")
        row = self._row(dbname, tbl_name)
        environment = (environment_context.properties if environment_context else None) or {}
        if self.columns_are_checked_first:
            self._check_columns(row, new_tbl)
        self._compare(row, new_tbl, environment, self.compare_and_swap_of.get(dbname, self.compare_and_swap))
        self._check_columns(row, new_tbl)
        if row.tableType != "VIRTUAL_VIEW" and len(row.partitionKeys or []) != len(new_tbl.partitionKeys or []):
            raise InvalidOperationException("partition keys can not be changed.")
        to = (new_tbl.dbName, new_tbl.tableName)
        if to[0] not in self.databases:
            raise InvalidOperationException(f"Unable to change partition or table. Database {to[0]} does not exist")
        if to != (dbname, tbl_name) and to in self.tables:
            raise InvalidOperationException(f"new table {to[0]}.{to[1]} already exists")
        del self.tables[dbname, tbl_name]
        self.tables[to] = new_tbl

    def _check_columns(self, row: Any, new: Any) -> None:
        kept = [(column.name, column.type) for column in row.sd.cols]
        wanted = [(column.name, column.type) for column in new.sd.cols]
        if self.disallow_column_changes and any(old[1] != new[1] for old, new in zip(kept, wanted, strict=False)):
            raise InvalidOperationException(
                "The following columns have types incompatible with the existing columns in their respective positions"
            )

    def _compare(self, row: Any, new: Any, environment: dict[str, str], behaviour: str) -> None:
        key, expected = environment.get("expected_parameter_key"), environment.get("expected_parameter_value")
        if behaviour == "ignored" or not key or not expected:
            return
        if behaviour in ("atomic", "broken") and new.parameters.get(key) is None:
            raise MetaException(f"New value for expected key {key} is not set")
        found = row.parameters.get(key)
        if found != expected:
            raise MetaException(f"The table has been modified. The parameter value for key '{key}' is '{found}'.")
        if behaviour == "broken":
            raise MetaException('Error executing SQL query "update "TABLE_PARAMS" set ...", 42818')

    def _row(self, database: str, table: str) -> Any:
        if (database, table) not in self.tables:
            raise NoSuchObjectException(f"{database}.{table} table not found")
        return self.tables[database, table]

    # Locks

    def lock(self, rqst: Any) -> Any:
        (component,) = rqst.component
        number = next(self._ids)
        self.locks[number] = ShowLocksResponseElement(
            lockid=number,
            dbname=component.dbname,
            tablename=component.tablename,
            state=WAITING,
            type=component.type,
            lastheartbeat=self.now_ms,
            user=rqst.user,
            hostname=rqst.hostname,
            agentInfo=rqst.agentInfo,
        )
        return self.check_lock(CheckLockRequest(lockid=number))

    def check_lock(self, rqst: Any) -> Any:
        lock = self._lock(rqst.lockid)
        lock.lastheartbeat = self.now_ms
        ahead = [
            other
            for other in self.locks.values()
            if (other.dbname, other.tablename) == (lock.dbname, lock.tablename) and other.lockid < lock.lockid
        ]
        if not ahead:
            lock.state = ACQUIRED
        return extended(LockResponse)(lockid=lock.lockid, state=lock.state)

    def heartbeat(self, ids: Any) -> None:
        self._lock(ids.lockid).lastheartbeat = self.now_ms

    def unlock(self, rqst: Any) -> None:
        self.locks.pop(rqst.lockid, None)

    def show_locks(self, rqst: Any) -> Any:
        wanted = (rqst.dbname, rqst.tablename)
        found = [lock for lock in self.locks.values() if wanted in ((None, None), (lock.dbname, lock.tablename))]
        element = extended(ShowLocksResponseElement)
        return extended(ShowLocksResponse)(locks=[element(**lock.__dict__) for lock in found])

    def _lock(self, number: int) -> Any:
        if number not in self.locks:
            raise NoSuchLockException(f"No such lock: lockid:{number}")
        return self.locks[number]

    # The rest

    def getVersion(self) -> str:  # noqa: N802 - the IDL's name
        return self.version

    def get_index_names(self, db_name: str, tbl_name: str, max_indexes: int) -> list[str]:
        return []

    def set_ugi(self, user_name: str, group_names: list[str]) -> list[str]:
        return [*group_names, user_name]

    def get_config_value(self, name: str, defaultValue: str) -> str:  # noqa: N803 - the IDL's name
        return self.config.get(name, defaultValue)

    def open_txns(self, rqst: Any) -> Any:
        return extended(OpenTxnsResponse)(txn_ids=list(range(rqst.num_txns)))

    def abort_txn(self, rqst: Any) -> None:
        return None


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        self.server.connections.append(self.request)
        self.store_is_closed = False
        wire = TSocket()
        wire.setHandle(self.request)
        transport = TBufferedTransport(wire)
        protocol = TBinaryProtocol(transport)
        try:
            while True:
                self._call(protocol, transport)
        except (DropBefore, DropAfter, TException, OSError, EOFError):
            return

    def _call(self, protocol: Any, transport: Any) -> None:
        method, _, sequence = protocol.readMessageBegin()
        arguments_type, result_type = messages(method)
        arguments = arguments_type()
        arguments.read(protocol)
        protocol.readMessageEnd()
        hms = self.server.hms
        with hms.mutex:
            hms.calls.append(method)
            if method in hms.before:
                hms.before[method]()
            bad = hms.misbehave[method].popleft() if hms.misbehave[method] else None
        if isinstance(bad, Late):
            bad.go.wait(60)
        with hms.mutex:
            if isinstance(bad, DropBefore):
                raise bad
            if isinstance(bad, Answer):
                protocol.writeMessageBegin(method, bad.kind, sequence)
                transport.write(bad.result)
                transport.flush()
                return
            self.store_is_closed |= isinstance(bad, StoreClosed) or self.request in self.server.without_store
            if self.store_is_closed and method not in _STORELESS:
                bad = MetaException(STORE_CLOSED)
            result = _result_of(hms, method, arguments, result_type(), bad)
        if isinstance(bad, DropAfter):
            raise bad
        if isinstance(bad, Silence):
            self.server.stopped.wait(60)
            raise DropAfter
        if isinstance(bad, Garble):
            self.request.sendall(struct.pack("!i", 2**30) + b"HTTP/1.1 400 Bad Request\r\n\r\n")
            raise DropAfter
        name = "another" if isinstance(bad, WrongReply) else method
        kind = TMessageType.EXCEPTION if isinstance(result, TApplicationException) else TMessageType.REPLY
        protocol.writeMessageBegin(name, kind, sequence - isinstance(bad, StaleReply))
        result.write(protocol)
        protocol.writeMessageEnd()
        transport.flush()


def _result_of(hms: FakeHms, method: str, arguments: Any, result: Any, bad: Any) -> Any:
    if isinstance(bad, TApplicationException):
        return bad
    handler: Callable[..., Any] | None = getattr(hms, method, None)
    if handler is None:
        return TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{method}'")
    try:
        if isinstance(bad, TException):
            raise bad
        value = handler(**arguments.__dict__)
    except TException as error:
        for field in result.thrift_spec:
            if field is not None and field[3] and isinstance(field[3], list) and isinstance(error, field[3][0]):
                setattr(result, field[2], error)
                return result
        return TApplicationException(TApplicationException.INTERNAL_ERROR, f"Internal error processing {method}")
    if value is not None:
        result.success = value
    return result


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, hms: FakeHms) -> None:
        self.hms = hms
        self.connections: list[socket.socket] = []
        self.without_store: set[socket.socket] = set()
        self.stopped = threading.Event()
        super().__init__(("127.0.0.1", 0), _Connection)


class Running:
    """A fake that listens. uri: where. hang_up: close all its connections, as a restart does. close_stores: those of
    the handlers that serve its connections now."""

    def __init__(self, hms: FakeHms) -> None:
        self.hms = hms
        self._server = _Server(hms)
        self.uri = f"thrift://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def hang_up(self) -> None:
        for connection in self._server.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._server.connections.clear()

    def close_stores(self) -> None:
        with self.hms.mutex:
            self._server.without_store.update(self._server.connections)

    def stop(self) -> None:
        if self._server.stopped.is_set():
            return
        self._server.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self.hang_up()
        self._thread.join()


@contextmanager
def running(hms: FakeHms | None = None) -> Iterator[Running]:
    server = Running(hms or FakeHms())
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def pool_of(*servers: Running, size: int = 4, timeout_ms: int = 5_000) -> Iterator[ClientPool]:
    pool = ClientPool(
        [server.uri for server in servers], size=size, connect_timeout_ms=timeout_ms, socket_timeout_ms=timeout_ms
    )
    try:
        yield pool
    finally:
        pool.close()
