"""An HTTP proxy before an S3 endpoint that delays, loses, holds, falsifies and cuts requests, and counts them.

    with S3Proxy(object_store.endpoint, delay=0.02) as proxy:
        lost = proxy.on("PUT", CUT_BEFORE_REPLY, key=".metadata.json")
        busy = proxy.answer("GET", SLOW_DOWN, times=2)
        with iceberg_hms.connect(s3_endpoint=proxy.endpoint, ...) as catalog:
            catalog.load_table("db.t").append([...])
        assert lost.done(30)

One thread for each connection carries one request at a time, whole: it reads a body to its end before it passes it on.
The Host header stays the client's, which its signature covers.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import unquote
from xml.sax.saxutils import escape

from iceberg_hms.errors import InvalidInput
from iceberg_hms.testing.faults.script import PASS, Action, FaultStep, ProxiedCall, ScriptedFault, Wait
from iceberg_hms.testing.faults.scripted_proxy import ScriptedProxy
from iceberg_hms.testing.faults.tcp import Connection, hang_up
from integration.stores.http_messages import HttpStream

#: The client gets what the server sent, up to half of its body.
_CUT_WITHIN_REPLY: Action = (FaultStep.SEND, FaultStep.REPLY, FaultStep.CUT)
#: The client gets an answer that the server did not give.
_REFUSE: Action = (FaultStep.REPLY,)
_EXPECT = re.compile(rb"\r\nexpect:[^\r\n]*", re.IGNORECASE)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(slots=True)
class S3Request:
    """One request through a proxy.

    path: `bucket/key`, decoded, where the client puts the bucket into the path. query: decoded too.
    started, ended: monotonic seconds; when its head had come, and when its client was answered or cut off (0.0: it is
        still in flight).
    """

    method: str
    path: str
    query: str
    started: float
    ended: float = 0.0

    @property
    def target(self) -> str:
        """`bucket/key?query`, a part of which selects it."""
        return f"{self.path}?{self.query}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An error as S3 words it. status: of HTTP."""

    status: int
    code: str
    message: str

    def encode(self, request: S3Request) -> bytes:
        """The whole answer. To a HEAD it says no more than its status, as S3 does."""
        body = b""
        if request.method != "HEAD":
            resource = f"<Resource>/{escape(request.path)}</Resource>"
            said = f"<Code>{self.code}</Code><Message>{self.message}</Message>{resource}<RequestId>1</RequestId>"
            body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{said}</Error>'.encode()
        head = f"HTTP/1.1 {self.status} {self.code}\r\nContent-Type: application/xml\r\nx-amz-request-id: 1\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


SLOW_DOWN = Answer(503, "SlowDown", "Please reduce your request rate.")
TOO_MANY_REQUESTS = Answer(429, "TooManyRequests", "Please reduce your request rate.")
INTERNAL_ERROR = Answer(500, "InternalError", "We encountered an internal error. Please try again.")
EXPIRED_TOKEN = Answer(400, "ExpiredToken", "The provided token has expired.")
NO_SUCH_BUCKET = Answer(404, "NoSuchBucket", "The specified bucket does not exist")
ACCESS_DENIED = Answer(403, "AccessDenied", "Access Denied.")

#: Makes what the client gets, of its request and of what the server answered (b"" if it was not asked).
Rewrite = Callable[[S3Request, bytes], bytes]


@dataclass(eq=False)
class S3Fault(ScriptedFault):
    """As ScriptedFault. rewrite: what REPLY hands to the client; None for what the server sent."""

    rewrite: Rewrite | None = field(default=None, kw_only=True)


