"""Patterns of names: text that names itself, and `*` for any characters."""

from __future__ import annotations

from typing import Final

#: The parts of the pattern `*`, which most callers have.
_ALL: Final = ["", ""]


class NamePattern:
    """One pattern. text: in lower case, as names are."""

    __slots__ = ("_parts",)

    def __init__(self, text: str) -> None:
        self._parts = text.split("*")

    def matches(self, name: str) -> bool:
        """In linear time, whatever the pattern: names come from clients."""
        if self._parts == _ALL:
            return True
        first, *middle = self._parts
        if not middle:
            return name == first
        last = middle.pop()
        if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
            return False
        at, end = len(first), len(name) - len(last)
        for part in middle:
            at = name.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True
