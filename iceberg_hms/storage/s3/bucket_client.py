"""What the driver needs of a client library, for one bucket: requests that are sent once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class BucketClient(Protocol):
    """Each method raises S3Failure. Safe to share between threads."""

    def get(self, key: str, admit: Callable[[int], None]) -> bytes:
        """A whole object; calls `admit`, which may raise, with its length before it reads on."""
        ...

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`."""
        ...

    def get_tail(self, key: str, count: int) -> tuple[int, bytes]:
        """The object's length, and its last bytes. Raises S3Failure with INVALID_RANGE for an empty one."""
        ...

    def head(self, key: str) -> int:
        """The length. A failure does not tell a missing object from a missing bucket: its answer has no body."""
        ...

    def put(self, key: str, data: bytes, *, is_new: bool) -> None:
        """is_new: only if there is no such object (`If-None-Match: *`)."""
        ...
