"""Stops work whose caller has left: nobody takes its result, and others wait for its thread.

Who begins the work says with `working_for` how to learn that the caller has left. Loops that may run long call
`stop_if_caller_left`. The question is bound to the thread's context, which `Runtime.gather` hands on to its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from iceberg_hms.errors import CommitFailed

_HAS_LEFT: ContextVar[Callable[[], bool] | None] = ContextVar("iceberg_hms_caller_left", default=None)


@contextmanager
def working_for(has_left: Callable[[], bool]) -> Iterator[None]:
    """Let `stop_if_caller_left` ask `has_left`, which must be quick, about the work within."""
    token = _HAS_LEFT.set(has_left)
    try:
        yield
    finally:
        _HAS_LEFT.reset(token)


def stop_if_caller_left() -> None:
    """Raise CommitFailed if the caller has left. Does nothing outside `working_for`."""
    has_left = _HAS_LEFT.get()
    if has_left is not None and has_left():
        raise CommitFailed("its caller left before it was ready; nothing of it was sent")
