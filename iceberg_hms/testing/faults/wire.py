"""Finds where a message of Thrift's binary protocol ends, and which call it is. It does not decode the arguments.

A message is a strict header (version and type, method name, sequence id) and one struct. It carries no length, so
the reader steps over the struct, field by field (thrift-binary-protocol.md of Apache Thrift).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from iceberg_hms.errors import InvalidInput

#: The reader refuses longer or more deeply nested messages as noise.
MESSAGE_BYTES_MAX = 256 * 1024 * 1024
DEPTH_MAX = 64

_VERSION_1 = 0x8001_0000
_VERSION_MASK = 0xFFFF_0000
_STOP = 0
_STRING, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15
#: Thrift type -> bytes: bool, byte, double, i16, i32, i64.
_FIXED = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}


class MessageKind(IntEnum):
    """The kind of a message (Thrift's TMessageType)."""

    CALL = 1
    REPLY = 2
    EXCEPTION = 3
    ONEWAY = 4


@dataclass(frozen=True, slots=True)
class Message:
    """One whole message. data: its bytes, unchanged."""

    method: str
    kind: MessageKind
    sequence: int
    data: bytes


def read_message(receive: Callable[[int], bytes]) -> Message | None:
    """The next message of a stream, None if the stream ends before it begins.

    receive: as `socket.recv`: returns between one and the given number of bytes, and none at the end of the stream.
    Raises EOFError if the stream ends within the message, InvalidInput if it is no strict binary message.
    """
    first = receive(1)
    if not first:
        return None
    tape = _Tape(receive, first)
    version = struct.unpack("!I", first + tape.take(3))[0]
    if version & _VERSION_MASK != _VERSION_1:
        raise InvalidInput(f"no message of Thrift's strict binary protocol begins with {version:#010x}")
    method = tape.take(tape.length()).decode("utf-8", "replace")
    sequence = struct.unpack("!i", tape.take(4))[0]
    try:
        kind = MessageKind(version & 0xFF)
    except ValueError as error:
        raise InvalidInput(f"{method} is a message of no known type: {version & 0xFF}") from error
    _skip(tape, _STRUCT, 0)
    return Message(method, kind, sequence, bytes(tape.data))


class _Tape:
    """Reads bytes from a stream and keeps them all."""

    def __init__(self, receive: Callable[[int], bytes], first: bytes) -> None:
        self.data = bytearray(first)
        self._receive = receive

    def take(self, count: int) -> bytes:
        if len(self.data) + count > MESSAGE_BYTES_MAX:
            raise InvalidInput(f"a message of more than {MESSAGE_BYTES_MAX} bytes is refused as noise")
        start = len(self.data)
        while (missing := start + count - len(self.data)) > 0:
            piece = self._receive(missing)
            if not piece:
                raise EOFError("the stream ended within a message")
            self.data += piece
        return bytes(self.data[start:])

    def length(self) -> int:
        number: int = struct.unpack("!i", self.take(4))[0]
        if number < 0:
            raise InvalidInput(f"a length of {number}")
        return number


def _skip(tape: _Tape, kind: int, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise InvalidInput(f"a message nested deeper than {DEPTH_MAX} is refused as noise")
    if kind in _FIXED:
        tape.take(_FIXED[kind])
    elif kind == _STRING:
        tape.take(tape.length())
    elif kind == _STRUCT:
        while (field := tape.take(1)[0]) != _STOP:
            tape.take(2)
            _skip(tape, field, depth + 1)
    elif kind == _MAP:
        key, value = tape.take(1)[0], tape.take(1)[0]
        for _ in range(tape.length()):
            _skip(tape, key, depth + 1)
            _skip(tape, value, depth + 1)
    elif kind in (_SET, _LIST):
        element = tape.take(1)[0]
        for _ in range(tape.length()):
            _skip(tape, element, depth + 1)
    else:
        raise InvalidInput(f"a field of no known type: {kind}")
