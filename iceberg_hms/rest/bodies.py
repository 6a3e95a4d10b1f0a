"""Bodies of answers that many requests share.

All commits of a group are answered with the same metadata, which may have megabytes. It is rendered once, and
compressed once, and every answer sends the same bytes.
"""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

#: Metadata shrinks tenfold already at the lowest level, which costs the least time.
COMPRESS_LEVEL: Final = 1
#: Groups of so many tables at the same time share their bodies; more render some again.
KEPT: Final = 16
#: And so many bytes are kept; one body is kept whatever its size.
KEPT_BYTES: Final = 64 * 1024 * 1024


class Body:
    """Bytes, and the same compressed as soon as somebody wants them so. Safe for threads."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._packed: bytes | None = None
        self._mutex = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes, of both."""
        return len(self.data) + len(self._packed or b"")

    def packed(self) -> bytes:
        """As gzip."""
        with self._mutex:
            if self._packed is None:
                self._packed = gzip.compress(self.data, COMPRESS_LEVEL, mtime=0)
            return self._packed


class Bodies:
    """The bodies that were made last, by what they are of. Safe for threads: who comes while one is made waits."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._made: OrderedDict[str, Body] = OrderedDict()

    def get(self, key: str, make: Callable[[], bytes]) -> Body:
        """The body of `key`, which never means another one; `make` renders it."""
        with self._mutex:
            body = self._made.get(key)
            if body is None:
                body = self._made[key] = Body(make())
            self._made.move_to_end(key)
            while len(self._made) > 1 and (len(self._made) > KEPT or self._size() > KEPT_BYTES):
                self._made.popitem(last=False)
            return body

    def _size(self) -> int:
        return sum(body.size for body in self._made.values())
