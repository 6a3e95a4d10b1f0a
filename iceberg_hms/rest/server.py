"""The REST catalog on uvicorn, in a thread of its own: for `iceberg-hms serve` and inside a Spark driver.

    with RestServer(catalog, "127.0.0.1", 0, token="...") as server:
        print(server.uri)

The thread is a daemon: it ends with the process. The caller keeps its signal handlers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import socket
import threading
from collections.abc import Mapping
from typing import Any, Final, cast

import uvicorn

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.errors import ConfigError, EngineError
from iceberg_hms.rest.access.authorization import Access
from iceberg_hms.rest.access.tokens import Everyone
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.connections import ConnectionLimits, Connections
from iceberg_hms.rest.http_protocol import BoundedHttpProtocol, TlsAcceptor
from iceberg_hms.rest.responses import is_loopback
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.rest.tls import certificates

logger = logging.getLogger(__name__)

#: How long the server may take to start.
START_SECONDS: Final = 15.0
#: How much longer than a commit may wait (`rest.commit-wait-ms`) running requests may take after `stop`, before the
#: server closes their connections.
STOP_SECONDS: Final = 5.0
#: How much longer the thread may take to end.
STOP_MARGIN_SECONDS: Final = 5.0
#: For so long connections in use end with an answer before another process gets the socket. Those that are left have
#: been idle as long: Java's client looks at one that was idle for two seconds before it uses it again.
HAND_OVER_SECONDS: Final = 3.0
#: How long a connection may take to bring its first request after `stop`.
FIRST_REQUEST_SECONDS: Final = 1.0
BACKLOG: Final = 2_048
MAX_PORT: Final = 65_535


class RestServer:
    """A REST server for a catalog. Use it once: start, stop.

    host, port: where to listen; port 0 takes any free one. token, settings, access, free_locations, warehouses: as for
    `create_app`. listener: a socket that listens already, and that another process may have as well; its address counts
    instead of host and port, and the server closes it.
    The caller keeps the catalogs and closes them after `stop`. Raises ConfigError for a host that other machines reach
    if nothing says who may call: `access=Everyone()` says so too.
    """

    def __init__(
        self,
        catalog: Catalog,
        host: str,
        port: int,
        token: str | None = None,
        *,
        settings: RestSettings | None = None,
        access: Access | None = None,
        free_locations: bool = False,
        warehouses: Mapping[str, tuple[Catalog, RestSettings]] | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        self._listener = listener
        self._is_shared = listener is not None
        self._host: str = host if listener is None else listener.getsockname()[0]
        self._port: int = port if listener is None else listener.getsockname()[1]
        self._settings = settings or RestSettings()
        self._app = create_app(
            catalog,
            token=token,
            settings=self._settings,
            access=access,
            free_locations=free_locations,
            warehouses=warehouses,
        )
        self._server: _Uvicorn | None = None
        self._thread: threading.Thread | None = None
        self._certificates = certificates(self._settings)
        if not is_loopback(self._host):
            _check_exposure(self._host, secret=token is not None, access=access, tls=self._certificates is not None)

    @property
    def port(self) -> int:
        """The port; after `start` never 0."""
        return self._port

    @property
    def uri(self) -> str:
        """The `uri` for REST clients."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        scheme = "http" if self._certificates is None else "https"
        return f"{scheme}://{host}:{self._port}"

    def start(self) -> str:
        """Start serving and return the uri. Raises EngineError, with nothing left running."""
        if self._thread is not None:
            raise EngineError("this server was started before", next_step="create a new one")
        if self._listener is None:
            self._listener = self._listen()
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        connections = Connections(ConnectionLimits.of(self._settings, open_files), self._app.counters)
        config = uvicorn.Config(
            self._app,
            http=self._protocol(connections),
            # The caller configures logging, of the `uvicorn` loggers too.
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            backlog=BACKLOG,
            timeout_keep_alive=self._settings.rest_keep_alive_seconds,
            timeout_graceful_shutdown=math.ceil(self._request_seconds),
        )
        self._server = _Uvicorn(config, connections)
        # The server's thread closes its own descriptor of the socket.
        self._thread = threading.Thread(
            target=self._server.run_on, args=(self._listener.dup(),), name="iceberg-hms-rest", daemon=True
        )
        self._thread.start()
        if not self._server.settled.wait(START_SECONDS) or not self._server.started:
            cause = self._server.failure
            self.stop()
            raise EngineError(
                f"the REST server did not start on {self.uri}",
                next_step=f"see the log: {cause!r}" if cause else f"it took longer than {START_SECONDS:g} seconds",
            )
        return self.uri

    def _protocol(self, connections: Connections) -> type[asyncio.Protocol]:
        """What makes the protocol of a new connection."""
        tls = self._certificates

        def protocol(**arguments: Any) -> asyncio.Protocol:
            connection = BoundedHttpProtocol(**arguments, connections=connections)
            return connection if tls is None else TlsAcceptor(connection, tls)

        # uvicorn calls it, and asks nothing else of a class.
        return cast(type[asyncio.Protocol], protocol)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the server to end, at most `timeout` seconds; True if it has ended."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def drain(self) -> None:
        """Answer that the server is not ready, and go on with everything else for `rest.drain-ms`, so that balancers
        notice and send no more requests. Returns at once if nobody has asked lately whether it is ready, and no other
        process has the socket."""
        health = self._app.health
        seconds = self._settings.rest_drain_ms / 1000
        if seconds and health.is_watched:
            health.draining = True
            logger.info("not ready any more; accepting requests for another %g s", seconds)
            self._retire(seconds)
        elif self._is_shared:
            self._retire(HAND_OVER_SECONDS)

    def hand_over(self) -> socket.socket:
        """Stop as `stop` does, after some seconds in which clients leave their connections, and return the socket. It
        goes on listening: new connections wait for the process that gets it next. Called once, after `start`; else
        raises EngineError."""
        if self._listener is None:
            raise EngineError("this server has no socket to hand over", next_step="start it first")
        kept = self._listener.dup()
        self._retire(HAND_OVER_SECONDS)
        self.stop()
        return kept

    def _retire(self, seconds: float) -> None:
        """Go on for so long, and close each connection with its next answer."""
        self._app.retiring = True
        self.wait(seconds)

    def stop(self) -> None:
        """Accept no new requests, let running ones finish, and return: at most after `rest.commit-wait-ms` and ten
        seconds. May be called twice."""
        if self._listener is not None:
            self._listener.close()
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        if not self.wait(self._request_seconds + STOP_MARGIN_SECONDS):
            self._server.force_exit = True
            logger.warning("the REST server did not end in time; it ends with the process")

    @property
    def _request_seconds(self) -> float:
        """How long running requests may take after `stop`: each commit has its answer by then, unless a swap that
        carries it is not answered."""
        return self._settings.rest_commit_wait_ms / 1000 + STOP_SECONDS

    def __enter__(self) -> RestServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        if not 0 <= self._port <= MAX_PORT:
            raise EngineError(f"cannot listen on {self.uri}: there is no such port", next_step="choose one, or 0")
        try:
            listener = socket.create_server((self._host, self._port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise EngineError(
                f"cannot listen on {self.uri}: {error}",
                next_step="choose another host or port; port 0 takes a free one",
            ) from error
        self._port = listener.getsockname()[1]
        return listener


def _check_exposure(host: str, *, secret: bool, access: Access | None, tls: bool) -> None:
    """For a host that other machines reach. Raises ConfigError if nothing says who may call."""
    if not secret and access is None:
        raise ConfigError(
            f"other machines reach {host}, and the server has no token: everyone could change every table",
            next_step="give it a token, or say that everyone may call (--no-auth)",
        )
    if isinstance(access, Everyone):
        logger.warning("serving on %s without a token: every client that reaches it can change every table", host)
    if not tls:
        logger.warning(
            "serving on %s without TLS: who listens on the network reads tokens (set rest.ssl-certfile, or let a proxy"
            " speak TLS)",
            host,
        )


class _Uvicorn(uvicorn.Server):
    """uvicorn's server. settled: set once it has started or failed to; failure: why it failed."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections
        self.settled = threading.Event()
        self.failure: BaseException | None = None

    def run_on(self, listener: socket.socket) -> None:
        """The thread's body: serve until `should_exit`."""
        try:
            with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
                runner.run(self.serve(sockets=[listener]))
        except (Exception, SystemExit) as error:
            # uvicorn raises SystemExit when the application's start-up fails.
            self.failure = error
            logger.exception("the REST server ended")
        finally:
            listener.close()
            self.settled.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.settled.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        # uvicorn would close the connections that were accepted last, whose requests are on their way.
        await self._connections.first_requests(FIRST_REQUEST_SECONDS)
        await super().shutdown(sockets=sockets)
