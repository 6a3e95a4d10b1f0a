"""Forked children have one thread: what the parent's other threads hold or run is lost there, and must be made anew."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """What has locks, threads or connections of its own."""

    def begin_in_forked_child(self) -> None:
        """Begin anew, without waiting for anything: whoever had it may not be here."""


_alive: weakref.WeakSet[Forked] = weakref.WeakSet()


def tell(thing: Forked) -> None:
    """Have its `begin_in_forked_child` called in every child that is forked while it lives, before anything else."""
    _alive.add(thing)


def _tell_all() -> None:
    for thing in list(_alive):
        thing.begin_in_forked_child()


os.register_at_fork(after_in_child=_tell_all)
