"""The ports that one coordinator works with, in one bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iceberg_hms.coordinator.ports import Events, Files, Manifests, Runtime, TableLock, TablePointer


@dataclass(frozen=True, slots=True)
class World:
    """manifests: makes a fresh `Manifests` for each attempt of a group, so that it flushes what this attempt staged."""

    pointer: TablePointer
    lock: TableLock
    files: Files
    manifests: Callable[[], Manifests]
    runtime: Runtime
    events: Events
