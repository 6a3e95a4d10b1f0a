"""A metastore in memory that speaks real Thrift on a real socket, and misbehaves on demand.

It is the other end of the wire for the drivers' tests: the metastore's model behind a socket, with Hive's answers.
Before a call, `misbehave[method]` may hold one of the ways below; each is used once, in order.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import InvalidOperationException, MetaException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException, TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import Database, messages
from iceberg_hms.testing.memory_metastore import LockQueues, MemoryMetastore
from simulation.world.metastore_handler import MetastoreHandler


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


class FakeHms(MetastoreHandler):
    """swap_support_of: what single databases make of expected values, as behind a proxy that sends them to metastores
    of their own. disallow_column_changes: Hive's stock setting. now_ms: the clock of its database. calls: names of all
    methods called, in order. before: by method, what happens before each of its calls.
    rows, databases, locks: of its metastore."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        metastore = MemoryMetastore[Any](LockQueues(lambda: self.now_ms / 1000))
        super().__init__(metastore, version="3.0")
        self.config = {"hive.txn.timeout": "300s"}
        self.rows, self.databases, self.locks = metastore.rows, metastore.databases, metastore.locks.rows
        self.partitions: dict[TableName, dict[str, Any]] = {}
        self.swap_support_of: dict[str, str] = {}
        self.disallow_column_changes = False
        self.columns_are_checked_first = False
        self.filter_works = True
        self.calls: list[str] = []
        self.rows_sent: list[int] = []
        self.misbehave: defaultdict[str, deque[Any]] = defaultdict(deque)
        self.before: dict[str, Callable[[], Any]] = {}
        self.mutex = threading.RLock()
        self.add_database("db")

    def add_database(self, name: str) -> None:
        self.databases[name] = Database(name=name, locationUri=f"file:/w/{name}.db", parameters={})

    def support_of(self, database: str) -> str:
        return self.swap_support_of.get(database, self.swap_support)

    def get_table_objects_by_name_req(self, req: Any) -> Any:
        answer = super().get_table_objects_by_name_req(req)
        self.rows_sent.append(len(answer.tables))
        return answer

    def get_table_names_by_filter(self, dbname: str, filter: str, max_tables: int) -> list[str]:
        if not self.filter_works:
            raise MetaException("Comparisons between 'CLOB' and 'CLOB' are not supported")
        return super().get_table_names_by_filter(dbname, filter, max_tables)

    def get_partition_names(self, db_name: str, tbl_name: str, max_parts: int) -> list[str]:
        assert max_parts == -1
        return list(self.partitions.get(TableName(db_name, tbl_name), {}))

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: list[str]) -> list[Any]:
        partitions = self.partitions[TableName(db_name, tbl_name)]
        return [partitions[name] for name in names]

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        row = self.rows.get(TableName(dbname, tbl_name))
        if self.columns_are_checked_first and row is not None:
            self.check_columns(row, new_tbl)
        super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, environment_context)
        if (partitions := self.partitions.pop(TableName(dbname, tbl_name), None)) is not None:
            self.partitions[TableName(new_tbl.dbName, new_tbl.tableName)] = partitions

    def check_columns(self, row: Any, new: Any) -> None:
        kept = [(column.name, column.type) for column in row.sd.cols]
        wanted = [(column.name, column.type) for column in new.sd.cols]
        if self.disallow_column_changes and any(old[1] != new[1] for old, new in zip(kept, wanted, strict=False)):
            raise InvalidOperationException(
                "The following columns have types incompatible with the existing columns in their respective positions"
            )

    def get_index_names(self, db_name: str, tbl_name: str, max_indexes: int) -> list[str]:
        return []

    def set_ugi(self, user_name: str, group_names: list[str]) -> list[str]:
        return [*group_names, user_name]


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
