"""A way to a server that takes time: a TCP proxy that holds each piece of an answer back."""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from urllib.parse import urlsplit

import orjson

from benchmarks.instruments import parser


class _Side(asyncio.Protocol):
    """One of the two connections of a pair; what arrives here goes out of the other, `delay` seconds later."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self.other: _Side | None = None
        self.transport: Any = None
        self._early: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def join(self, other: _Side) -> None:
        self.other = other
        for data in self._early:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        elif self._delay:
            asyncio.get_running_loop().call_later(self._delay, self.other.transport.write, data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        if self.other is not None:
            asyncio.get_running_loop().call_later(self._delay, self.other.transport.close)


class _Client(_Side):
    def __init__(self, host: str, port: int, delay: float) -> None:
        super().__init__(0.0)
        self._target = (host, port)
        self._answers_after = delay
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        task = asyncio.get_running_loop().create_task(self._connect())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        server = _Side(self._answers_after)
        server.other = self
        await asyncio.get_running_loop().create_connection(lambda: server, *self._target)
        self.join(server)


def run_distance() -> None:
    """Stand before a server until the input ends; prints one line of JSON with its address."""
    options = parser(run_distance.__doc__)
    options.add_argument("--target", required=True, help="http://host:port")
    options.add_argument("--seconds", type=float, required=True, help="how much later each answer comes")
    given = options.parse_args()
    asyncio.run(_serve(urlsplit(given.target), given.seconds))


async def _serve(target: Any, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Client(target.hostname, target.port, seconds), "127.0.0.1", 0)
    print(orjson.dumps({"port": server.sockets[0].getsockname()[1]}).decode(), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
