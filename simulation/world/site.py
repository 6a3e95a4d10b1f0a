"""What the processes of a schedule share, and what each of them has: its ports, and the real locks on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from iceberg_hms.catalog.rebase_policies import RebasePolicies
from iceberg_hms.changes.append import Append
from iceberg_hms.changes.change import Update
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.locking.chosen_lock import ChosenTableLock
from iceberg_hms.locking.lock_admin import LockAdmin
from iceberg_hms.locking.lock_modes import LockModes
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks import lock_table
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.metastore.locks.unavailable_lock import granted_lock_seconds
from iceberg_hms.metastore.tables.namespaces import HmsNamespaces
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.zookeeper.lock import ZooKeeperTableLock
from iceberg_hms.zookeeper.session import ZooKeeperSession
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process, Scheduler
from simulation.engine.seeded import Seeded
from simulation.world.connection import SimulatedClient
from simulation.world.ensemble import Ensemble
from simulation.world.fault_plan import HEAVY, LIGHT, Wire
from simulation.world.history import CommitCall, FailedCall, Held, History, Kind
from simulation.world.machines import MACHINES, Machines
from simulation.world.metastore import DATABASE, Metastore, SwapSupport
from simulation.world.metastore_client import Network
from simulation.world.service import Service
from simulation.world.storage import SimulatedFiles, SimulatedManifests, Storage

TABLE = TableName(DATABASE, "t")


@dataclass(frozen=True)
class Site:
    """What all processes of a schedule share.

    servers: of the metastore, by address; settings.metastore_uri names those that all processes use.
    without_locks: the address of one whose lock API is broken. machines: which processes there are.
    ensemble: None where no ZooKeeper is configured. lock: the setting of that name.
    foreign: the processes that are none of ours.
    present: whether an attempt is in a table now; for judging alone.
    """

    scheduler: Scheduler
    wire: Wire
    metastore: Metastore
    servers: Mapping[str, Service]
    without_locks: str
    machines: Machines
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
    latest: float
    present: Callable[[CommitCall], bool]
    foreign: set[str] = field(default_factory=set)


class Node:
    """A process, and its ports: the real drivers of the metastore and of ZooKeeper on simulated connections.

    blind: its server's lock API is broken, whatever that of the others is.
    lock: the metastore's. chosen: the one that the table asks for. rebase_words: what namespaces say of appends.
    """

    def __init__(self, site: Site, name: str, *, skew_ms: int = 0, blind: bool = False) -> None:
        self.site = site
        self.process = Process(name, skew_ms)
        self.luck = site.luck.fork(name)
        self.runtime = SimulatedRuntime(site.scheduler, self.process, self.luck.fork("runtime"))
        self.identity = site.machines.begin(self.process, self.luck.below(MACHINES))
        self.settings = replace(site.settings, metastore_uri=site.without_locks) if blind else site.settings
        self.files = SimulatedFiles(site.storage, site.wire, self.process)
        self._proven = self.luck.chance(site.proven)

    def network(self, *, swift: bool = False) -> Network:
        """How this process reaches the metastore."""
        site = self.site
        return Network(
            site.servers,
            site.wire,
            self.process,
            self.runtime,
            timeout_seconds=site.settings.socket_timeout_ms / 1000,
            patience_seconds=site.settings.unanswered_swap_timeout_ms / 1000,
            latest=site.latest,
            proven=self._proven,
            swift=swift,
        )

    @cached_property
    def pool(self) -> ClientPool:
        settings, runtime = self.settings, self.runtime
        uris = list(settings.metastore_uris)
        first = self.luck.below(len(uris))
        pool = ClientPool(
            [*uris[first:], *uris[:first]],
            size=settings.clients,
            connect_timeout_ms=settings.connect_timeout_ms,
            socket_timeout_ms=settings.socket_timeout_ms,
            user=settings.user,
            make_client=self.network().connect,
            make_places=runtime.places,
            now=runtime.now,
        )
        if self._proven:
            for uri in uris:
                if self.site.servers[uri].verdict is SwapSupport.ATOMIC:
                    pool.cas_support.learn(uri, DATABASE, CompareAndSwap.ATOMIC)
        return pool

    @cached_property
    def pointer(self) -> HmsTablePointer:
        return HmsTablePointer(self.pool, self.settings, clock=self.runtime)

    @cached_property
    def lock(self) -> HmsTableLock:
        return HmsTableLock(
            self.pool,
            self.runtime,
            self.settings,
            new_agent_info=self.identity.agent_info,
            is_over=self.identity.has_ended,
        )

    @cached_property
    def namespaces(self) -> HmsNamespaces:
        return HmsNamespaces(self.pool, user=self.settings.user)

    @cached_property
    def chosen(self) -> ChosenTableLock:
        site = self.site
        return ChosenTableLock(
            self.pointer,
            self.lock,
            None if site.ensemble is None else self._zookeeper_lock(site.ensemble),
            LockModes(self.runtime, setting=site.lock),
            self.runtime,
            lock_api_works=lambda: lock_table.api_works(self.pool, self.settings, clock=self.runtime),
            granted_lock_seconds=lambda namespace: granted_lock_seconds(
                self.pool, self.settings, namespace, clock=self.runtime
            ),
        )

    @cached_property
    def rebase_words(self) -> RebasePolicies:
        return RebasePolicies(
            self.runtime,
            setting=self.settings.rebase_appends,
            max_age_seconds=self.settings.rebase_appends_max_age_ms / 1000,
            load=self.namespaces.load,
        )

    def manifests(self) -> SimulatedManifests:
        return SimulatedManifests(self.site.storage, self.site.wire, self.process)

    def publish(self, event: Mapping[str, Any]) -> None:
        """coordinator.ports.Events: for those who judge; unless it has a defect."""
        if self.site.wire.strikes("defects", 2 * HEAVY if event["event"] == "retry-priority-wait" else LIGHT):
            raise ValueError("what no port names")
        told = {
            "retry-priority-wait": self.site.history.held_back,
            "foreign-writer-backoff": self.site.history.rested,
        }.get(event["event"])
        if told is not None:
            now = self.runtime.now()
            told.append(Held(self.process.name, now - event["seconds"], now))

    def world(self) -> CommitPorts:
        return CommitPorts(
            self.pointer, self.chosen, self.files, self.manifests, self.runtime, self, self.lock.foreign_writer_waits
        )

    def has_lock_in_vain(self, name: TableName) -> None:
        """Note that this process gives a lock back without having moved the table, and who of ours waits for it
        and has seen that."""
        waiting = [each.process for each in self.site.metastore.locks if each.table == name and each.looked]
        behind = frozenset(waiting) - self.site.foreign
        self.site.history.in_vain.append(FailedCall(self.runtime.now(), behind))

    def coordinator(self) -> Coordinator:
        """A coordinator of its own, as each process has it."""
        return Coordinator(self.world(), self.site.settings)

    def lock_admin(self) -> LockAdmin:
        """As operators have it."""
        settings = replace(self.site.settings, zookeeper="zookeeper:2181")
        return LockAdmin(self.world(), settings, self.chosen, {})

    def idle(self, longest: float) -> None:
        """Sleep for some time; the rest of the process goes on."""
        alarm, rings = Process(self.process.name), self.runtime.event()
        self.site.wire.delay(alarm, longest)
        self.site.scheduler.spawn(alarm, "alarm", rings.set)
        rings.wait()

    def append(self, attempt: CommitCall, key: str | None = None, *, check_duplicates: bool = True) -> Append:
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

    def sent_append(self, attempt: CommitCall, base: TableMetadata, key: str | None = None) -> Sequence[Update]:
        """The same as a stock client sends it: made on the table as it saw it, with lists of its own on disk."""
        manifests = self.manifests()
        staged = [
            dict(update) for update in self.append(attempt, key, check_duplicates=False).stage(base, manifests).updates
        ]
        manifests.flush()
        return staged

    def new_append(self, wish: str, kind: Kind = Kind.OURS, *, again: bool = False) -> CommitCall:
        """An attempt to add a data file, under new names. again: all attempts to fulfil this wish add the same file."""
        number = len(self.site.history.attempts) + 1
        name = wish if again else f"{wish}-{number}"
        return self.site.history.begin(
            CommitCall(
                wish,
                self.process.name,
                kind,
                snapshot_id=number * 1000 + self.luck.below(1000),
                data_file=f"file:/t/data/{name}.parquet",
            )
        )

    def _zookeeper_lock(self, ensemble: Ensemble) -> ZooKeeperTableLock:
        session = ZooKeeperSession(
            "zookeeper:2181",
            self.runtime,
            timeout_ms=int(ensemble.timeout_seconds * 1000),
            connect_timeout_ms=self.site.settings.connect_timeout_ms,
            make_client=lambda _hosts, _timeout: SimulatedClient(ensemble, self.site.wire, self.process, self.runtime),
        )
        return ZooKeeperTableLock(
            session,
            self.runtime,
            agent_info=lambda request: request,
            user="simulated",
            host=self.process.name,
            all_atomic=lambda namespace: self.pool.cas_support.all_atomic(namespace),
            move_seconds=self.site.settings.unanswered_swap_timeout_ms / 1000,
        )
