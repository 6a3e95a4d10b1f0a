"""Locks for operators: list them, break one, and choose which lock a table takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from iceberg_hms.changes.clients.request import Client, from_request
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import LOCK_MARK, CommitPorts, TableName
from iceberg_hms.errors import ConfigError, InvalidInput, LockUnavailable, MetastoreRefused, NotFound
from iceberg_hms.identifiers import Identifier, table_name
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.locking.chosen_lock import ChosenTableLock
from iceberg_hms.locking.lock_modes import LockMode


@dataclass(frozen=True, slots=True)
class Listing:
    """problems: which keeper could not be reached, and why."""

    locks: tuple[LockRecord, ...]
    problems: tuple[str, ...] = ()


class LockKeeper(Protocol):
    """A server that keeps locks: the metastore, or ZooKeeper. Both raise LockUnavailable, MetastoreRefused,
    MetastoreUnavailable."""

    def entries(self, name: TableName | None) -> Sequence[LockRecord]:
        """The locks of a table, or all of them."""
        ...

    def remove(self, lock_id: str) -> None:
        """Take a lock from its holder or waiter. Harmless if it is gone."""
        ...


class LockAdmin:
    """As `Catalog.locks`. keepers: by name, `hms` and, if it is configured, `zookeeper`."""

    def __init__(
        self,
        ports: CommitPorts,
        settings: Settings,
        chosen: ChosenTableLock,
        keepers: dict[str, LockKeeper],
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._chosen = chosen
        self._keepers = keepers

    def list(self, identifier: Identifier | None = None) -> Listing:
        """The locks of a table, or all of them. Raises MetastoreUnavailable."""
        name = None if identifier is None else table_name(identifier)
        found: list[LockRecord] = []
        problems = []
        for keeper_name, keeper in self._keepers.items():
            try:
                found += keeper.entries(name)
            except (LockUnavailable, MetastoreRefused) as error:
                problems.append(f"{keeper_name}: {error.message}")
        return Listing(tuple(found), tuple(problems))

    def find(self, lock_id: str) -> LockRecord:
        """Raises NotFound."""
        listing = self.list()
        for lock in listing.locks:
            if lock.lock_id == lock_id:
                return lock
        not_listed = f"; not listed: {', '.join(listing.problems)}" if listing.problems else ""
        raise NotFound(f"There is no lock {lock_id}{not_listed}", next_step="`iceberg-hms locks list` shows all")

    def break_lock(self, lock_id: str) -> LockRecord:
        """Remove a lock from its holder or waiter, and return what it was. A holder that still lives may be about to
        swap: only a server with atomic compare-and-swap keeps it from overwriting later commits.
        Raises NotFound, MetastoreRefused (a lock of a Hive transaction)."""
        lock = self.find(lock_id)
        self._keepers[lock.keeper].remove(lock_id)
        return lock

    def use(self, identifier: Identifier, mode: str, *, wait_seconds: float, force: bool = False) -> CommitReport:
        """Choose which lock a table takes from now on, `hms` or `zookeeper`, by a commit that sets its property
        `iceberg-hms.lock`. With `zookeeper` the caller declares that all of the table's writers are ours: others do not
        know of it. That commit keeps out the writers of both modes. To change to `zookeeper` it takes the metastore's
        lock unless the lock API is broken; then it waits until nobody can swap under that lock any more, beside
        `wait_seconds`. To change to `hms` it needs that lock.

        force: for `hms`, when ZooKeeper is gone for good: the caller declares that no writer that uses it is alive. The
        commit still takes ZooKeeper's lock if ZooKeeper answers, and waits if another writer has it.

        Raises as Catalog.commit; InvalidInput for another mode, or force with `zookeeper`; ConfigError without
        `zookeeper.hosts`.
        """
        wanted = self._wanted(mode)
        if force and wanted is not LockMode.HMS:
            raise InvalidInput("Only a change to the lock hms can be forced", next_step="leave `force` out")
        name = table_name(identifier)
        wait_seconds += self._chosen.marking_seconds(name, wanted)
        ports = replace(self._ports, lock=self._chosen.for_marking(wanted, force=force))
        change = from_request([], [{"action": "set-properties", "updates": {LOCK_MARK: wanted.value}}], Client())
        return Coordinator(ports, self._settings).commit(name, change, wait_seconds=wait_seconds)

    def _wanted(self, mode: str) -> LockMode:
        if mode not in (LockMode.HMS, LockMode.ZOOKEEPER):
            raise InvalidInput(f"A table takes the lock hms or zookeeper, not {mode!r}")
        if mode == LockMode.ZOOKEEPER and not self._settings.zookeeper:
            raise ConfigError("`zookeeper.hosts` is not set", next_step="give --zookeeper host:2181, here and to all")
        return LockMode(mode)
