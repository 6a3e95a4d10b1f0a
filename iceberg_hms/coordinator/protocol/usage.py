"""What a commit used of the world: the metastore's calls, and bytes that were written.

The drivers tell it where they call and write; whoever commits collects it with `measured`. It is bound to the context
of the thread, which `Runtime.gather` hands on to its threads and `Runtime.spawn` does not: heartbeats are not counted.
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
    """Collect what is used within; a measurement in a measurement counts for itself alone."""
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
