"""JSON text as one gzip member, made of parts, some of which are already compressed.

The metadata of a table with a long history is mostly old snapshots, and the server sends it after each commit. A part
that was compressed separately, up to a full flush, refers to nothing before it and ends at a byte boundary, so the
concatenated parts are the compressed whole (RFC 1951, 3.2.3; RFC 1952). Only the checksum covers the whole text and is
computed again. A gzip member for each part would be simpler, but some clients stop after the first member.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

#: For parts that are compressed for each response: JSON shrinks tenfold even at the fastest level.
_FAST_LEVEL: Final = 1
#: For parts that are compressed once and sent many times.
_SMALL_LEVEL: Final = 6
#: Deflate, no name, no time, and an unknown system, so that equal text gives equal bytes.
_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: An empty block, marked as the last one.
_LAST_BLOCK: Final = b"\x03\x00"


class CompressedPart(Protocol):
    """A part that keeps its compressed form. json: the text. deflated: the result of `deflate` for it."""

    @property
    def json(self) -> bytes: ...

    @property
    def deflated(self) -> bytes: ...


def deflate(text: bytes, level: int = _SMALL_LEVEL) -> bytes:
    """A part of a deflate stream that can be decoded wherever it is put."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(text) + compressor.flush(zlib.Z_FULL_FLUSH)


def join_text(parts: Iterable[bytes | CompressedPart]) -> bytes:
    """The text of all parts, concatenated."""
    return b"".join(part if isinstance(part, bytes) else part.json for part in parts)


def join_gzip(parts: Iterable[bytes | memoryview | CompressedPart]) -> bytes:
    """The text of all parts, concatenated, as gzip."""
    stream = [_HEADER]
    waiting: list[bytes | memoryview] = []
    checksum = size = 0
    for part in parts:
        text: bytes | memoryview
        if isinstance(part, bytes | memoryview):
            text = part
            waiting.append(text)
        else:
            text = part.json
            stream += (deflate(b"".join(waiting), _FAST_LEVEL), part.deflated)
            waiting.clear()
        checksum = zlib.crc32(text, checksum)
        size += len(text)
    stream += (deflate(b"".join(waiting), _FAST_LEVEL), _end(checksum, size))
    return b"".join(stream)


@dataclass(frozen=True, slots=True)
class GzipStart:
    """A text as the beginning of a gzip member, which another process may end. checksum, size: of the text."""

    data: bytes
    checksum: int
    size: int

    @classmethod
    def of(cls, text: bytes) -> GzipStart:
        return cls(_HEADER + deflate(text, _FAST_LEVEL), zlib.crc32(text), len(text))

    def ended(self, text: bytes) -> bytes:
        """The member, with this text at its end."""
        end = _end(zlib.crc32(text, self.checksum), self.size + len(text))
        return b"".join((self.data, deflate(text, _FAST_LEVEL), end))


def _end(checksum: int, size: int) -> bytes:
    return _LAST_BLOCK + struct.pack("<LL", checksum, size & 0xFFFFFFFF)
