"""JSON text as one gzip member, made of parts of which some were compressed before.

The metadata of a table with a long history is almost all old snapshots, and goes out after each commit. A part that was
compressed by itself, up to a full flush, refers to nothing before it and ends at a byte, so the compressed parts one
after the other are the compressed whole (RFC 1951, 3.2.3; RFC 1952). Only the checksum is taken of the whole anew.
Members of their own for the parts would be simpler, but not every client reads on after the first.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Final, Protocol

#: JSON shrinks tenfold already at the lowest level, which costs the least time.
_FAST: Final = 1
#: For what is compressed once and sent many times.
_SMALL: Final = 6
#: Deflate, no name, no time, and an unknown system, so that equal text gives equal bytes.
_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: An empty block that says it is the last one.
_LAST_BLOCK: Final = b"\x03\x00"


class Packed(Protocol):
    """A part that keeps its compressed form. json: the text. deflated: what `deflated` makes of it."""

    @property
    def json(self) -> bytes: ...

    @property
    def deflated(self) -> bytes: ...


def deflated(text: bytes, level: int = _SMALL) -> bytes:
    """A part of a deflate stream that stands for itself wherever it is put."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(text) + compressor.flush(zlib.Z_FULL_FLUSH)


def plain(parts: Iterable[bytes | Packed]) -> bytes:
    """The text of all parts."""
    return b"".join(part if isinstance(part, bytes) else part.json for part in parts)


def gzipped(parts: Iterable[bytes | Packed]) -> bytes:
    """The text of all parts as gzip."""
    stream = [_HEAD]
    waiting: list[bytes] = []
    checksum = size = 0
    for part in parts:
        if isinstance(part, bytes):
            text = part
            waiting.append(text)
        else:
            text = part.json
            stream += (deflated(b"".join(waiting), _FAST), part.deflated)
            waiting.clear()
        checksum = zlib.crc32(text, checksum)
        size += len(text)
    stream += (deflated(b"".join(waiting), _FAST), _LAST_BLOCK, struct.pack("<LL", checksum, size & 0xFFFFFFFF))
    return b"".join(stream)
