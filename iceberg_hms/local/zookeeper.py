"""A real ZooKeeper, one server, on loopback, in one folder."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import EngineError
from iceberg_hms.local.gateway import JavaGateway, describe_java_error, prepare_directory

logger = logging.getLogger(__name__)

_HEAP_MB = 128
#: ZooKeeper's own default of tickTime: sessions last between 2 and 20 ticks.
_TICK_MS = 2000
_MAX_CLIENT_CONNECTIONS = 500


class LocalZooKeeper:
    """A ZooKeeper that lives as long as this object, and at most as long as this process.

    directory: where its data and logs are; made if missing, and kept.
    port: 0 picks a free one. It listens on 127.0.0.1, without the admin server.

    Raises EngineError (no Java, no pyspark, port taken), InvalidInput (an unusable path).
    """

    def __init__(self, directory: str | os.PathLike[str], port: int = 0, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._directory = prepare_directory(directory)
        self._requested_port = port
        self._clock = clock
        self._gateway: JavaGateway | None = None
        self._factory: Any = None
        #: The port it listens on, once started.
        self.port = port

    @property
    def hosts(self) -> str:
        """The connect string: `127.0.0.1:<port>`."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._gateway.pid if self._gateway is not None else None

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._directory / "zookeeper.log"

    def start(self) -> Self:
        """Start it, and return when it serves. Starting a started one does nothing."""
        if self._gateway is not None:
            return self
        started = self._clock.monotonic()
        self._gateway = JavaGateway(self._directory, "zookeeper", heap_mb=_HEAP_MB, clock=self._clock)
        try:
            self._serve(self._gateway)
        except BaseException as error:
            # The Java side of the error is gone once the JVM is.
            message = describe_java_error(error)
            self.stop()
            if not isinstance(error, Exception):
                raise
            raise EngineError(
                f"ZooKeeper did not start: {message}",
                next_step=f"is another server using port {self._requested_port} or {self._directory}? Read {self.log}",
            ) from None
        logger.info("ZooKeeper listens at %s after %.1f s", self.hosts, self._clock.monotonic() - started)
        return self

    def _serve(self, gateway: JavaGateway) -> None:
        jvm = gateway.jvm
        server = jvm.org.apache.zookeeper.server
        data = jvm.java.io.File(str(self._directory / "data"))
        self._factory = server.NIOServerCnxnFactory()
        self._factory.configure(
            jvm.java.net.InetSocketAddress("127.0.0.1", self._requested_port), _MAX_CLIENT_CONNECTIONS
        )
        self._factory.startup(server.ZooKeeperServer(data, data, _TICK_MS))
        self.port = int(self._factory.getLocalPort())

    def stop(self) -> None:
        """End the server and its JVM. Never raises; stopping a stopped one does nothing."""
        gateway, self._gateway = self._gateway, None
        if gateway is None:
            return
        if self._factory is not None and gateway.is_alive():
            try:
                self._factory.shutdown()
            except Exception:
                # py4j raises many things here, and the JVM ends below in any case.
                logger.debug("ZooKeeper did not stop in order", exc_info=True)
        self._factory = None
        gateway.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
