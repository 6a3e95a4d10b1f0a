"""A real Hive Metastore 2.3.10 on an embedded Derby database, on loopback, in one folder.

It is the server that ships inside pyspark, with its own lock API and compare-and-swap (HIVE-26882, HIVE-28121). The
reaper of expired locks is not started, as on most production servers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import EngineError
from iceberg_hms.local.gateway import JavaGateway, describe_java_error, prepare_directory

logger = logging.getLogger(__name__)

_MIN_WORKER_THREADS = 8
#: Hive's own default of hive.metastore.server.max.threads.
_MAX_WORKER_THREADS = 1000

_CONF = {
    # The schema is made on first use: no SQL scripts are in the wheel.
    "hive.metastore.schema.verification": "false",
    "datanucleus.schema.autoCreateAll": "true",
    # Two defaults whose libraries are not in the wheel.
    "hive.async.log.enabled": "false",
    "datanucleus.connectionPoolingType": "HikariCP",
    # Iceberg moves, drops and renames columns, which the stock setting (true) refuses.
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
}


class LocalMetastore:
    """A Hive Metastore that lives as long as this object, and at most as long as this process.

        with LocalMetastore("/data/hms") as metastore:
            iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse)

    directory: where its database, logs and (by default) its warehouse are; made if missing, and kept: a later start on
        the same folder finds the same tables. Only one server at a time may use it.
    port: 0 picks a free one. It listens on 127.0.0.1.
    warehouse: location of the default database's tables; by default `file:<directory>/warehouse`.
    transaction_tables: False leaves out HIVE_LOCKS and its kin, so that the lock API is broken, as on a server whose
        schema was not initialised for transactions.
    conf: Hive configuration, which wins over ours.

    Raises EngineError (no Java, no pyspark, port taken, Derby in use), InvalidInput (an unusable path).
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        port: int = 0,
        warehouse: str | None = None,
        transaction_tables: bool = True,
        conf: Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._directory = prepare_directory(directory)
        self._transaction_tables = transaction_tables
        self._conf = dict(conf or {})
        self._clock = clock
        self._requested_port = port
        self._gateway: JavaGateway | None = None
        self._server: Any = None
        #: Location of the warehouse, as written into the metastore.
        self.warehouse = warehouse if warehouse is not None else f"file:{self._directory}/warehouse"
        #: The port it listens on, once started.
        self.port = port

    @property
    def uri(self) -> str:
        """`thrift://127.0.0.1:<port>`."""
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._gateway.pid if self._gateway is not None else None

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._directory / "metastore.log"

    def start(self) -> Self:
        """Start it, and return when it answers. Starting a started one does nothing."""
        if self._gateway is not None:
            return self
        started = self._clock.monotonic()
        self._gateway = JavaGateway(
            self._directory,
            "metastore",
            options=[f"-Dderby.stream.error.file={self._directory}/derby.log"],
            clock=self._clock,
        )
        try:
            self._serve(self._gateway)
        except BaseException as error:
            # The Java side of the error is gone once the JVM is.
            message = describe_java_error(error)
            self.stop()
            if not isinstance(error, Exception):
                raise
            raise EngineError(
                f"The metastore did not start: {message}",
                next_step=f"is another server using port {self._requested_port} or {self._directory}? Read {self.log}",
            ) from None
        logger.info("Hive Metastore listens at %s after %.1f s", self.uri, self._clock.monotonic() - started)
        return self

    def _serve(self, gateway: JavaGateway) -> None:
        jvm = gateway.jvm
        hive = jvm.org.apache.hadoop.hive.metastore
        thrift = jvm.org.apache.thrift
        # First the port: it fails fast, where the database takes seconds.
        socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress("127.0.0.1", self._requested_port))
        conf = self._hive_conf(jvm)
        if self._transaction_tables:
            _make_transaction_tables(hive, conf)
        handler = hive.HiveMetaStore.newRetryingHMSHandler("iceberg-hms local", conf, False)
        args = (
            thrift.server.TThreadPoolServer.Args(socket)
            .processor(hive.TSetIpAddressProcessor(handler))
            .protocolFactory(thrift.protocol.TBinaryProtocol.Factory())
            .transportFactory(thrift.transport.TTransportFactory())
            .minWorkerThreads(_MIN_WORKER_THREADS)
            .maxWorkerThreads(_MAX_WORKER_THREADS)
        )
        self._server = thrift.server.TThreadPoolServer(args)
        gateway.run_in_thread(self._server, "serve")
        self.port = int(socket.getServerSocket().getLocalPort())

    def _hive_conf(self, jvm: Any) -> Any:
        conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
        settings = {
            **_CONF,
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._directory}/database;create=true",
            "hive.metastore.warehouse.dir": self.warehouse,
            **self._conf,
        }
        for key, value in settings.items():
            conf.set(key, value)
        return conf

    def stop(self) -> None:
        """End the server and its JVM. Never raises; stopping a stopped one does nothing."""
        gateway, self._gateway = self._gateway, None
        if gateway is None:
            return
        if self._server is not None and gateway.is_alive():
            try:
                self._server.stop()
            except Exception:
                # py4j raises many things here, and the JVM ends below in any case.
                logger.debug("the metastore did not stop in order", exc_info=True)
        self._server = None
        gateway.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _make_transaction_tables(hive: Any, conf: Any) -> None:
    from py4j.protocol import Py4JJavaError

    try:
        hive.txn.TxnDbUtil.prepDb(conf)
    except Py4JJavaError as error:
        # Made in one transaction by an earlier start on this folder.
        if "already exists" not in describe_java_error(error):
            raise
