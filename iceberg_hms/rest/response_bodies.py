"""Response bodies that many requests share.

All commits of a group get the same metadata, which may have megabytes. It is rendered once and compressed once, and
every response sends the same bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from iceberg_hms.format.metadata.gzip_parts import CompressedPart, join_gzip, join_text

#: How many bodies are kept: of commits on more tables at once, some are rendered again.
KEPT_BODIES: Final = 16
#: How many bytes are kept. The last body is kept whatever its size.
KEPT_BYTES: Final = 64 * 1024 * 1024

#: Calls a function on a thread, as `RequestThreads.run` does.
RunOnThread = Callable[[Callable[[], bytes]], Awaitable[bytes]]


class ResponseBody:
    """Bytes, and their gzip form once a client accepts it. Safe for threads."""

    def __init__(self, parts: Iterable[bytes | CompressedPart]) -> None:
        self._parts = tuple(parts)
        self.data = join_text(self._parts)
        self._packed: bytes | None = None
        self._packing: asyncio.Future[bytes] | None = None
        self._mutex = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes in memory, in both forms."""
        return len(self.data) + len(self._packed or b"")

    def packed(self) -> bytes:
        """The gzip form. The first call compresses, which takes long."""
        with self._mutex:
            if self._packed is None:
                self._packed = join_gzip(self._parts)
            return self._packed

    async def pack(self, run: RunOnThread) -> None:
        """Compress on a thread, so that `packed` returns at once. All responses that share the body wait for one `run`,
        which calls a function on a thread. Raises what `run` raises; the next call tries again."""
        if self._packing is None or (self._packing.done() and self._packed is None):
            self._packing = asyncio.ensure_future(run(self.packed))
        await asyncio.shield(self._packing)


class ResponseBodyCache:
    """The last bodies, by key. Safe for threads: other callers wait while one renders a body."""

    def __init__(self, *, max_bytes: int = KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._mutex = threading.Lock()
        self._bodies: OrderedDict[str, ResponseBody] = OrderedDict()

    def get(self, key: str, make: Callable[[], Iterable[bytes | CompressedPart]]) -> ResponseBody:
        """The body of `key`; `make` renders its parts if it is not cached. A key always stands for the same bytes."""
        with self._mutex:
            body = self._bodies.get(key)
            if body is not None:
                self._bodies.move_to_end(key)
                return body
            body = self._bodies[key] = ResponseBody(make())
            while len(self._bodies) > 1 and (len(self._bodies) > KEPT_BODIES or self._size() > self._max_bytes):
                self._bodies.popitem(last=False)
            return body

    def _size(self) -> int:
        return sum(body.size for body in self._bodies.values())
