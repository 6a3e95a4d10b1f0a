"""Response bodies that many requests share.

All commits of a group get the same metadata, which may have megabytes. It is rendered once and compressed once, and
every response sends the same bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from iceberg_hms.format.metadata.gzip_parts import CompressedPart, join_gzip, join_text
from iceberg_hms.memory_budget import HeldMemory, MemoryBudget

#: How many bodies are kept: of commits on more tables at once, some are rendered again.
KEPT_BODIES: Final = 16
#: How many bytes are kept. The last body is kept whatever its size.
KEPT_BYTES: Final = 64 * 1024 * 1024

#: Calls a function on a thread, as `RequestThreads.run` does.
RunOnThread = Callable[[Callable[[], bytes]], Awaitable[bytes]]


class ResponseBody:
    """Bytes, and their gzip form once a client accepts it. Safe for threads. memory: counts the bytes as long as a
    response has them; it holds nothing yet. must: whatever the budget has left. Raises ResourceExhausted."""

    def __init__(self, parts: Iterable[bytes | CompressedPart], memory: HeldMemory, *, must: bool = True) -> None:
        found = tuple(parts)
        self.data = join_text(found)
        self._memory = memory
        if must:
            memory.set_to(len(self.data))
        else:
            memory.require(len(self.data), "a response")
        self._parts = tuple(_within(self.data, found))
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
                self._memory.set_to(self.size)
            return self._packed

    async def pack(self, run: RunOnThread) -> None:
        """Compress on a thread, so that `packed` returns at once. All responses that share the body wait for one `run`,
        which calls a function on a thread. Raises what `run` raises; the next call tries again."""
        if self._packing is None or (self._packing.done() and self._packed is None):
            self._packing = asyncio.ensure_future(run(self.packed))
        await asyncio.shield(self._packing)


def _within(text: bytes, parts: Iterable[bytes | CompressedPart]) -> Iterator[bytes | memoryview | CompressedPart]:
    """The parts of a text, of which those without a compressed form take no memory of their own."""
    view, at = memoryview(text), 0
    for part in parts:
        size = len(part if isinstance(part, bytes) else part.json)
        yield view[at : at + size] if isinstance(part, bytes) else part
        at += size


class ResponseBodyCache:
    """The last bodies, by key. Safe for threads: others that render wait while one renders a body, whose memory is
    counted in the end. The event loop, which empties the cache when memory is short, waits for nobody. memory: counts
    the bodies."""

    def __init__(self, memory: MemoryBudget | None = None, *, max_bytes: int = KEPT_BYTES) -> None:
        self._memory = memory or MemoryBudget()
        self._max_bytes = max_bytes
        self._mutex, self._rendering = threading.Lock(), threading.Lock()
        self._bodies: OrderedDict[str, ResponseBody] = OrderedDict()
        self._memory.add_cache(self.clear)

    def clear(self) -> None:
        """Keep no body of those that are here."""
        with self._mutex:
            self._bodies.clear()

    def get(self, key: str, make: Callable[[], Iterable[bytes | CompressedPart]], *, must: bool = True) -> ResponseBody:
        """The body of `key`; `make` renders its parts if it is not cached. A key always stands for the same bytes.
        must: as for `ResponseBody`."""
        body = self._found(key)
        if body is not None:
            return body
        with self._rendering:
            body = self._found(key)
            if body is None:
                body = ResponseBody(make(), self._memory.share(), must=must)
                self._keep(key, body)
            return body

    def _found(self, key: str) -> ResponseBody | None:
        with self._mutex:
            body = self._bodies.get(key)
            if body is not None:
                self._bodies.move_to_end(key)
            return body

    def _keep(self, key: str, body: ResponseBody) -> None:
        with self._mutex:
            self._bodies[key] = body
            while len(self._bodies) > 1 and (len(self._bodies) > KEPT_BODIES or self._size() > self._max_bytes):
                self._bodies.popitem(last=False)

    def _size(self) -> int:
        return sum(body.size for body in self._bodies.values())
