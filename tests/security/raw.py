"""A real server on loopback over a catalog in memory, and clients that send whatever bytes they like."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from iceberg_hms.rest.server import RestServer
from tests.rest.fakes import SCHEMA, ScriptedCatalog

#: How long an event may take that these tests wait for, in seconds.
PATIENCE = 30.0
TABLE = "/v1/namespaces/logging/tables/events"


@contextmanager
def serving(token: str | None = None, **settings: Any) -> Iterator[tuple[RestServer, ScriptedCatalog]]:
    """The server and its catalog, which has an empty table logging.events."""
    catalog = ScriptedCatalog(**settings)
    catalog.create_namespace("logging")
    catalog.create_table("logging.events", SCHEMA)
    with catalog, RestServer(catalog, "127.0.0.1", 0, token, settings=catalog.rest_settings) as server:
        yield server, catalog


@dataclass
class Answer:
    """One response. headers: their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Raw:
    """One connection. source: the address that it comes from; all of 127.0.0.0/8 is this machine."""

    def __init__(self, server: RestServer, source: str = "127.0.0.1", receive_buffer: int | None = None) -> None:
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(PATIENCE)
        self._socket.bind((source, 0))
        self._socket.connect(("127.0.0.1", server.port))
        self._reader = self._socket.makefile("rb")

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def send(self, data: bytes) -> Raw:
        """Send all. Raises OSError if the server closed the connection."""
        self._socket.sendall(data)
        return self

    def send_until_closed(self, piece: bytes, limit: int) -> int:
        """Send the piece again and again until the server closes the connection or `limit` bytes are sent; how many
        bytes were sent."""
        sent = 0
        try:
            while sent < limit:
                self.send(piece)
                sent += len(piece)
        except OSError:
            pass
        return sent

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Send a request and read its response."""
        return self.send(request(method, path, body, **headers)).answer(method)

    def answer(self, method: str = "GET") -> Answer:
        """Read one response. Raises EOFError if the connection ends before one."""
        line = self._line()
        if not line:
            raise EOFError("the server closed the connection")
        status = int(line.split()[1])
        headers = {}
        while (line := self._line().strip()) != b"":
            name, _, value = line.partition(b":")
            headers[name.decode().lower()] = value.decode().strip()
        length = 0 if method == "HEAD" or status < 200 else int(headers.get("content-length", 0))
        return Answer(status, headers, self._reader.read(length))

    def ended(self) -> bool:
        """Wait until the server closed the connection; False if it sent something instead."""
        try:
            return self._reader.read(1) == b""
        except ConnectionError:
            return True

    def _line(self) -> bytes:
        try:
            return self._reader.readline()
        except ConnectionError:
            return b""


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request. headers: further ones, with `_` for `-` in their names."""
    fields = {"Host": "127.0.0.1", "Content-Type": "application/json"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    if body:
        fields["Content-Length"] = str(len(body))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def metric(server: RestServer, sample: str) -> float:
    """The value of one of the server's metrics, without their common prefix; 0 if it is not there."""
    with Raw(server, "127.0.0.9") as scraper:
        for line in scraper.ask("GET", "/metrics").body.decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name == f"iceberg_hms_{sample}":
                return float(value)
    return 0.0


def closed_for(server: RestServer, reason: str) -> float:
    """How many connections the server closed or refused for a reason."""
    return metric(server, f'rest_connections_closed_total{{reason="{reason}"}}')
