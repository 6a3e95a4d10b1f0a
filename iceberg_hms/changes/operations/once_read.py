"""What an operation found in manifests, which never change: it reads each once, however often it is staged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

#: What tells one read from all others: a manifest's path, if only its own content matters; its entry in a list, where
#: its files inherit numbers from it; and whatever else decides what is found.
Key = TypeVar("Key", bound=Hashable)
#: What is found there.
Found = TypeVar("Found")


class OnceRead(Generic[Key, Found]):
    """Remembers what was found. nothing: what is found where `read` finds nothing."""

    def __init__(self, nothing: Found) -> None:
        self._nothing = nothing
        self._found: dict[Key, Found] = {}

    def of(self, keys: Sequence[Key], read: Callable[[Sequence[Key]], Iterable[tuple[Key, Found]]]) -> list[Found]:
        """What is found for each key, in their order.

        read: what is found for keys that are new; it may leave out those for which nothing is. If it raises, those that
        it has not given yet stay new."""
        new = [each for each in dict.fromkeys(keys) if each not in self._found]
        for key, found in read(new) if new else ():
            self._found[key] = found
        for key in new:
            self._found.setdefault(key, self._nothing)
        return [self._found[each] for each in keys]
