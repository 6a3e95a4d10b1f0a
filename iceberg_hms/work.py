"""For whom a thread works: who owns the work, whether its caller still waits for it, and what it uses.

What all share, such as connections and memory, is shared by owners and not by their threads; loops that may run long
stop when their caller has left; a commit's report tells what the commit used. The door that begins the work says so,
many calls above the driver that asks or counts: so this is bound to the thread's context, which `Runtime.gather` hands
on to its threads and `Runtime.spawn` does not. Heartbeats are the process's own work, and count for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from iceberg_hms.errors import CommitFailed

#: The owner of work for which nobody said so: the process's own.
NOBODY: Final = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """calls: the name of each metastore call that was sent, in order. writes: the bytes of each file.

    Lists, since threads of one commit may append to them side by side."""

    calls: list[str] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Work:
    owner: str = NOBODY
    has_left: Callable[[], bool] | None = None
    usage: Usage | None = None


_OF_NOBODY: Final = _Work()
_CURRENT: ContextVar[_Work] = ContextVar("iceberg_hms_work", default=_OF_NOBODY)


class _Within:
    """Binds work to the thread's context. A class, since each commit enters one: a generator costs three times as
    much."""

    __slots__ = ("_token", "_work")

    def __init__(self, work: _Work) -> None:
        self._work = work

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._work)

    def __exit__(self, *error: object) -> None:
        _CURRENT.reset(self._token)


def caller_owner(caller: str) -> str:
    """The owner of a REST caller's work."""
    return f"caller {caller}"


def owned_by(owner: str) -> AbstractContextManager[None]:
    """The work within belongs to this owner: any text that tells owners apart."""
    now = _CURRENT.get()
    return _Within(_Work(owner, now.has_left, now.usage))


def owner() -> str:
    """Whose work the current thread does; NOBODY outside of `owned_by`."""
    return _CURRENT.get().owner


def working_for(has_left: Callable[[], bool]) -> AbstractContextManager[None]:
    """Let `stop_if_caller_left` ask `has_left`, which must be quick, about the work within."""
    now = _CURRENT.get()
    return _Within(_Work(now.owner, has_left, now.usage))


def stop_if_caller_left() -> None:
    """Raise CommitFailed if the caller has left: nobody takes the result, and others wait for the thread. Does nothing
    outside of `working_for`."""
    has_left = _CURRENT.get().has_left
    if has_left is not None and has_left():
        raise CommitFailed("its caller left before it was ready; nothing of it was sent")


@contextmanager
def measured() -> Iterator[Usage]:
    """Collect what is used within; a nested measurement counts for itself alone."""
    now, usage = _CURRENT.get(), Usage()
    with _Within(_Work(now.owner, now.has_left, usage)):
        yield usage


def called(method: str) -> None:
    """A metastore call is about to be sent."""
    usage = _CURRENT.get().usage
    if usage is not None:
        usage.calls.append(method)


def wrote(length: int) -> None:
    """A file of so many bytes was written."""
    usage = _CURRENT.get().usage
    if usage is not None:
        usage.writes.append(length)
