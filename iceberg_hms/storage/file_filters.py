"""Which data files a manifest may have: what the check of duplicates asks of every manifest of a table.

A filter holds a hash of eight bytes for each live data file. It never misses a file that is there. Once in a very long
while it names a manifest that does not have the file, so its caller reads that manifest's entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from iceberg_hms.format.locations import file_key

_BYTES: Final = 8
_MASK: Final = (1 << 8 * _BYTES) - 1
#: Up to so many files, searching a filter for each of them is quicker than going through all that it has.
_FEW: Final = 8
#: What a filter takes in memory beside its hashes and its location.
_OVERHEAD: Final = 400


def file_filter(locations: Iterable[str]) -> bytes:
    """The filter of a manifest with these live data files."""
    return b"".join(_packed(file_key(location)) for location in locations)


def candidates(filters: Sequence[bytes], keys: Collection[str]) -> list[int]:
    """The places of those filters whose manifests may have a file of these keys (`format.locations.file_key`)."""
    if len(keys) > _FEW:
        wanted = frozenset(hash(key) for key in keys)
        return [at for at, each in enumerate(filters) if not wanted.isdisjoint(memoryview(each).cast("q"))]
    found: set[int] = set()
    for key in keys:
        packed = _packed(key)
        found.update([at for at, each in enumerate(filters) if packed in each])
    return sorted(found)


def weight(location: str, known: bytes) -> int:
    """About what a filter takes in memory, in bytes."""
    return len(known) + len(location) + _OVERHEAD


def _packed(key: str) -> bytes:
    # Python's own hash of a text: quick, and the same as long as the process lives, and in those that it forks.
    return (hash(key) & _MASK).to_bytes(_BYTES, "little")
