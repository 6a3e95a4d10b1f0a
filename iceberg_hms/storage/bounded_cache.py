"""What was read of files that never change, by location, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedCache(Generic[T]):
    """The least recently used go first. Not for use by several threads at once.

    max_bytes: bound of what all together take in memory; what is larger alone is not kept.
    weigh: an estimate of what an entry takes, in bytes.
    """

    def __init__(self, max_bytes: int, weigh: Callable[[str, T], int]) -> None:
        self._max_bytes = max_bytes
        self._weigh = weigh
        self._bytes = 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, location: str) -> T | None:
        found = self._entries.get(location)
        if found is None:
            return None
        self._entries.move_to_end(location)
        return found[0]

    def put(self, location: str, value: T) -> None:
        self._forget(location)
        size = self._weigh(location, value)
        if size > self._max_bytes:
            return
        self._entries[location] = (value, size)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._entries)))

    def _forget(self, location: str) -> None:
        _, size = self._entries.pop(location, (None, 0))
        self._bytes -= size