class S3Proxy(ScriptedProxy[S3Fault]):
    """Listens on 127.0.0.1, on a free port, until `close`. `refuse` and `accept` are TcpProxy's.

    target: `http://host:port` of the true server.
    delay: seconds that each request waits before it is passed on, and that an answer to `Expect: 100-continue` takes
        too; may be set at any time. Opening a connection takes none.
    Raises InvalidInput for a target that is not http://host:port.
    """

    def __init__(self, target: str, *, delay: float = 0.0) -> None:
        self.delay = delay
        self._requests: list[S3Request] = []
        self._in_flight = 0
        #: The largest number of requests that were on their way at once.
        self.most_in_flight = 0
        super().__init__(target, "http")

    @property
    def endpoint(self) -> str:
        """The endpoint for clients, in place of the target's."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[S3Request]:
        """All since the start, or since `forget`, in the order in which they came."""
        with self._changed:
            return list(self._requests)

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """How often each method was called with each path."""
        return Counter((each.method, each.path) for each in self.requests)

    def on(
        self,
        method: str,
        action: Action,
        *,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        nth: int = 1,
        times: int | None = 1,
        rewrite: Rewrite | None = None,
    ) -> S3Fault:
        """Add a line to the script. The first line that hits a request decides what the proxy does to it; the other
        lines count the request too.

        method: "" for all. key: a part of `S3Request.target`: `list-type=2` is in listings, `delete` in deletions of
        many. headers: which the request has, with these values. nth, times: as for ScriptedFault; None: all.
        """
        only = partial(_selects, key, dict(headers or {}))
        return self._add(S3Fault(method, action, nth, times, None, only, rewrite=rewrite))

    def answer(
        self,
        method: str,
        answer: Answer,
        *,
        took_effect: bool = False,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        nth: int = 1,
        times: int | None = 1,
    ) -> S3Fault:
        """Answer in place of the server. took_effect: which gets the request all the same. Else as `on`."""
        action = PASS if took_effect else _REFUSE
        return self.on(
            method,
            action,
            key=key,
            headers=headers,
            nth=nth,
            times=times,
            rewrite=lambda request, _: answer.encode(request),
        )

    def truncate(self, method: str = "GET", *, key: str = "", nth: int = 1, times: int | None = 1) -> S3Fault:
        """Hang up in the middle of an answer's body. Else as `on`."""
        return self.on(
            method, _CUT_WITHIN_REPLY, key=key, nth=nth, times=times, rewrite=lambda _, reply: _first_half(reply)
        )

    def forget(self) -> None:
        """Count from here."""
        with self._changed:
            self._requests = []
            self.most_in_flight = self._in_flight

    def count(self, method: str = "", key: str = "") -> int:
        """How many requests came, of this method and with this part in their target."""
        return sum(method in ("", each.method) and key in each.target for each in self.requests)

    def wait_for(self, method: str, count: int, timeout: float, *, key: str = "") -> bool:
        """Wait until so many came. False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count(method, key) >= count, timeout)

    def take(self, connection: int, request: S3Request, head: bytes) -> S3Fault | None:
        """Record a request, and return the fault that hits it. For the connections of this proxy."""
        with self._changed:
            self._requests.append(request)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            self._changed.notify_all()
            call = ProxiedCall(connection, request.method, len(self._requests))
            return self._hitting(call, head)

    def end(self, request: S3Request) -> None:
        """Record that a request has ended for its client, who must not see it before. Calling it twice is harmless.
        For the connections of this proxy."""
        if not request.ended:
            request.ended = time.monotonic()
            with self._changed:
                self._in_flight -= 1

    def _connect(self, number: int, client: socket.socket) -> _Connection:
        return _Connection(self, number, client, self._target)


def sequential_trips(requests: Sequence[S3Request]) -> int:
    """How many of these requests waited for each other at least: the most of which no two overlap. All have ended."""
    trips, free_at = 0, 0.0
    for each in sorted(requests, key=lambda request: request.ended):
        if each.started >= free_at:
            trips, free_at = trips + 1, each.ended
    return trips


class _Connection(Connection):
    def __init__(self, proxy: S3Proxy, number: int, client: socket.socket, target: tuple[str, int]) -> None:
        super().__init__(number, client, target)
        self._proxy = proxy

    def _carry(self, server: socket.socket) -> None:
        requests, answers = HttpStream(self._client), HttpStream(server)
        ready = select.poll()
        for side in (self._client, server):
            ready.register(side, select.POLLIN)
        while not self._ended and self._next_is_request(ready):
            head = requests.head()
            if not head:
                return
            request = _parsed(head)
            fault = self._proxy.take(self.number, request, head)
            try:
                if not self._perform(request, self._whole(head, requests), fault, server, answers):
                    return
            finally:
                self._proxy.end(request)
                if fault is not None:
                    fault.finish()

    def _next_is_request(self, ready: select.poll) -> bool:
        """Wait for the client; False if the server hangs up first, which an idle client must see."""
        return self._client.fileno() in [side for side, _ in ready.poll()]

    def _whole(self, head: bytes, requests: HttpStream) -> bytes:
        """The request with its body, for which the client may wait to be asked."""
        asked = _EXPECT.sub(b"", head)
        if asked != head:
            self._proxy.pause(self._proxy.delay)
            self._client.sendall(_CONTINUE)
        return asked + requests.body_of_request(head)

    def _perform(
        self, request: S3Request, data: bytes, fault: S3Fault | None, server: socket.socket, answers: HttpStream
    ) -> bool:
        """Run the steps of one request. False: the connection ends here."""
        self._proxy.pause(self._proxy.delay)
        reply = b""
        open_ = True
        for step in PASS if fault is None else fault.action:
            match step:
                case FaultStep.SEND:
                    server.sendall(data)
                    reply, open_ = answers.answer(request.method)
                case FaultStep.DELIVER:
                    server.sendall(data)
                    open_ = False
                case FaultStep.REPLY:
                    rewrite = None if fault is None else fault.rewrite
                    self._proxy.end(request)
                    self._client.sendall(reply if rewrite is None else rewrite(request, reply))
                case FaultStep.CUT:
                    self._proxy.end(request)
                    hang_up(self._client)
                    open_ = False
                case FaultStep.HOLD:
                    if fault is not None and not fault.hold():
                        return False
                case Wait(seconds):
                    self._proxy.pause(seconds)
        return open_


def _parsed(head: bytes) -> S3Request:
    """Raises InvalidInput for what is no HTTP."""
    match head.partition(b"\r\n")[0].decode("latin-1").split(" "):
        case [method, target, _]:
            path, _, query = target.partition("?")
            return S3Request(method, unquote(path).lstrip("/"), unquote(query), time.monotonic())
    raise InvalidInput("a first line that is no HTTP request")


def _selects(key: str, headers: Mapping[str, str], head: bytes) -> bool:
    """Whether a request, given by its head, has this part in its target, and these headers."""
    lines = head.lower()
    named = [f"\r\n{name}: {value}\r\n".lower().encode() for name, value in headers.items()]
    return key in _parsed(head).target and all(line in lines for line in named)


def _first_half(message: bytes) -> bytes:
    """The head and half of the body."""
    head, end, body = message.partition(b"\r\n\r\n")
    return head + end + body[: len(body) // 2]
