"""A load that costs its client almost nothing: appends that were made beforehand, sent over plain connections.

Each is a commit as a stock client sends it: its manifest and its list are on disk, and it asserts the snapshot that the
table had when it was made. So all but the first of a table are rebased.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from iceberg_hms.changes.append import Append
from iceberg_hms.changes.derived import for_update_table
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.format.manifest import DataFile


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
        manifests = catalog._services.world.manifests()
        snapshot_id = SYSTEM_CLOCK.snapshot_id()
        change = Append(
            [file],
            snapshot_id=snapshot_id,
            schema_id=metadata.current_schema_id,
            spec_id=metadata.default_spec_id,
            table_uuid=metadata.uuid,
            now_ms=SYSTEM_CLOCK.now_ms,
        )
        updates = [dict(update) for update in change.stage(metadata, manifests).updates]
        manifests.flush()
        data = orjson.dumps({"requirements": list(for_update_table(metadata, updates)), "updates": updates})
        made.append(Body(data, snapshot_id, file.file_path))
    return made


class Connection:
    """HTTP/1.1, kept alive, just enough for a commit. It calls itself PyIceberg, whose appends count as plain."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._where = (parts.hostname or "", parts.port or 0)

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._where, limit=2**26)

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer. Raises OSError or EOFError if the connection ends before it is there."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._where[0]}\r\nContent-Type: application/json\r\n"
            f"User-Agent: PyIceberg/0.12.0\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:")
        )
        return int(answer.split(b" ", 2)[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()
