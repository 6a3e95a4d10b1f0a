"""What both proxies share: a port on loopback, and one thread for each connection.

`proxy.FaultProxy` understands the calls that it carries, `stream.StreamProxy` carries any bytes.
"""

from __future__ import annotations

import logging
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from iceberg_hms.errors import EngineError, InvalidInput

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_SECONDS = 10.0
JOIN_TIMEOUT_SECONDS = 10.0
_BACKLOG = 128


class Connection(ABC):
    """A client's connection, and one to the server for it. It is created without blocking; then one thread runs it.

    number: 1 for the proxy's first connection. target: host and port of the server.
    """

    def __init__(self, number: int, client: socket.socket, target: tuple[str, int]) -> None:
        self.number = number
        self._client = client
        self._target = target
        self._server: socket.socket | None = None
        self._ended = False

    def run(self) -> None:
        """Connect to the server, and carry bytes until one side ends. May raise OSError, EOFError, and InvalidInput for
        bytes that are no valid messages."""
        server = self._server = socket.create_connection(self._target, CONNECT_TIMEOUT_SECONDS)
        server.settimeout(None)
        for each in (self._client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # `end` may have run before the server was connected.
        if not self._ended:
            self._carry(server)

    @abstractmethod
    def _carry(self, server: socket.socket) -> None:
        """Carry bytes until one side ends. See `run` for the errors."""

    def end(self) -> None:
        """Hang up on both sides, from any thread. That wakes the connection's own thread, which closes both. Calling it
        twice is harmless."""
        self._ended = True
        hang_up(self._client)
        if self._server is not None:
            hang_up(self._server)

    def close(self) -> None:
        """The thread that ran the connection calls this at its end."""
        self.end()
        self._client.close()
        if self._server is not None:
            self._server.close()


class TcpProxy(ABC):
    """Listens on 127.0.0.1, on a free port, until `close`. Raises EngineError if it cannot."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._connections: dict[int, Connection] = {}
        self._accepted = 0
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()
        self._listener: tuple[socket.socket, threading.Thread] | None = None
        #: The port it listens on, the same after `refuse` and `accept`.
        self.port = 0
        self.accept()

    @abstractmethod
    def _connect(self, number: int, client: socket.socket) -> Connection:
        """Create the Connection for a new client. number: 1 for the first one. Must not block."""

    def accept(self) -> None:
        """Take connections, again after `refuse`."""
        if self._listener is None:
            try:
                listener = socket.create_server(("127.0.0.1", self.port), backlog=_BACKLOG)
            except OSError as error:
                raise EngineError(f"The fault proxy cannot listen on port {self.port}: {error}") from error
            self.port = listener.getsockname()[1]
            self._listener = listener, self.start("fault-proxy", lambda: self._serve(listener))

    def refuse(self) -> None:
        """Take no more connections and cut the open ones: clients cannot reach the server through this proxy."""
        listening, self._listener = self._listener, None
        if listening is not None:
            listener, thread = listening
            hang_up(listener)
            thread.join(JOIN_TIMEOUT_SECONDS)
        self.cut()

    def cut(self) -> None:
        with self._mutex:
            connections = list(self._connections.values())
        for connection in connections:
            connection.end()

    def close(self) -> None:
        """End all connections and threads. Calling it twice is harmless."""
        self._closed.set()
        self.refuse()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_SECONDS)
        alive = [thread.name for thread in self._threads if thread.is_alive()]
        if alive:
            raise EngineError(f"threads of the fault proxy did not end: {', '.join(alive)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, name: str, function: Callable[[], None]) -> threading.Thread:
        """Start a thread that ends with the proxy. For the connections of this proxy."""
        thread = threading.Thread(target=function, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _serve(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with self._mutex:
                    self._accepted += 1
                    number = self._accepted
                    connection = self._connections[number] = self._connect(number, client)
                self.start(f"fault-proxy-{number}", partial(self._carry, number, connection))

    def _carry(self, number: int, connection: Connection) -> None:
        try:
            connection.run()
        except (OSError, EOFError) as error:
            logger.debug("connection %d ended: %s", number, error)
        except InvalidInput as error:
            logger.warning("cut connection %d: %s", number, error.message)
        finally:
            connection.close()
            with self._mutex:
                self._connections.pop(number, None)


def hang_up(connection: socket.socket) -> None:
    """End both directions and wake any thread that waits on the socket. Calling it twice is harmless."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        logger.debug("a connection had already ended")
