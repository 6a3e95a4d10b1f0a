"""The properties of namespaces: how many there may be, and what an update did."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from iceberg_hms.errors import InvalidInput

#: Characters of a namespace's properties at most. Each load returns them all.
NAMESPACE_SIZE_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NamespaceUpdate:
    """The properties that an update set and removed, and those to remove that were missing."""

    updated: tuple[str, ...]
    removed: tuple[str, ...]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, present: Mapping[str, str], removals: Collection[str], updates: Mapping[str, str]) -> NamespaceUpdate:
        """What an update of these properties does. Raises InvalidInput for a key in both, and as `check_size`."""
        both = sorted(set(updates) & set(removals))
        if both:
            raise InvalidInput(f"set and removed at once: {', '.join(both)}")
        gone = set(removals)
        kept = {key: each for key, each in present.items() if key not in gone}
        check_size(present, {**kept, **updates})
        removed = tuple(sorted(key for key in gone if key in present))
        return cls(tuple(sorted(updates)), removed, tuple(sorted(gone.difference(removed))))


def check_size(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises InvalidInput if the properties of a namespace grow beyond `NAMESPACE_SIZE_MAX`."""
    size, bound = _size(after), max(NAMESPACE_SIZE_MAX, _size(before))
    if size > bound:
        raise InvalidInput(
            f"The namespace's properties would have {size:,} characters, and {bound:,} is the most",
            next_step="keep large texts elsewhere",
        )


def _size(properties: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in properties.items())
