"""Loads tables and commits to them, by name: what a catalog and its tables share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iceberg_hms.catalog.coalesced_loads import WAIT_SECONDS, CoalescedLoads
from iceberg_hms.catalog.rebase_policies import RebasePolicies
from iceberg_hms.catalog.services import Services
from iceberg_hms.changes.change import Change
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.errors import NoSuchTable, QueueFull
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table's state. metadata_location and row, that of the metastore, are None for a staged table that is not yet
    committed."""

    name: TableName
    metadata_location: str | None
    metadata: TableMetadata
    row: Pointer | None = None


class _ProcessState:
    """The parts of a catalog in one process."""

    def __init__(self, services: Services, load_wait_seconds: float) -> None:
        self.services = services
        runtime = services.ports.runtime
        self.base_loads = CoalescedLoads(runtime, services.coordinator.load, wait_seconds=load_wait_seconds)
        self.pointer_loads = CoalescedLoads(runtime, services.ports.pointer.load, wait_seconds=load_wait_seconds)
        self.rebase_policies = RebasePolicies(
            runtime,
            setting=services.settings.rebase_appends,
            max_age_seconds=services.settings.rebase_appends_max_age_ms / 1000,
            load=services.namespaces.load,
        )


class TableAccess:
    """Safe for threads. A forked child may go on with it: it gets services of its own on first use.

    make_services: called at once, and by each forked child. What it returns shares no thread, mutex or connection with
    another process. load_wait_seconds: how long a load waits for another caller's before it starts its own.
    """

    def __init__(self, make_services: Callable[[], Services], *, load_wait_seconds: float = WAIT_SECONDS) -> None:
        self._make_services = make_services
        self._load_wait_seconds = load_wait_seconds
        # By process id. A child keeps its parent's state and does not use it: the parent's threads do not exist there,
        # and its mutexes may stay locked for ever.
        self._states = {os.getpid(): _ProcessState(make_services(), load_wait_seconds)}

    @property
    def _state(self) -> _ProcessState:
        process = os.getpid()
        state = self._states.get(process)
        # If several threads of a child arrive first, one of them stores its state; the others' are not connected yet.
        if state is None:
            state = _ProcessState(self._make_services(), self._load_wait_seconds)
            state = self._states.setdefault(process, state)
        return state

    @property
    def services(self) -> Services:
        """The services of this process."""
        return self._state.services

    def load(self, name: TableName) -> LoadedTable:
        """The table's current state. Concurrent callers share a load, but none that began before they called. Raises
        NoSuchTable, MissingFile, CorruptFile."""
        base = self._state.base_loads.get(name)
        return LoadedTable(name, base.pointer.metadata_location, base.metadata, base.pointer)

    def exists(self, name: TableName) -> bool:
        """Whether an Iceberg table of this name exists."""
        try:
            self._state.pointer_loads.get(name)
        except NoSuchTable:
            return False
        return True

    def commit(
        self,
        name: TableName,
        change: Change,
        wait_seconds: float | None,
        *,
        size: int,
        prepared: Sequence[str] = (),
    ) -> CommitReport:
        """Commit a change. Raises as `Coordinator.commit`. size: about how many bytes the change takes while it
        waits. prepared: what it wrote already; deleted if it is proved to have failed."""
        services, wait = self.services, self.wait_seconds(wait_seconds)
        try:
            return services.coordinator.commit(name, change, wait_seconds=wait, size=size, prepared=prepared)
        except QueueFull:
            delete_files(services.ports, name, prepared)
            raise

    @property
    def rebase_policies(self) -> RebasePolicies:
        """The namespaces' policies on rebasing appends."""
        return self._state.rebase_policies

    @property
    def default_wait_seconds(self) -> float:
        """How long a commit waits if its caller does not say."""
        return self.services.settings.commit_wait_seconds

    def wait_seconds(self, given: float | None) -> float:
        """The caller's value, else the default."""
        return self.default_wait_seconds if given is None else given
