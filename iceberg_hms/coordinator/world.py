"""The ports that one coordinator works with, in one bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iceberg_hms.coordinator.ports import Events, Files, Manifests, Runtime, TableLock, TableName, TablePointer


@dataclass(frozen=True, slots=True)
class World:
    """manifests: makes a fresh `Manifests` for each attempt of a group, so that it flushes what this attempt staged.
    foreign_waits: whether a writer that is not ours waits for a table's lock; False where that cannot be told.
    """

    pointer: TablePointer
    lock: TableLock
    files: Files
    manifests: Callable[[], Manifests]
    runtime: Runtime
    events: Events
    foreign_waits: Callable[[TableName], bool] = lambda _name: False
