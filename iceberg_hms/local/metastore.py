"""A real Hive Metastore 2.3.10 on an embedded Derby database, on loopback, in one folder.

It is the server that ships inside pyspark, with its own lock API and compare-and-swap (HIVE-26882, HIVE-28121). The
reaper of expired locks is not started, as on most production servers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from iceberg_hms.local.gateway import JavaGateway, describe_java_error
from iceberg_hms.local.server import LocalServer

_MIN_WORKER_THREADS = 8
#: Hive's own default of hive.metastore.server.max.threads.
_MAX_WORKER_THREADS = 1000

_S3_SCHEMES: Final = ("s3", "s3a", "s3n")
#: Hadoop's view of other file systems under a scheme of one's own.
_MOUNT_TABLE: Final = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"

#: Hive configuration that it always runs with; `conf/hive-site.xml` has the same.
CONFIGURATION: Final = {
    # The schema is made on first use: no SQL scripts are in the wheel.
    "hive.metastore.schema.verification": "false",
    "datanucleus.schema.autoCreateAll": "true",
    # Two defaults whose libraries are not in the wheel.
    "hive.async.log.enabled": "false",
    "datanucleus.connectionPoolingType": "HikariCP",
    # Derby's locks are in this JVM: with the default of 10, as many lock calls at once wait for each other for ever,
    # some with a connection for Derby's lock, its holder for a connection.
    "datanucleus.connectionPool.maxPoolSize": "64",
    # Iceberg moves, drops and renames columns, which the stock setting (true) refuses.
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
}


class LocalMetastore(LocalServer):
    """A Hive Metastore that lives as long as this object, and at most as long as this process.

        with LocalMetastore("/data/hms") as metastore:
            iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse)

    directory: where its database, logs and (by default) its warehouse are; made if missing, and kept: a later start on
        the same folder finds the same tables. Only one server at a time may use it.
    port: 0 picks a free one. It listens on 127.0.0.1.
    warehouse: location of the default database's tables; by default `file:<directory>/warehouse`. If it is in an S3
        bucket, databases and tables may lie in that bucket: see `stand_in`.
    transaction_tables: False leaves out HIVE_LOCKS and its kin, so that the lock API is broken, as on a server whose
        schema was not initialised for transactions.
    conf: Hive configuration, which wins over ours.

    Raises EngineError (no Java, no pyspark, port taken, Derby in use), InvalidInput (an unusable path).
    """

    name = "Hive Metastore"
    log_name = "metastore"

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        port: int = 0,
        warehouse: str | None = None,
        transaction_tables: bool = True,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port)
        self._transaction_tables = transaction_tables
        self._conf = dict(conf or {})
        self._server: Any = None
        #: Location of the warehouse, as written into the metastore.
        self.warehouse = warehouse if warehouse is not None else f"file:{self._directory}/warehouse"

    @property
    def uri(self) -> str:
        """`thrift://127.0.0.1:<port>`."""
        return f"thrift://127.0.0.1:{self.port}"

    address = uri

    def _launch(self) -> JavaGateway:
        options = [f"-Dderby.stream.error.file={self._directory}/derby.log"]
        return JavaGateway(self._directory, self.log_name, options=options)

    def _serve(self, gateway: JavaGateway) -> int:
        jvm = gateway.jvm
        hive = jvm.org.apache.hadoop.hive.metastore
        thrift = jvm.org.apache.thrift
        # Bind the port first: a taken port fails at once, while the database takes seconds.
        socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress("127.0.0.1", self._requested_port))
        handler = self._handler(jvm)
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
        return int(socket.getServerSocket().getLocalPort())

    def _handler(self, jvm: Any) -> Any:
        """The Java object that carries out the calls; creates its database. Other releases differ in this method, the
        class path and the configuration."""
        hive = jvm.org.apache.hadoop.hive.metastore
        conf = self._hive_conf(jvm)
        if self._transaction_tables:
            _make_transaction_tables(hive, conf)
        return hive.HiveMetaStore.newRetryingHMSHandler("iceberg-hms local", conf, False)

    def _hive_conf(self, jvm: Any) -> Any:
        conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
        settings = {
            **CONFIGURATION,
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._directory}/database;create=true",
            "hive.metastore.warehouse.dir": self.warehouse,
            **stand_in(self.warehouse, self._directory / "stores"),
            **self._conf,
        }
        for key, value in settings.items():
            conf.set(key, value)
        return conf

    def _stop_serving(self) -> None:
        if self._server is not None:
            self._server.stop()


def stand_in(location: str, directory: Path) -> dict[str, str]:
    """Hive configuration with which locations in a bucket need no S3: their folders are made below `directory`.

    A metastore makes a folder for each database and table, for which it would need hadoop-aws and AWS's library, of
    600 MB. An Iceberg table has no use for that folder: its writers write to the bucket itself.
    location: any in the bucket; for others than S3 there is no configuration. Makes the bucket's folder.
    """
    parts = urlsplit(location)
    if parts.scheme not in _S3_SCHEMES or not parts.hostname:
        return {}
    folder = directory / parts.netloc
    folder.mkdir(parents=True, exist_ok=True)
    mounted = {f"fs.viewfs.mounttable.{parts.netloc}.linkMergeSlash": folder.as_uri()}
    return mounted | {f"fs.{scheme}.impl": _MOUNT_TABLE for scheme in _S3_SCHEMES}


def _make_transaction_tables(hive: Any, conf: Any) -> None:
    from py4j.protocol import Py4JJavaError

    try:
        hive.txn.TxnDbUtil.prepDb(conf)
    except Py4JJavaError as error:
        # An earlier start on this folder created the tables, in one transaction.
        if "already exists" not in describe_java_error(error):
            raise
