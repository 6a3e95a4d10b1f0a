"""Bodies of answers that many requests share.

All commits of a group are answered with the same metadata, which may have megabytes. It is rendered once, and
compressed once, and every answer sends the same bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from iceberg_hms.format.metadata.gzip_parts import Packed, gzipped, plain

#: Groups of so many tables at the same time share their bodies; more render some again.
KEPT: Final = 16
#: And so many bytes are kept; one body is kept whatever its size.
KEPT_BYTES: Final = 64 * 1024 * 1024

#: Calls a function on a thread, as `Workers.run` does.
Run = Callable[[Callable[[], bytes]], Awaitable[bytes]]


class Body:
    """Bytes, and the same compressed as soon as somebody wants them so. Safe for threads."""

    def __init__(self, parts: Iterable[bytes | Packed]) -> None:
        self._parts = tuple(parts)
        self.data = plain(self._parts)
        self._packed: bytes | None = None
        self._packing: asyncio.Future[bytes] | None = None
        self._mutex = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes, of both."""
        return len(self.data) + len(self._packed or b"")

    def packed(self) -> bytes:
        """As gzip. Takes long the first time."""
        with self._mutex:
            if self._packed is None:
                self._packed = gzipped(self._parts)
            return self._packed

    async def pack(self, run: Run) -> None:
        """See to it that `packed` takes no time. All answers that share the body wait for one `run`, which calls a
        function on a thread. Raises what `run` raises."""
        if self._packing is None or (self._packing.done() and self._packed is None):
            self._packing = asyncio.ensure_future(run(self.packed))
        await asyncio.shield(self._packing)


class Bodies:
    """The bodies that were made last, by what they are of. Safe for threads: who comes while one is made waits."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._made: OrderedDict[str, Body] = OrderedDict()

    def get(self, key: str, make: Callable[[], Iterable[bytes | Packed]]) -> Body:
        """The body of `key`, which never means another one; `make` renders its parts."""
        with self._mutex:
            body = self._made.get(key)
            if body is not None:
                self._made.move_to_end(key)
                return body
            body = self._made[key] = Body(make())
            while len(self._made) > 1 and (len(self._made) > KEPT or self._size() > KEPT_BYTES):
                self._made.popitem(last=False)
            return body

    def _size(self) -> int:
        return sum(body.size for body in self._made.values())
