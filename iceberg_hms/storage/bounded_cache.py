"""A cache, in bounded memory, for the contents of immutable files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class BoundedCache(Generic[T]):
    """Location -> value. Evicts the least recently used entries first. Safe for threads, by `mutex`.

    max_bytes: the bound of the memory that all entries take; a larger value is not cached.
    size_of: estimates the memory that an entry takes, in bytes.
    """

    def __init__(self, max_bytes: int, size_of: Callable[[str, T], int], mutex: AbstractContextManager[Any]) -> None:
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._mutex = mutex
        self._bytes = 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, location: str) -> T | None:
        with self._mutex:
            found = self._entries.get(location)
            if found is None:
                return None
            self._entries.move_to_end(location)
            return found[0]

    def put(self, location: str, value: T) -> None:
        size = self._size_of(location, value)
        with self._mutex:
            self._evict(location)
            if size > self._max_bytes:
                return
            self._entries[location] = (value, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._evict(next(iter(self._entries)))

    def _evict(self, location: str) -> None:
        _, size = self._entries.pop(location, (None, 0))
        self._bytes -= size
