"""Metadata files are decoded once, however many simulated processes read them: a quarter of a schedule's time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from iceberg_hms.format.metadata import metadata_file

#: More than one schedule writes.
_REMEMBERED = 256


@contextmanager
def remembered() -> Iterator[None]:
    """Within, equal bytes at one location are decoded to one object. What is decoded never changes, so nobody can
    tell."""
    decode = metadata_file.decode
    metadata_file.decode = lru_cache(maxsize=_REMEMBERED)(decode)
    try:
        yield
    finally:
        metadata_file.decode = decode
