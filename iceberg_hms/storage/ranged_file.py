"""A file of a remote store, read in ranges: what reads a footer asks for the end of a file, and little more."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

#: Bytes from the end that come with the length, in one request. Footers are mostly shorter: of a Parquet file with 100
#: columns in 8 row groups about 60 KiB.
TAIL_BYTES: Final = 64 * 1024
#: Bytes for each further request, at least.
_RANGE_BYTES: Final = 64 * 1024


class RangedFile:
    """Reads forward from the position of the last `seek`, as a pyarrow file does; not thread-safe.

    size: of the file, in bytes. tail: its last bytes. read_range: the bytes between two positions.
    """

    def __init__(self, size: int, tail: bytes, read_range: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._read_range = read_range
        self._at = 0
        #: What was read last, and where it starts; and the tail.
        self._parts = [(size - len(tail), tail)]

    def size(self) -> int:
        """Bytes."""
        return self._size

    def seek(self, position: int) -> None:
        """The next `read` begins so many bytes after the file's start."""
        self._at = position

    def read(self, count: int) -> bytes:
        """The next bytes: so many, or fewer at the file's end. Raises as `Driver.read_range`."""
        start, end = self._at, min(self._at + count, self._size)
        if start >= end:
            return b""
        self._at = end
        for first, data in self._parts:
            if first <= start and end <= first + len(data):
                return data[start - first : end - first]
        data = self._read_range(start, min(max(end, start + _RANGE_BYTES), self._size))
        self._parts = [self._parts[0], (start, data)]
        return data[: end - start]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts = []
