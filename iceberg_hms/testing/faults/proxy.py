"""A TCP proxy before a metastore that loses, delays, holds and repeats calls by name.

    with FaultProxy(metastore.uri) as proxy:
        lost = proxy.on("alter_table_with_environment_context", CUT_BEFORE_REPLY)
        with iceberg_hms.connect(metastore_uri=proxy.uri, ...) as catalog:
            catalog.load_table("db.t").append([...])
        assert lost.done(30)

One thread per connection carries one call at a time, as the metastore's clients send them.
"""

from __future__ import annotations

import logging
import select
import socket
from collections import Counter
from collections.abc import Callable

from iceberg_hms.testing.faults.script import PASS, Action, FaultStep, ProxiedCall, ScriptedFault, Wait
from iceberg_hms.testing.faults.scripted_proxy import ScriptedProxy
from iceberg_hms.testing.faults.tcp import Connection, hang_up
from iceberg_hms.testing.faults.wire import Message, MessageKind, read_message

logger = logging.getLogger(__name__)


class FaultProxy(ScriptedProxy[ScriptedFault]):
    """Listens on 127.0.0.1, on a free port, until `close`.

    target: `thrift://host:port` of the true server.
    pace: seconds that each call waits before it is sent, to vary the timing of a run; None for no waits.
    Raises InvalidInput for a target that is not thrift://host:port.
    """

    def __init__(self, target: str, *, pace: Callable[[ProxiedCall], float] | None = None) -> None:
        self._pace = pace
        self._calls: list[ProxiedCall] = []
        self._counts: Counter[str] = Counter()
        super().__init__(target, "thrift")

    @property
    def uri(self) -> str:
        """The uri for clients, in place of the target's."""
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[ProxiedCall]:
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
    ) -> ScriptedFault:
        """Add a line to the script. The first line that hits a call decides what the proxy does to it; the other lines
        count the call too. See `ScriptedFault` for the arguments."""
        return self._add(ScriptedFault(method, action, nth, times, connection, only))

    def wait_for(self, method: str, count: int, timeout: float) -> bool:
        """Wait until clients called a method `count` times in all. False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._counts[method] >= count, timeout)

    def count(self, method: str) -> int:
        with self._changed:
            return self._counts[method]

    def take(self, connection: int, request: Message) -> ScriptedFault | None:
        """Record a call, wait for its pace, and return the fault that hits it. For the connections of this proxy."""
        with self._changed:
            method = request.method
            self._counts[method] += 1
            call = ProxiedCall(connection, method, self._counts[method])
            self._calls.append(call)
            self._changed.notify_all()
            hitting = self._hitting(call, request.data)
        if self._pace is not None:
            self.pause(self._pace(call))
        return hitting

    def _connect(self, number: int, client: socket.socket) -> _Connection:
        return _Connection(self, number, client, self._target)


class _Connection(Connection):
    def __init__(self, proxy: FaultProxy, number: int, client: socket.socket, target: tuple[str, int]) -> None:
        super().__init__(number, client, target)
        self._proxy = proxy

    def _carry(self, server: socket.socket) -> None:
        while not self._ended and self._next_is_request(server):
            request = read_message(self._client.recv)
            if request is None:
                return
            fault = self._proxy.take(self.number, request)
            try:
                if not self._perform(request, fault, server):
                    return
            finally:
                if fault is not None:
                    fault.finish()

    def _next_is_request(self, server: socket.socket) -> bool:
        """Wait for the client; False if the server hangs up first, which an idle client must see."""
        ready, _, _ = select.select([self._client, server], [], [])
        return self._client in ready

    def _perform(self, request: Message, fault: ScriptedFault | None, server: socket.socket) -> bool:
        """Run the steps of one call. False: the connection ends here."""
        action: Action = PASS if fault is None else fault.action
        reply: Message | None = None
        cut = False
        for step in action:
            match step:
                case FaultStep.SEND:
                    server.sendall(request.data)
                    reply = None if request.kind is MessageKind.ONEWAY else _answer(server)
                case FaultStep.DELIVER:
                    server.sendall(request.data)
                case FaultStep.REPLY:
                    if reply is not None:
                        self._client.sendall(reply.data)
                case FaultStep.CUT:
                    cut = True
                    hang_up(self._client)
                case FaultStep.HOLD:
                    if fault is not None and not fault.hold():
                        return False
                case Wait(seconds):
                    self._proxy.pause(seconds)
        return not cut and FaultStep.DELIVER not in action


def _answer(server: socket.socket) -> Message:
    reply = read_message(server.recv)
    if reply is None:
        raise EOFError("the server hung up without an answer")
    return reply
