"""Protobuf messages and ORC files made by hand, for the tests of footers that no writer here makes."""

from __future__ import annotations

import struct
from typing import Any

#: Wire types.
NUMBER, EIGHT_BYTES, BYTES = 0, 1, 2


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def message(*fields: tuple[int, Any]) -> bytes:
    """A message: int values are unsigned numbers, floats have eight bytes."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(varint(number << 3 | NUMBER) + varint(value))
        elif isinstance(value, float):
            parts.append(varint(number << 3 | EIGHT_BYTES) + struct.pack("<d", value))
        else:
            data = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | BYTES) + varint(len(data)) + data)
    return b"".join(parts)


def packed(*values: int) -> bytes:
    return b"".join(varint(value) for value in values)


def file_of(footer: bytes, *, compression: int = 0, magic: bytes | None = b"ORC", start: bytes = b"ORC") -> bytes:
    """A file with a footer and no rows."""
    fields: list[tuple[int, Any]] = [(1, len(footer)), (2, compression)]
    if magic is not None:
        fields.append((8000, magic))
    postscript = message(*fields)
    return start + footer + postscript + bytes([len(postscript)])


def footer_of(
    kinds: list[bytes], statistics: list[bytes], *, rows: int = 10, more: tuple[tuple[int, Any], ...] = ()
) -> bytes:
    """A footer with types and statistics as messages; the first type is the root."""
    return message(*[(4, each) for each in kinds], (6, rows), *[(7, each) for each in statistics], *more)


def one_column(
    kind: int, statistics: bytes, *, rows: int = 10, more: tuple[tuple[int, Any], ...] = (), **of: Any
) -> bytes:
    """A file with one column `x`. kind: its number in the footer. of: precision, scale."""
    root = message((1, 12), (2, packed(1)), (3, "x"))
    described = [(1, kind)] + [({"precision": 5, "scale": 6}[key], value) for key, value in of.items()]
    return file_of(footer_of([root, message(*described)], [message((1, rows)), statistics], rows=rows, more=more))
