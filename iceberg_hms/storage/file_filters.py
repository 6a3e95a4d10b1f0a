"""Filters that show which manifests may have a data file: the check for duplicates covers all manifests of a table.

A filter holds an eight-byte hash for each live data file. It never misses a file; very rarely it matches a file that
the manifest lacks, so the caller reads that manifest's entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from iceberg_hms.format.locations import file_key

_BYTES: Final = 8
_MASK: Final = (1 << 8 * _BYTES) - 1
#: For up to this many files, searching each filter for each file is quicker than iterating over its hashes.
_FEW: Final = 8
#: Memory of a filter besides its hashes and its location, in bytes.
_OVERHEAD: Final = 400


def file_filter(locations: Iterable[str]) -> bytes:
    """The filter of a manifest with these live data files."""
    return b"".join([_packed(file_key(location)) for location in locations])


def candidates(filters: Sequence[bytes], keys: Collection[str]) -> list[int]:
    """The indexes of the filters that match one of these keys (`format.locations.file_key`)."""
    if len(keys) > _FEW:
        wanted = frozenset(hash(key) for key in keys)
        return [at for at, each in enumerate(filters) if not wanted.isdisjoint(memoryview(each).cast("q"))]
    found: set[int] = set()
    for key in keys:
        packed = _packed(key)
        found.update([at for at, each in enumerate(filters) if packed in each])
    return sorted(found)


def size_of(location: str, filter_: bytes) -> int:
    """An estimate of the memory that a filter takes, in bytes."""
    return len(filter_) + len(location) + _OVERHEAD


def _packed(key: str) -> bytes:
    # Python's hash of a string is quick, and the same in this process and its forks, which is all that is needed.
    return (hash(key) & _MASK).to_bytes(_BYTES, "little")
