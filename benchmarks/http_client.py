"""An HTTP client that costs almost nothing, so that figures are the server's: it throws bodies away."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from urllib.parse import urlsplit

_PIECE_BYTES = 1 << 20


class Answer(NamedTuple):
    """size: bytes of the body, as they were sent. tag: the ETag, or ""."""

    status: int
    size: int
    tag: str


class HttpClient:
    """One connection, kept alive. Raises OSError or EOFError if it ends before an answer is there."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._host, self._port = parts.hostname or "", parts.port or 0

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=_PIECE_BYTES)

    async def ask(self, method: str, path: str, body: bytes = b"", *headers: str) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}:{self._port}", *headers]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *others = head.decode("latin-1").split("\r\n")
        sent = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in others if line)}
        if sent.get("transfer-encoding", "").lower() == "chunked":
            size = await self._skip_chunks()
        else:
            size = await self._skip(int(sent.get("content-length", "0")))
        return Answer(int(first.split(" ", 2)[1]), size, sent.get("etag", ""))

    def close(self) -> None:
        self._writer.close()

    async def _skip_chunks(self) -> int:
        size = 0
        while length := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            size += await self._skip(length)
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")
        return size

    async def _skip(self, length: int) -> int:
        left = length
        while left:
            piece = await self._reader.read(min(left, _PIECE_BYTES))
            if not piece:
                raise EOFError("the server closed the connection")
            left -= len(piece)
        return length
