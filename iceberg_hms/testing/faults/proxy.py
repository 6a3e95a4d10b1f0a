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
from urllib.parse import urlsplit

from iceberg_hms.errors import InvalidInput
from iceberg_hms.testing.faults.script import PASS, Action, Call, Fault, Step, Wait
from iceberg_hms.testing.faults.tcp import Connection, TcpProxy, hang_up
from iceberg_hms.testing.faults.wire import Kind, Message, read_message

logger = logging.getLogger(__name__)


class FaultProxy(TcpProxy):
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
        super().__init__()

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

    def close(self) -> None:
        """End all connections and all threads; held calls are dropped. Twice is harmless."""
        self._closed.set()
        with self._changed:
            script = list(self._script)
        for fault in script:
            fault.drop()
        super().close()

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

    def _connect(self, number: int, client: socket.socket) -> _Connection:
        return _Connection(self, number, client, self._target)


class _Connection(Connection):
    """Does what the script says to each call."""

    def __init__(self, proxy: FaultProxy, number: int, client: socket.socket, target: tuple[str, int]) -> None:
        super().__init__(number, client, target)
        self._proxy = proxy

    def _carry(self, server: socket.socket) -> None:
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
                    hang_up(self._client)
                case Step.HOLD:
                    if fault is not None and not fault.hold():
                        return False
                case Wait(seconds):
                    self._proxy.pause(seconds)
        return not cut and Step.DELIVER not in action


def _answer(server: socket.socket) -> Message:
    reply = read_message(server.recv)
    if reply is None:
        raise EOFError("the server hung up without an answer")
    return reply
