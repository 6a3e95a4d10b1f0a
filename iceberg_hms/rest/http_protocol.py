"""HTTP/1.1 with bounds: uvicorn's protocol on httptools, which counts bytes and time of what a client sends and takes.

uvicorn bounds neither. A connection here is always in one of these phases:

    IDLE       no request; it may be closed for another connection
    HEADER     the first bytes of a request are here, its header is not complete
    REQUEST    its header is complete and its response is not
    UNREAD     it has its response, and the client still sends its body, which nobody reads

A sweep over all connections closes the overdue ones (`connections.Connections`): no request has a timer of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from iceberg_hms.rest.connections import Connections, peer_of
from iceberg_hms.rest.errors import RETRY_AFTER_SECONDS, ErrorRule, render
from iceberg_hms.rest.tls import Certificates

logger = logging.getLogger(__name__)

#: The most header fields of a request, and of those that wait behind one together. Stock clients send about ten.
MAX_HEADER_FIELDS: Final = 256
#: The most requests that a client may send before it has the response to the first. Stock clients send one.
MAX_PIPELINED: Final = 32

_MALFORMED: Final = "malformed HTTP"
_HEADER: Final = "header too large"
_PIPELINED: Final = "too many pipelined requests"
_BODY: Final = "body too large"
_OVERDUE_HEADER: Final = "header not complete in time"
_BUSY: Final = "the server has as many connections as it may"

#: What the client gets, by the reason for which the connection is closed; no answer for others.
_ANSWERS: Final = {
    _MALFORMED: ErrorRule(400, "BadRequestException"),
    _HEADER: ErrorRule(431, "RequestHeaderFieldsTooLargeException"),
    _PIPELINED: ErrorRule(400, "BadRequestException"),
    _BODY: ErrorRule(413, "RequestTooLargeException"),
    _OVERDUE_HEADER: ErrorRule(408, "RequestTimeoutException"),
    _BUSY: ErrorRule(503, "ServiceUnavailableException", {"Retry-After": str(RETRY_AFTER_SECONDS)}),
}


class Phase(Enum):
    """Where a connection is in its request (see above)."""

    IDLE = auto()
    HEADER = auto()
    REQUEST = auto()
    UNREAD = auto()


_OVERDUE: Final = {
    Phase.IDLE: "no request in time",
    Phase.HEADER: _OVERDUE_HEADER,
    Phase.UNREAD: "body of an answered request not complete in time",
}


class _Refused(Exception):
    """Raised in a callback of the parser, which stops at it. Its text is the reason."""


def _reads_otherwise(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a proxy before the server may read a request in another way (RFC 9112, 3.2 and 6.1): it names two hosts,
    or an encoding of its body other than `chunked`, which the server would pass on undecoded."""
    hosts = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            return True
    return hosts > 1


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection.

    A request that breaks a bound gets an ErrorModel, and the connection ends: before the application sees the request,
    or before it has the request's body. A request that runs is always answered by the application.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.peer = ""
        self._open = connections
        self._limits = connections.limits
        self._handshake: asyncio.Task[None] | None = None
        self._made = False
        self._phase = Phase.IDLE
        #: When the phase began; and since when a response waits to be sent, None if none does.
        self._since = 0.0
        self._sending_since: float | None = None
        #: Whether a request's header or body is not complete.
        self._in_header = False
        self._in_message = False
        #: Bytes that came of the header, or after it of the message's rest.
        self._received = 0
        #: Of the bytes that are parsed: how many, and how many messages begin in them.
        self._arriving = 0
        self._begun = 0
        #: The header of a request that offers another protocol and has a body, without the offer; else nothing.
        self._without_offer = b""
        self._answering: RequestResponseCycle | None = None
        self._ended = False

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # With TLS it was admitted before its handshake.
        admitted = self._handshake is not None or self._admit(transport)
        super().connection_made(transport)
        self._made = True
        if not admitted:
            self._write_error(_BUSY)
            self._end()

    def accept_with_tls(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        """Speak TLS on an accepted connection of which nothing was read. Its handshake counts as part of its first
        header."""
        if self._admit(transport):
            try:
                accepted = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
            except OSError:
                self._open.closed("no open file left", self.peer, self.loop)
                self._open.remove(self)
            else:
                self._handshake = self.loop.create_task(self._shake_hands(accepted, context))
        # It must read nothing: every byte is the handshake's.
        transport.abort()

    def _admit(self, transport: asyncio.Transport) -> bool:
        address = get_remote_addr(transport)
        self.peer = peer_of(None if address is None else address[0])
        self._since = self.loop.time()
        return self._open.admit(self, self.loop)

    async def _shake_hands(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        try:
            await self.loop.connect_accepted_socket(
                lambda: self, accepted, ssl=context, ssl_handshake_timeout=self._limits.header_seconds
            )
        except (Exception, asyncio.CancelledError) as error:
            accepted.close()
            self._open.closed("failed TLS handshake", self.peer, self.loop)
            self._open.remove(self)
            # ssl.SSLError is an OSError: a client that speaks no TLS, or has no valid certificate.
            if not isinstance(error, OSError | asyncio.CancelledError):
                logger.exception("a TLS handshake broke off")

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.remove(self)
        self._ended = True
        super().connection_lost(exc)

    @property
    def is_new(self) -> bool:
        return not self._ended and self.cycle is None

    def give_way(self) -> None:
        # Nobody watches it any more, so nothing of it may wait.
        self._ended = True
        if self._made:
            self.transport.abort()
        elif self._handshake is not None:
            self._handshake.cancel()

    def close_if_overdue(self, now: float) -> None:
        if not self._made:
            # The handshake has a bound of its own.
            return
        answering = self._answering
        if answering is not None and answering.response_started and not answering.response_complete:
            if self._sending_since is None:
                self._sending_since = now
        elif self._sending_since is not None and not self.transport.get_write_buffer_size():
            self._sending_since = None
            self._since = now
        waited = now - self._since
        if self._sending_since is not None:
            if now - self._sending_since > self._limits.send_seconds:
                self._open.closed("response not received in time", self.peer, self.loop)
                self._ended = True
                self.transport.abort()
        elif self._ended or self._phase is Phase.REQUEST:
            # A request has bounds of its own: `dispatch.read_body`, and the time for its commit.
            return
        elif self._phase is Phase.IDLE and self.cycle is not None:
            if waited > self._limits.idle_seconds:
                self._close("idle")
        elif waited > self._limits.header_seconds:
            self._close(_OVERDUE[self._phase])

    def timeout_keep_alive_handler(self) -> None:
        # The sweep closes idle connections; it knows whether the last response was received.
        pass

    # -- what arrives

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._unset_keepalive_if_required()
        if self._phase is Phase.IDLE:
            self._open.busy(self)
            self._phase, self._since = Phase.HEADER, self.loop.time()
            if self._sending_since is not None and not self.transport.get_write_buffer_size():
                self._sending_since = None
        alone = 0 if self._in_message else 1
        self._begun, self._arriving = 0, len(data)
        try:
            self._parse(data)
            if self._in_message and self._begun <= alone:
                self._count(len(data))
        except _Refused as refused:
            self._refuse(str(refused))
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(str(cause) if isinstance(cause, _Refused) else _MALFORMED)

    def _parse(self, data: bytes) -> None:
        """Parse bytes of HTTP/1.1, which a client goes on to speak whose offer of another protocol nobody takes up
        (RFC 9110, 7.8). The parser stops at such an offer, and takes the request's body for the other protocol."""
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                logger.debug("a client offered another protocol")
                data = self._without_offer + data[offer.args[0] :]
                self._without_offer = b""
            else:
                return

    def _count(self, size: int) -> None:
        """Count bytes of a message that is not complete. What frames a body in chunks counts too."""
        self._received += size
        if self._in_header:
            if self._received > self._limits.header_bytes:
                raise _Refused(_HEADER)
        elif self._received > self._limits.header_bytes + self._limits.body_bytes:
            raise _Refused(_BODY)

    def on_message_begin(self) -> None:
        self._begun += 1
        self._in_header = self._in_message = True
        self._received = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_header:
            # Trailers: the application has the header already, and must not find others in it.
            return
        if len(self.headers) >= MAX_HEADER_FIELDS:
            raise _Refused(_HEADER)
        # As in the base class, which would cost a call for each field.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        limit = self._limits.header_bytes
        if self._received + self._arriving > limit:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > limit:
                raise _Refused(_HEADER)
        if _reads_otherwise(self.headers):
            raise _Refused(_MALFORMED)
        waiting = len(self.pipeline)
        if waiting:
            fields = sum(1 for cycle, _ in self.pipeline for _ in cycle.scope["headers"])
            if waiting >= MAX_PIPELINED or fields > MAX_HEADER_FIELDS:
                raise _Refused(_PIPELINED)
        self._in_header = False
        self._received = 0
        if self.parser.should_upgrade():
            line = self.parser.get_method() + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()
            self._without_offer = _header_without_offer(line, self.headers)
            if self._without_offer:
                return
        self._phase = Phase.REQUEST
        super().on_headers_complete()
        if len(self.pipeline) == waiting:
            self._answering = self.cycle

    def on_message_complete(self) -> None:
        self._in_message = False
        if self._without_offer:
            return
        super().on_message_complete()
        if self._phase is Phase.UNREAD:
            self._rest(self.loop.time())

    # -- what is answered

    def on_response_complete(self) -> None:
        following = self.pipeline[-1][0] if self.pipeline else None
        now = self.loop.time()
        if self._sending_since is None:
            self._sending_since = now
        super().on_response_complete()
        if self._ended or self.transport.is_closing():
            return
        if following is not None:
            self._answering = following
        elif not self._in_message:
            self._rest(now)
        else:
            self._phase, self._since = Phase.HEADER if self._in_header else Phase.UNREAD, now

    def _rest(self, now: float) -> None:
        self._phase, self._since = Phase.IDLE, now
        self._open.idle(self)

    def _refuse(self, reason: str) -> None:
        """Answer what broke a bound, and end the connection."""
        self._open.closed(reason, self.peer, self.loop)
        running = self._answering
        if running is None or running.response_complete or running.more_body:
            if running is None or running.response_complete or not running.response_started:
                self._write_error(reason)
            self._end()
        else:
            # The application may have begun this request: the client gets the application's response, and no other.
            self._ended = True
            self.pipeline.clear()
            running.keep_alive = False
            self.flow.pause_reading()

    def _close(self, reason: str) -> None:
        """End an overdue connection."""
        self._open.closed(reason, self.peer, self.loop)
        if self._in_header:
            self._write_error(reason)
        self._end()

    def _write_error(self, reason: str) -> None:
        rule = _ANSWERS.get(reason)
        if rule is None:
            return
        response = render(rule, f"The server closes this connection: {reason}")
        lines = [b"%s: %s\r\n" % pair for pair in [*response.raw_headers, (b"connection", b"close")]]
        self.transport.write(b"".join([STATUS_LINE[rule.status], *lines, b"\r\n", bytes(response.body)]))

    def _end(self) -> None:
        """Close; what waits to be sent has its time, which `close_if_overdue` bounds."""
        if self._ended:
            self.transport.abort()
        else:
            self.transport.close()
            if self._sending_since is None:
                self._sending_since = self.loop.time()
        self._ended = True


def _header_without_offer(line: bytes, fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The header of a request without its field `upgrade`; nothing if it has none, or if the request has no body."""
    names = {name for name, _ in fields}
    if b"upgrade" not in names or names.isdisjoint((b"content-length", b"transfer-encoding")):
        return b""
    lines = [line, *(name + b": " + value for name, value in fields if name != b"upgrade")]
    return b"\r\n".join([*lines, b"", b""])


class TlsAcceptor(asyncio.Protocol):
    """Takes an accepted connection and starts TLS on it. uvicorn's own way, a server that does both, says nothing of a
    connection before its handshake is over, so that nobody could count it."""

    def __init__(self, connection: BoundedHttpProtocol, certificates: Certificates) -> None:
        self._connection = connection
        self._certificates = certificates

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        connection = self._connection
        connection.accept_with_tls(transport, self._certificates.context(connection.loop.time()))
