"""For whom a thread works: so that what all share, such as connections, is shared by owners and not by their threads.

Who begins the work names its owner with `owned_by`. The name is bound to the thread's context, which `Runtime.gather`
hands on to its threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

#: Of work for which nobody said so: the process's own, such as heartbeats.
NOBODY: Final = ""

_OWNER: ContextVar[str] = ContextVar("iceberg_hms_work_owner", default=NOBODY)


def caller_owner(caller: str) -> str:
    """The owner of a REST caller's work."""
    return f"caller {caller}"


@contextmanager
def owned_by(owner: str) -> Iterator[None]:
    """Let `owner` return this name within. owner: any text that tells owners apart."""
    token = _OWNER.set(owner)
    try:
        yield
    finally:
        _OWNER.reset(token)


def owner() -> str:
    """Whose work the current thread does; NOBODY outside of `owned_by`."""
    return _OWNER.get()
