"""A TCP proxy before a metastore that loses, delays, holds and repeats calls by name.

    with FaultProxy(metastore.uri) as proxy:
        lost = proxy.on("alter_table_with_environment_context", CUT_BEFORE_REPLY)
        with iceberg_hms.connect(metastore_uri=proxy.uri, ...) as catalog:
            catalog.load_table("db.t").append([...])
        assert lost.done(30)

One thread a connection carries one call at a time, as the metastore's clients send them.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from iceberg_hms.errors import EngineError, InvalidInput
from iceberg_hms.testing.faults.script import PASS, Action, Call, Fault, Step, Wait
from iceberg_hms.testing.faults.wire import Kind, Message, read_message

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_SECONDS = 10.0
JOIN_TIMEOUT_SECONDS = 10.0
_BACKLOG = 128


class FaultProxy:
    """Listens on 127.0.0.1, on a free port, until `close`.

    target: `thrift://host:port` of the true server.
    pace: seconds that each call waits before it is sent, to vary the timing of a run; None for no waits.
    Raises InvalidInput for a target that is not thrift://host:port.
    """

    def __init__(self, target: str, *, pace: Callable[[Call], float] | None = None) -> None:
        parts = urlsplit(target)
        if parts.scheme != "thrift" or not parts.hostname or not parts.port:
            raise InvalidInput(f"{target!r} is not thrift://host:port")
        self._target = (parts.hostname, parts.port)
        self._pace = pace
        self._changed = threading.Condition()
        self._script: list[Fault] = []
        self._calls: list[Call] = []
        self._counts: Counter[str] = Counter()
        self._connections: dict[int, _Connection] = {}
        self._accepted = 0
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()
        self._listener: tuple[socket.socket, threading.Thread] | None = None
        #: The port it listens on, the same after `refuse` and `accept`.
        self.port = 0
        self.accept()

    @property
    def uri(self) -> str:
        """What clients are given in place of the target."""
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[Call]:
        """All calls that came so far, in their order."""
        with self._changed:
            return list(self._calls)

    def on(
        self,
        method: str,
        action: Action,
        *,
        nth: int = 1,
        times: int | None = 1,
        connection: int | None = None,
        only: Callable[[bytes], bool] | None = None,
    ) -> Fault:
        """Write one more line of the script. The first line that hits a call decides what is done to it; the others
        count the call all the same. See `Fault` for the arguments."""
        fault = Fault(method, action, nth, times, connection, only)
        with self._changed:
            self._script.append(fault)
        return fault

    def clear(self) -> None:
        """Forget the script. Calls that are held are let go."""
        with self._changed:
            script, self._script = self._script, []
        for fault in script:
            fault.release()

    def wait_for(self, method: str, count: int, timeout: float) -> bool:
        """Wait until a method was called `count` times in all. False when the time (seconds) is over."""
        with self._changed:
            return self._changed.wait_for(lambda: self._counts[method] >= count, timeout)

    def count(self, method: str) -> int:
        """How often a method was called."""
        with self._changed:
            return self._counts[method]

    def accept(self) -> None:
        """Take connections (again)."""
        if self._listener is None:
            try:
                listener = socket.create_server(("127.0.0.1", self.port), backlog=_BACKLOG)
            except OSError as error:
                raise EngineError(f"The fault proxy cannot listen on port {self.port}: {error}") from error
            self.port = listener.getsockname()[1]
            self._listener = listener, self._start("fault-proxy", lambda: self._serve(listener))

    def refuse(self) -> None:
        """Take no more connections, and cut those that are open: the server is out of reach through this proxy."""
        listening, self._listener = self._listener, None
        if listening is not None:
            listener, thread = listening
            _hang_up(listener)
            thread.join(JOIN_TIMEOUT_SECONDS)
        self.cut()

    def cut(self) -> None:
        """Cut all open connections."""
        with self._changed:
            connections = list(self._connections.values())
        for connection in connections:
            connection.end()

    def close(self) -> None:
        """End all connections and all threads; held calls are dropped. Twice is harmless."""
        self._closed.set()
        with self._changed:
            script = list(self._script)
        for fault in script:
            fault.drop()
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

    def take(self, connection: int, request: Message) -> tuple[Call, Fault | None]:
        """Note a call, and say what is done to it. For the connections of this proxy."""
        with self._changed:
            method = request.method
            self._counts[method] += 1
            call = Call(connection, method, self._counts[method])
            self._calls.append(call)
            self._changed.notify_all()
            hitting = [fault for fault in self._script if fault.hits(call, request.data)]
            return call, hitting[0] if hitting else None

    def pace(self, call: Call) -> None:
        """Wait as long as the pace says. For the connections of this proxy."""
        if self._pace is not None:
            self.pause(self._pace(call))

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than the proxy is open. For the connections of this proxy."""
        self._closed.wait(seconds)

    def _start(self, name: str, function: Callable[[], None]) -> threading.Thread:
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
                with self._changed:
                    self._accepted += 1
                    connection = _Connection(self, self._accepted, client, self._target)
                    self._connections[self._accepted] = connection
                self._start(f"fault-proxy-{connection.number}", partial(self._carry, connection))

    def _carry(self, connection: _Connection) -> None:
        try:
            connection.run()
        except (OSError, EOFError) as error:
            logger.debug("connection %d ended: %s", connection.number, error)
        except InvalidInput as error:
            logger.warning("connection %d is cut: %s", connection.number, error.message)
        finally:
            connection.close()
            with self._changed:
                self._connections.pop(connection.number, None)


