"""What callers may hold of the server at once: requests without a response, and memory for bodies.

A body becomes many objects when it is parsed: 60 MB of `[[],[],` take 2 GB. So its structure is counted first, in one
pass that is forty times as fast as parsing, and its memory is estimated from that.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from iceberg_hms.errors import QueueFull

#: What one bracket, brace, comma or colon stands for in memory, at most: an empty list takes 64 bytes with its place in
#: a list, an object of one field 192 for its brace and colon, a string of two letters 59 with its comma.
BYTES_PER_VALUE: Final = 80
#: And what the document itself takes.
_BYTES_ALONE: Final = 128
#: Bytes that one of text takes: a string is as wide as its widest letter.
_WIDEST_LETTER: Final = 4
_STRUCTURE: Final = b"[{,:"


def count_values(body: bytes) -> int:
    """About the number of values in a JSON document, those in strings included: its brackets, braces, commas and
    colons. Linear, about 0.7 ms for each MB."""
    return len(body) - len(body.translate(None, _STRUCTURE))


def parsed_bytes(body: bytes, values: int) -> int:
    """What the JSON document takes at most once it is parsed. values: as counted above."""
    wide = not body.isascii() or b"\\u" in body
    return _BYTES_ALONE + len(body) * (_WIDEST_LETTER if wide else 1) + values * BYTES_PER_VALUE


class Admission:
    """The shares of all callers. Only one event loop uses it, so it needs no mutex.

    requests: the most of one caller. memory: bytes for all callers together, of which one gets half.
    """

    def __init__(self, requests: int, memory: int) -> None:
        self.max_requests = requests
        self.max_memory = memory
        self.memory = 0
        self.shares: dict[str, Share] = {}

    def enter(self, caller: str) -> HeldByRequest:
        """A request of this caller begins. Raises QueueFull if it has as many as it may."""
        share = self.shares.get(caller)
        if share is None:
            share = self.shares[caller] = Share()
        elif share.requests >= self.max_requests:
            raise QueueFull(f"{share.requests} requests of this caller are running; the server did nothing of this one")
        share.requests += 1
        return HeldByRequest(self, caller, share)


class Share:
    """What one caller holds: requests, and bytes of memory."""

    __slots__ = ("memory", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.memory = 0


class HeldByRequest:
    """What one request of a caller holds, until it ends."""

    __slots__ = ("_admission", "_bytes", "_share", "caller")

    def __init__(self, admission: Admission, caller: str, share: Share) -> None:
        self._admission = admission
        self.caller = caller
        self._share = share
        self._bytes = 0

    def hold(self, size: int) -> None:
        """Hold so many bytes more. Raises QueueFull if that is more than the caller, or all callers, may hold."""
        admission, share = self._admission, self._share
        if share.memory + size > admission.max_memory // 2 or admission.memory + size > admission.max_memory:
            raise QueueFull("The requests that are running hold too much memory; the server did nothing of this one")
        share.memory += size
        admission.memory += size
        self._bytes += size

    def __enter__(self) -> HeldByRequest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        share = self._share
        share.memory -= self._bytes
        self._admission.memory -= self._bytes
        share.requests -= 1
        if not share.requests:
            del self._admission.shares[self.caller]
