"""A load that costs its client almost nothing: requests that were made beforehand, sent over HTTP connections.

Each is a commit as a stock client sends it: its manifest and its list are on disk, and it asserts the snapshot that the
table had when it was made. So the server rebases all but the first of a table whose properties allow that.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import orjson

from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.format.manifests.manifest import DataFile
from simulation.actors.requests import for_update_table


@dataclass(frozen=True)
class Body:
    """The request that appends one file. snapshot_id: by which its client finds it again. path: of the file."""

    data: bytes
    snapshot_id: int
    path: str


def append_bodies(catalog: Any, table: str, files: Iterable[DataFile]) -> list[Body]:
    """Appends of one file each, all on the snapshot that the table has now."""
    metadata = catalog.load(table).metadata
    made = []
    for file in files:
        manifests = catalog.services.ports.manifests()
        snapshot_id = SYSTEM_CLOCK.snapshot_id()
        change = Append(
            NewSnapshot(snapshot_id=snapshot_id, table_uuid=metadata.uuid, now_ms=SYSTEM_CLOCK.now_ms),
            NewDataFiles(
                [file],
                snapshot_id=snapshot_id,
                schema_id=metadata.current_schema_id,
                specs={metadata.default_spec_id: None},
            ),
            check_duplicates=False,
        )
        updates = [dict(update) for update in change.stage(metadata, manifests).updates]
        manifests.flush()
        data = orjson.dumps({"requirements": list(for_update_table(metadata, updates)), "updates": updates})
        made.append(Body(data, snapshot_id, file.file_path))
    return made


#: What is read at once; a large answer is read and thrown away in pieces of it.
_CHUNK = 1 << 20


class Connection:
    """HTTP/1.1, kept alive, just enough for a commit."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._where = (parts.hostname or "", parts.port or 0)
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._chunk = bytearray(_CHUNK)

    async def open(self) -> None:
        await asyncio.get_running_loop().sock_connect(self._socket, self._where)

    async def post(self, path: str, body: bytes, *, keep: bool = True) -> tuple[int, bytes]:
        """Status and body of the answer, which is compressed if the server does that; without `keep` that of a success
        is thrown away as it comes, which costs less. Raises OSError or EOFError if the connection ends before it is
        there."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._where[0]}\r\nContent-Type: application/json\r\n"
            f"Accept-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        await asyncio.get_running_loop().sock_sendall(self._socket, head.encode() + body)
        begun = b""
        while b"\r\n\r\n" not in begun:
            begun += await self._receive()
        answer, _, first = begun.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:")
        )
        status = int(answer.split(b" ", 2)[1])
        kept, left = [first], length - len(first)
        while left > 0:
            piece = await self._receive()
            left -= len(piece)
            if keep or status != HTTPStatus.OK:
                kept.append(bytes(piece))
        return status, b"".join(kept)

    def close(self) -> None:
        self._socket.close()

    async def _receive(self) -> memoryview:
        count = await asyncio.get_running_loop().sock_recv_into(self._socket, self._chunk)
        if not count:
            raise EOFError("the server closed the connection")
        return memoryview(self._chunk)[:count]