class _Connection:
    """One client's connection and its own connection to the server."""

    def __init__(self, proxy: FaultProxy, number: int, client: socket.socket, target: tuple[str, int]) -> None:
        self.number = number
        self._proxy = proxy
        self._client = client
        self._target = target
        self._server: socket.socket | None = None
        self._ended = False

    def run(self) -> None:
        _no_delay(self._client)
        server = socket.create_connection(self._target, CONNECT_TIMEOUT_SECONDS)
        server.settimeout(None)
        _no_delay(server)
        self._server = server
        while not self._ended and self._next_is_request(server):
            request = read_message(self._client.recv)
            if request is None:
                return
            call, fault = self._proxy.take(self.number, request)
            self._proxy.pace(call)
            try:
                if not self._perform(request, fault, server):
                    return
            finally:
                if fault is not None:
                    fault.finish()

    def _next_is_request(self, server: socket.socket) -> bool:
        """Wait for the client; False when the server hangs up first, which an idle client must see."""
        ready, _, _ = select.select([self._client, server], [], [])
        return self._client in ready

    def _perform(self, request: Message, fault: Fault | None, server: socket.socket) -> bool:
        """Do the steps of one call. False: the connection ends here."""
        action: Action = PASS if fault is None else fault.action
        reply: Message | None = None
        cut = False
        for step in action:
            match step:
                case Step.SEND:
                    server.sendall(request.data)
                    reply = None if request.kind is Kind.ONEWAY else _answer(server)
                case Step.DELIVER:
                    server.sendall(request.data)
                case Step.REPLY:
                    if reply is not None:
                        self._client.sendall(reply.data)
                case Step.CUT:
                    cut = True
                    _hang_up(self._client)
                case Step.HOLD:
                    if fault is not None and not fault.hold():
                        return False
                case Wait(seconds):
                    self._proxy.pause(seconds)
        return not cut and Step.DELIVER not in action

    def end(self) -> None:
        """Hang up on both sides. The thread that runs it, which wakes by that, closes them."""
        self._ended = True
        _hang_up(self._client)
        if self._server is not None:
            _hang_up(self._server)

    def close(self) -> None:
        """Called by the thread that ran it."""
        self.end()
        self._client.close()
        if self._server is not None:
            self._server.close()


def _answer(server: socket.socket) -> Message:
    reply = read_message(server.recv)
    if reply is None:
        raise EOFError("the server hung up without an answer")
    return reply


def _no_delay(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _hang_up(connection: socket.socket) -> None:
    """End both directions and wake whoever waits on it. Twice is harmless."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        logger.debug("a connection was gone already")
