"""A real ZooKeeper, one server, on loopback, in one folder."""

from __future__ import annotations

import os
from typing import Any

from iceberg_hms.local.gateway import JavaGateway
from iceberg_hms.local.server import LocalServer

_HEAP_MB = 128
#: ZooKeeper's own default of tickTime: sessions last between 2 and 20 ticks.
_TICK_MS = 2000
_MAX_CLIENT_CONNECTIONS = 500


class LocalZooKeeper(LocalServer):
    """A ZooKeeper that lives as long as this object, and at most as long as this process.

    directory: where its data and logs are; made if missing, and kept.
    port: 0 picks a free one. It listens on 127.0.0.1, without the admin server.

    Raises EngineError (no Java, no pyspark, port taken), InvalidInput (an unusable path).
    """

    name = "ZooKeeper"
    log_name = "zookeeper"

    def __init__(self, directory: str | os.PathLike[str], port: int = 0) -> None:
        super().__init__(directory, port)
        self._factory: Any = None

    @property
    def hosts(self) -> str:
        """The connect string: `127.0.0.1:<port>`."""
        return f"127.0.0.1:{self.port}"

    address = hosts

    def _launch(self) -> JavaGateway:
        return JavaGateway(self._directory, self.log_name, heap_mb=_HEAP_MB)

    def _serve(self, gateway: JavaGateway) -> int:
        jvm = gateway.jvm
        server = jvm.org.apache.zookeeper.server
        data = jvm.java.io.File(str(self._directory / "data"))
        self._factory = server.NIOServerCnxnFactory()
        self._factory.configure(
            jvm.java.net.InetSocketAddress("127.0.0.1", self._requested_port), _MAX_CLIENT_CONNECTIONS
        )
        self._factory.startup(server.ZooKeeperServer(data, data, _TICK_MS))
        return int(self._factory.getLocalPort())

    def _stop_serving(self) -> None:
        if self._factory is not None:
            self._factory.shutdown()
