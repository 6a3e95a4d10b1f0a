"""What a commit used: the metastore calls that it sent, and the bytes that it wrote.

The drivers report each call and each write; the coordinator collects them with `measured`. The collection is bound to
the thread's context, which `Runtime.gather` hands on to its threads and `Runtime.spawn` does not: heartbeats do not
count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Usage:
    """calls: the name of each metastore call, in order. writes: the bytes of each file.

    Lists, since threads of one commit may append to them side by side."""

    calls: list[str] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)


_CURRENT: ContextVar[Usage | None] = ContextVar("iceberg_hms_usage", default=None)


@contextmanager
def measured() -> Iterator[Usage]:
    """Collect what is used within; a nested measurement counts for itself alone."""
    usage = Usage()
    token = _CURRENT.set(usage)
    try:
        yield usage
    finally:
        _CURRENT.reset(token)


def called(method: str) -> None:
    """A metastore call is about to be sent."""
    usage = _CURRENT.get()
    if usage is not None:
        usage.calls.append(method)


def wrote(length: int) -> None:
    """A file of so many bytes was written."""
    usage = _CURRENT.get()
    if usage is not None:
        usage.writes.append(length)
