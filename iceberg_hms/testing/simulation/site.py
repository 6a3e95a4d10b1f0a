"""What the processes of a schedule share, and what each of them has: its ports, and the real locks on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from iceberg_hms.catalog.lock_admin import LockAdmin
from iceberg_hms.catalog.lock_modes import LockModes
from iceberg_hms.catalog.rebase_words import RebaseWords
from iceberg_hms.catalog.table_locks import ChosenTableLock
from iceberg_hms.changes.append import Append
from iceberg_hms.changes.change import Update
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.world import World
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.format.manifest import DataFile
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.testing.simulation.connection import SimulatedClient
from iceberg_hms.testing.simulation.drivers import Link, SimulatedTableLock, SimulatedTablePointer
from iceberg_hms.testing.simulation.ensemble import Ensemble
from iceberg_hms.testing.simulation.faults import Wire
from iceberg_hms.testing.simulation.history import Attempt, Held, History, InVain, Kind
from iceberg_hms.testing.simulation.metastore import Metastore, Verdict
from iceberg_hms.testing.simulation.runtime import SimulatedRuntime
from iceberg_hms.testing.simulation.scheduler import Process, Scheduler
from iceberg_hms.testing.simulation.seeded import Seeded
from iceberg_hms.testing.simulation.storage import SimulatedFiles, SimulatedManifests, Storage
from iceberg_hms.zookeeper.lock import ZooKeeperTableLock
from iceberg_hms.zookeeper.session import ZooKeeperSession

TABLE = TableName("db", "t")


@dataclass(frozen=True)
class Site:
    """What all processes of a schedule share.

    ensemble: None where no ZooKeeper is configured. lock: the setting of that name.
    looks: whether our writers look who has the lock and who waits for it. foreign: the processes that are none of ours.
    present: whether an attempt is in a table now; for judging alone.
    """

    scheduler: Scheduler
    wire: Wire
    metastore: Metastore
    ensemble: Ensemble | None
    storage: Storage
    history: History
    settings: Settings
    lock: str
    network: Process
    luck: Seeded
    lease_seconds: float
    waits: Sequence[float]
    proven: float
    present: Callable[[Attempt], bool]
    looks: bool = False
    foreign: set[str] = field(default_factory=set)


class Node:
    """A process, and its ports.

    blind: its server's lock API is broken, whatever that of the others is.
    lock: the metastore's, as those take it who know no other. chosen: the one that the table asks for.
    rebase_words: what namespaces say of appends.
    """

    def __init__(self, site: Site, name: str, *, skew_ms: int = 0, blind: bool = False) -> None:
        self.site = site
        self.process = Process(name, skew_ms)
        self.luck = site.luck.fork(name)
        self.runtime = SimulatedRuntime(site.scheduler, self.process, self.luck.fork("runtime"))
        foreign = site.foreign if site.looks else frozenset()
        link = Link(site.metastore, site.wire, self.process, self.runtime, site.proven, blind, foreign)
        self.link = link
        self.pointer = SimulatedTablePointer(link)
        self.lock = SimulatedTableLock(link)
        self.files = SimulatedFiles(site.storage, site.wire, self.process)
        modes = LockModes(self.runtime, setting=site.lock, database=self._database)
        self.chosen = ChosenTableLock(
            self.pointer,
            self.lock,
            None if site.ensemble is None else self._zookeeper_lock(site.ensemble),
            modes,
            self.runtime,
            lock_api_works=self._lock_api_works,
            leftover_seconds=self._leftover_seconds,
        )
        self.rebase_words = RebaseWords(
            self.runtime,
            setting=site.settings.rebase_appends,
            max_age_seconds=site.settings.rebase_appends_max_age_ms / 1000,
            load=self._database,
        )

    def _leftover_seconds(self) -> float:
        """An atomic server refuses what a lock that is over does not cover."""
        server = self.site.metastore
        return 0.0 if server.verdict is Verdict.ATOMIC else server.lease_seconds

    def manifests(self) -> SimulatedManifests:
        return SimulatedManifests(self.site.storage, self.site.wire, self.process)

    def publish(self, event: Mapping[str, Any]) -> None:
        """coordinator.ports.Events: for those who judge."""
        told = {"held-back": self.site.history.held_back, "rested": self.site.history.rested}.get(event["event"])
        if told is not None:
            now = self.runtime.now()
            told.append(Held(self.process.name, now - event["seconds"], now))

    def world(self) -> World:
        waits = self._foreign_waits if self.site.looks else lambda _: False
        return World(self.pointer, self.chosen, self.files, self.manifests, self.runtime, self, waits)

    def _foreign_waits(self, name: TableName) -> bool:
        """Whether a process that is none of ours waits for a table's lock."""
        self.site.scheduler.step()
        entries = [each for each in self.site.metastore.locks if each.table == name]
        return any(each.process in self.site.foreign for each in entries if not each.acquired)

    def has_lock_in_vain(self, name: TableName) -> None:
        """Note that this process gives a lock back without having moved the table, and who of ours waits for it."""
        waiting = [each.process for each in self.site.metastore.locks if each.table == name and each.waited]
        behind = frozenset(waiting) - self.site.foreign
        if self.site.looks:
            self.site.history.in_vain.append(InVain(self.runtime.now(), behind))

    def coordinator(self) -> Coordinator:
        """A coordinator of its own, as each process has it."""
        return Coordinator(self.world(), self.site.settings)

    def lock_admin(self) -> LockAdmin:
        """As operators have it."""
        settings = replace(self.site.settings, zookeeper="zookeeper:2181")
        return LockAdmin(self.world(), settings, _Databases(self.site.metastore), self.chosen, {})

    def idle(self, longest: float) -> None:
        """Sleep for some time; the rest of the process goes on."""
        alarm, rings = Process(self.process.name), self.runtime.event()
        self.site.wire.delay(alarm, longest)
        self.site.scheduler.spawn(alarm, "alarm", rings.set)
        rings.wait()

    def append(self, attempt: Attempt, key: str | None = None, *, check_duplicates: bool = True) -> Append:
        """The change of an attempt that adds one data file. check_duplicates: foreign writers do not."""
        path = attempt.data_file or ""
        self.site.storage.data.add(path)
        return Append(
            [DataFile(file_path=path, file_format="PARQUET", record_count=1, file_size_in_bytes=10, spec_id=0)],
            snapshot_id=attempt.snapshot_id or 0,
            schema_id=0,
            spec_id=0,
            table_uuid=None,
            idempotency_key=key,
            now_ms=self.runtime.now_ms,
            check_duplicates=check_duplicates,
        )

    def sent_append(self, attempt: Attempt, base: TableMetadata, key: str | None = None) -> Sequence[Update]:
        """The same as a stock client sends it: made on the table as it saw it, with lists of its own on disk."""
        manifests = self.manifests()
        staged = [
            dict(update) for update in self.append(attempt, key, check_duplicates=False).stage(base, manifests).updates
        ]
        manifests.flush()
        return staged

    def new_append(self, wish: str, kind: Kind = Kind.OURS, *, again: bool = False) -> Attempt:
        """An attempt to add a data file, under new names. again: all attempts to fulfil this wish add the same file."""
        number = len(self.site.history.attempts) + 1
        name = wish if again else f"{wish}-{number}"
        return self.site.history.begin(
            Attempt(
                wish,
                self.process.name,
                kind,
                snapshot_id=number * 1000 + self.luck.below(1000),
                data_file=f"file:/t/data/{name}.parquet",
            )
        )

    def _database(self, namespace: str) -> Mapping[str, str]:
        link = self.link
        return link.wire.call(
            link.process,
            f"database {namespace}",
            lambda: dict(link.server.databases.get(namespace, {})),
            lost=MetastoreUnavailable,
            show=lambda parameters: parameters or None,
        )

    def _lock_api_works(self) -> bool:
        link = self.link
        try:
            return link.wire.call(
                link.process,
                "try the lock API",
                lambda: link.server.lock_api_works and not link.blind,
                lost=MetastoreUnavailable,
            )
        except MetastoreUnavailable:
            return False

    def _zookeeper_lock(self, ensemble: Ensemble) -> ZooKeeperTableLock:
        session = ZooKeeperSession(
            "zookeeper:2181",
            self.runtime,
            timeout_ms=int(ensemble.timeout_seconds * 1000),
            connect_timeout_ms=self.site.settings.connect_timeout_ms,
            make_client=lambda _hosts, _timeout: SimulatedClient(ensemble, self.site.wire, self.process, self.runtime),
        )
        return ZooKeeperTableLock(
            session, self.runtime, agent_info=lambda request: request, user="simulated", host=self.process.name
        )


class _Databases:
    """catalog.services.Namespaces, as far as the marks of databases need it."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore

    def list(self) -> list[str]:
        return sorted(self._metastore.databases)

    def exists(self, namespace: str) -> bool:
        return namespace in self._metastore.databases

    def create(self, namespace: str, properties: Mapping[str, str]) -> None:
        self._metastore.databases[namespace] = dict(properties)

    def load(self, namespace: str) -> dict[str, str]:
        return dict(self._metastore.databases[namespace])

    def update(self, namespace: str, updates: Mapping[str, str], removals: Collection[str]) -> None:
        kept = {key: value for key, value in self.load(namespace).items() if key not in removals}
        self._metastore.databases[namespace] = {**kept, **updates}

    def drop(self, namespace: str) -> None:
        del self._metastore.databases[namespace]
