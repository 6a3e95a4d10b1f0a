"""Finds the ranges of values that overlap one, among many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class RangeIndex(Generic[Item]):
    """Items, each with the range of its values: lower and upper are in it, and all values have one order.

    The items are sorted by their lower ends. `overlapping` starts with the last item that begins before the range asked
    for ends. It walks back, and stops where all items that are left end before that range begins.
    """

    def __init__(self) -> None:
        self._items: list[tuple[Any, Any, Item]] = []
        #: Of the items when they were last sorted: their lower ends, and the greatest upper end up to each.
        self._lowers: list[Any] = []
        self._reach: list[Any] = []

    def __iter__(self) -> Iterator[Item]:
        return (item for _, _, item in self._items)

    def add(self, lower: Any, upper: Any, item: Item) -> None:
        """One more."""
        self._items.append((lower, upper, item))

    def overlapping(self, lower: Any, upper: Any) -> Iterator[Item]:
        """The items whose range has a value from lower to upper."""
        if len(self._lowers) != len(self._items):
            self._items.sort(key=lambda each: each[0])
            self._lowers = [each[0] for each in self._items]
            self._reach = list(accumulate((each[1] for each in self._items), max))
        for at in range(bisect_right(self._lowers, upper) - 1, -1, -1):
            if self._reach[at] < lower:
                return
            _, end, item = self._items[at]
            if lower <= end:
                yield item
