"""Moves of a pointer that are waited for longer than their callers wait.

A move that nothing but its lock fences is waited for until its server has surely done with it, or for
`metastore.unanswered-swap-timeout-ms`. Its caller hears earlier that its state is unknown: whoever makes the move says
with `when_overdue` how, and the driver that waits for the answer calls `overdue` when the ordinary time is over. It is
bound to the context of the thread, as `usage` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_TELL: ContextVar[Callable[[], None] | None] = ContextVar("iceberg_hms_overdue", default=None)


@contextmanager
def when_overdue(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell`, which does not raise, if a move that is sent within is not answered in the ordinary time."""
    token = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(token)


def overdue() -> None:
    """Tell the callers of a move that its ordinary time is over; its driver goes on waiting."""
    tell = _TELL.get()
    if tell is not None:
        tell()
