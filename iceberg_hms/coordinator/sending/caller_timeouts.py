"""Tells callers that the metastore takes longer to answer than they should wait.

Where only a lock protects a swap, rename or drop, the driver waits for its answer until the server can no longer make
it, or for `metastore.unanswered-swap-timeout-ms`. The callers get CommitStateUnknown earlier: the sender says with
`on_caller_timeout` how to tell them, and the driver calls `notify_caller_timeout` when the ordinary timeout is over.
The function is bound to the context of the sending thread, as in `usage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_NOTIFY: ContextVar[Callable[[], None] | None] = ContextVar("iceberg_hms_caller_timeout", default=None)


@contextmanager
def on_caller_timeout(notify: Callable[[], None]) -> Iterator[None]:
    """Call `notify`, which must not raise, if something that is sent within is not answered in the ordinary time."""
    token = _NOTIFY.set(notify)
    try:
        yield
    finally:
        _NOTIFY.reset(token)


def notify_caller_timeout() -> None:
    """The ordinary time for an answer is over; the driver goes on waiting. Does nothing outside `on_caller_timeout`."""
    notify = _NOTIFY.get()
    if notify is not None:
        notify()
