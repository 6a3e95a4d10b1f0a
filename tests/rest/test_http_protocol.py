"""How the protocol counts, on pieces as they may arrive; tests/security/test_connections.py attacks it on a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from iceberg_hms.rest.connections import ConnectionLimits, Connections
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.http_protocol import MAX_PIPELINED, BoundedHttpProtocol
from iceberg_hms.rest.settings import RestSettings

LIMIT = 1_024
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"


class Wire(asyncio.Transport):
    """Keeps what was written. waiting: bytes that the client did not take."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.7", 1), "sockname": ("10.0.0.1", 2)})
        self.written = b""
        self.waiting = 0
        self.ended = ""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.waiting

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.written.split(b"HTTP/1.1 ")[1:]]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, and responds with the names of all header fields."""
    if scope["path"] != "/unread":
        while (await receive()).get("more_body"):
            pass
    names = b",".join(name for name, _ in scope["headers"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(names))]})
    await send({"type": "http.response.body", "body": names})


def play(scene: Callable[[BoundedHttpProtocol, Wire], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        config = Config(echo, log_config=None, access_log=False)
        config.load()
        bounds = RestSettings(rest_max_header_bytes=LIMIT, rest_max_body_bytes=LIMIT, **settings)
        connections = Connections(ConnectionLimits.of(bounds, 10_000), Counters())
        protocol = BoundedHttpProtocol(config, ServerState(), {}, connections=connections)
        wire = Wire()
        protocol.connection_made(wire)
        await scene(protocol, wire)

    asyncio.run(run())


async def turn() -> None:
    """Let the event loop run what is due."""
    for _ in range(10 * MAX_PIPELINED):
        await asyncio.sleep(0)


async def feed(protocol: BoundedHttpProtocol, pieces: Sequence[bytes]) -> None:
    for piece in pieces:
        protocol.data_received(piece)
        await turn()


LONG = b"X-Long: " + b"a" * 900 + b"\r\n"


@pytest.mark.parametrize(
    ("pieces", "statuses"),
    [
        ([GET % b""] * 40, [200] * 40),
        ([POST + LONG + b"\r\n"] * 3, [200] * 3),
        ([POST, LONG, b"\r\n"], [200]),
        ([POST, LONG, LONG, b"\r\n"], [431]),
        ([POST + b"Content-Length: 1000\r\n" + LONG + b"\r\n" + b"x" * 500, b"x" * 500], [200]),
        ([POST + b"Content-Length: 1000\r\n\r\n" + b"x" * 999, b"x" + POST + LONG, b"\r\n"], [200, 200]),
        ([GET % b"" + POST + LONG, b"\r\n"], [200, 200]),
        ([(GET % b"") * MAX_PIPELINED], [200] * MAX_PIPELINED),
        ([POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 3_000], [413]),
    ],
    ids=["many", "alike", "pieces", "too long", "body", "after a body", "two at once", "pipelined", "extension"],
)
def test_each_request_is_measured_by_itself(pieces: Sequence[bytes], statuses: Sequence[int]) -> None:
    async def scene(protocol: BoundedHttpProtocol, wire: Wire) -> None:
        await feed(protocol, pieces)
        assert wire.statuses == statuses

    play(scene)


def test_trailers_never_reach_the_application() -> None:
    async def scene(protocol: BoundedHttpProtocol, wire: Wire) -> None:
        chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
        await feed(protocol, [chunked, GET % b""])
        assert wire.statuses == [200, 200]
        assert wire.written.endswith(b"host")
        assert b"authorization" not in wire.written

    play(scene)


@pytest.mark.parametrize(
    ("pieces", "seconds", "ended"),
    [
        ([], 9, ""),
        ([], 11, "closed"),
        ([POST], 11, "closed"),
        ([GET % b""], 100, ""),
        ([GET % b""], 121, "closed"),
        ([GET % b"", POST], 11, "closed"),
        ([POST + b"Content-Length: 9\r\n\r\n"], 1_000, ""),
        ([b"POST /unread HTTP/1.1\r\nContent-Length: 9\r\n\r\n"], 11, "closed"),
        ([b"POST /unread HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b"123456789"], 100, ""),
    ],
)
def test_each_phase_has_its_time(pieces: Sequence[bytes], seconds: float, ended: str) -> None:
    async def scene(protocol: BoundedHttpProtocol, wire: Wire) -> None:
        await feed(protocol, pieces)
        protocol.close_if_overdue(asyncio.get_running_loop().time())
        protocol.close_if_overdue(asyncio.get_running_loop().time() + seconds)
        assert wire.ended == ended

    play(scene)


def test_a_slow_reader_has_its_time_and_then_the_idle_time() -> None:
    async def scene(protocol: BoundedHttpProtocol, wire: Wire) -> None:
        now = asyncio.get_running_loop().time()
        wire.waiting = 1
        await feed(protocol, [GET % b""])
        protocol.close_if_overdue(now + 299)
        wire.waiting = 0
        protocol.close_if_overdue(now + 299)
        protocol.close_if_overdue(now + 400)
        assert wire.ended == ""
        wire.waiting = 1
        await feed(protocol, [GET % b""])
        protocol.close_if_overdue(now + 301)
        assert wire.ended == "aborted"

    play(scene)


def test_who_gives_way_leaves_at_once() -> None:
    async def scene(protocol: BoundedHttpProtocol, wire: Wire) -> None:
        protocol.give_way()
        protocol.data_received(GET % b"")
        assert (wire.ended, wire.written) == ("aborted", b"")

    play(scene)
