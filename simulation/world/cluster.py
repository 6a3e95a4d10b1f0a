"""What the processes of a schedule share, and what each of them has: its ports, and the product's drivers on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

from iceberg_hms.catalog.rebase_policies import RebasePolicies
from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.locking.chosen_lock import ChosenTableLock
from iceberg_hms.locking.lock_admin import LockAdmin
from iceberg_hms.locking.lock_modes import LockModes
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks import lock_table
from iceberg_hms.metastore.locks.lock_table import granted_lock_seconds
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.metastore.tables.namespaces import HmsNamespaces
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.zookeeper.lock import ZooKeeperTableLock
from iceberg_hms.zookeeper.session import ZooKeeperSession
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process, Scheduler
from simulation.engine.seeded import SeededRandom
from simulation.world.ensemble import Ensemble
from simulation.world.faults import HEAVY, LIGHT, Wire
from simulation.world.first_table import one_file
from simulation.world.history import History, Pause, WastedLock, WriteAttempt, WriterKind
from simulation.world.metastore import DATABASE, Metastore
from simulation.world.metastore_client import Network
from simulation.world.metastore_handler import SwapSupport
from simulation.world.metastore_server import SimulatedServer
from simulation.world.process_identity import ProcessIdentity
from simulation.world.storage import SimulatedFiles, SimulatedManifests, Storage
from simulation.world.zookeeper_client import SimulatedZooKeeperClient

TABLE = TableName(DATABASE, "t")
#: How likely a process that has one server alone has the first.
_FIRST_SERVER = 0.75


@dataclass(frozen=True)
class Cluster:
    """What all processes of a schedule share.

    servers: of the metastore, by address; settings.metastore_uri names those that all processes use.
    without_locks: the address of one whose lock API is broken. pids: of new processes.
    ensemble: None where no ZooKeeper is configured. lock: the setting of that name.
    waits: how long clients wait, one of these. proven: how likely a process knows that a server is atomic.
    balanced: see `Network`. own_servers: each process has one of the servers alone, mostly the first.
    latest: the longest delay of a late change, in seconds. foreign: the processes without a coordinator.
    present: whether an attempt is in a table now; for the checks alone.
    """

    scheduler: Scheduler
    wire: Wire
    metastore: Metastore
    servers: Mapping[str, SimulatedServer]
    without_locks: str
    ensemble: Ensemble | None
    storage: Storage
    history: History
    settings: Settings
    lock: str
    network: Process
    random: SeededRandom
    lease_seconds: float
    waits: Sequence[float]
    proven: float
    balanced: bool
    own_servers: bool
    latest: float
    present: Callable[[WriteAttempt], bool]
    foreign: set[str] = field(default_factory=set)
    pids: Iterator[int] = field(default_factory=lambda: count(1))


class ClusterNode:
    """A process and its ports: the real drivers of the metastore and of ZooKeeper, on simulated connections.

    without_lock_api: its metastore server has a broken lock API. lock: the metastore's lock. chosen_lock: the lock that
    the table asks for. rebase_policies: the namespaces' settings.
    """

    def __init__(self, cluster: Cluster, name: str, *, skew_ms: int = 0, without_lock_api: bool = False) -> None:
        self.cluster = cluster
        self.process = Process(name, skew_ms)
        self.random = cluster.random.fork(name)
        self.runtime = SimulatedRuntime(cluster.scheduler, self.process, self.random.fork("runtime"))
        self.identity = ProcessIdentity(next(cluster.pids))
        self.settings = replace(cluster.settings, metastore_uri=self._uris(without_lock_api=without_lock_api))
        self.files = SimulatedFiles(cluster.storage, cluster.wire, self.process)
        self._proven = self.random.chance(cluster.proven)

    def _uris(self, *, without_lock_api: bool) -> str:
        """The servers that this process knows."""
        if without_lock_api:
            return self.cluster.without_locks
        if self.cluster.own_servers:
            first, *others = self.cluster.settings.metastore_uris
            random = self.random.fork("server")
            return first if random.chance(_FIRST_SERVER) else random.pick(others)
        return self.cluster.settings.metastore_uri

    def network(self, *, swift: bool = False) -> Network:
        """How this process reaches the metastore. swift: see `Network`."""
        cluster = self.cluster
        return Network(
            cluster.servers,
            cluster.wire,
            self.process,
            self.runtime,
            timeout_seconds=cluster.settings.socket_timeout_ms / 1000,
            patience_seconds=cluster.settings.unanswered_swap_timeout_ms / 1000,
            latest=cluster.latest,
            proven=self._proven,
            balanced=cluster.balanced,
            swift=swift,
        )

    @cached_property
    def pool_network(self) -> Network:
        """How the connections of the pool reach the metastore."""
        return self.network()

    @cached_property
    def pool(self) -> ClientPool:
        settings, runtime = self.settings, self.runtime
        uris = list(settings.metastore_uris)
        first = self.random.below(len(uris))
        pool = ClientPool(
            [*uris[first:], *uris[:first]],
            size=settings.clients,
            connect_timeout_ms=settings.connect_timeout_ms,
            socket_timeout_ms=settings.socket_timeout_ms,
            user=settings.user,
            make_client=self.pool_network.connect,
            make_places=runtime.semaphore,
            now=runtime.now,
        )
        if self._proven:
            for uri in uris:
                if self.cluster.servers[uri].swap_support is SwapSupport.ATOMIC:
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
        )

    @cached_property
    def namespaces(self) -> HmsNamespaces:
        return HmsNamespaces(self.pool, user=self.settings.user)

    @cached_property
    def chosen_lock(self) -> ChosenTableLock:
        cluster = self.cluster
        return ChosenTableLock(
            self.pointer,
            self.lock,
            None if cluster.ensemble is None else self._zookeeper_lock(cluster.ensemble),
            LockModes(self.runtime, setting=cluster.lock),
            self.runtime,
            lock_api_works=lambda: lock_table.api_works(self.pool, self.settings, clock=self.runtime),
            granted_lock_seconds=lambda namespace: granted_lock_seconds(
                self.pool, self.settings, namespace, clock=self.runtime
            ),
        )

    @cached_property
    def rebase_policies(self) -> RebasePolicies:
        return RebasePolicies(
            self.runtime,
            setting=self.settings.rebase_appends,
            max_age_seconds=self.settings.rebase_appends_max_age_ms / 1000,
            load=self.namespaces.load,
        )

    def manifests(self) -> SimulatedManifests:
        return SimulatedManifests(self.cluster.storage, self.cluster.wire, self.process)

    def publish(self, event: Mapping[str, Any]) -> None:
        """coordinator.ports.EventListener: note what the checks need. A fault makes it raise what no port names."""
        if self.cluster.wire.strikes("defects", 2 * HEAVY if event["event"] == "retry-priority-wait" else LIGHT):
            raise ValueError("an error that no port names")
        answer = {
            "retry-priority-wait": self.cluster.history.priority_waits,
            "foreign-writer-backoff": self.cluster.history.backoffs,
            "lock-kept": self.cluster.history.locks_kept,
        }.get(event["event"])
        if answer is not None:
            now = self.runtime.now()
            answer.append(Pause(self.process.name, now - event["seconds"], now))

    def commit_ports(self) -> CommitPorts:
        return CommitPorts(
            self.pointer,
            self.chosen_lock,
            self.files,
            self.manifests,
            self.runtime,
            self,
            self.lock.foreign_writer_waits,
        )

    def record_wasted_lock(self, name: TableName) -> None:
        """Note that this process releases a lock without having swapped, and which of our processes wait for it and
        have seen the queue."""
        metastore = self.cluster.metastore
        entries = metastore.locks.rows.values()
        waiting = [each.process for each in entries if each.table == name and each.id in metastore.saw_queue]
        behind = frozenset(waiting) - self.cluster.foreign
        self.cluster.history.wasted_locks.append(WastedLock(self.runtime.now(), behind))

    def coordinator(self) -> Coordinator:
        """A new coordinator on the ports of this process."""
        return Coordinator(self.commit_ports(), self.cluster.settings)

    def lock_admin(self) -> LockAdmin:
        """The locks' administration, as operators use it."""
        settings = replace(self.cluster.settings, zookeeper="zookeeper:2181")
        return LockAdmin(self.commit_ports(), settings, self.chosen_lock, {})

    def sleep_beside(self, longest: float) -> None:
        """Sleep for some time while the other tasks of the process run."""
        alarm, rings = Process(self.process.name), self.runtime.event()
        self.cluster.wire.delay(alarm, longest)
        self.cluster.scheduler.spawn(alarm, "alarm", rings.set)
        rings.wait()

    def append(self, attempt: WriteAttempt, key: str | None = None, *, check_duplicates: bool = True) -> Append:
        """The change of an attempt that adds one data file. check_duplicates: False for foreign writers."""
        path = attempt.data_file or ""
        self.cluster.storage.data.add(path)
        snapshot_id = attempt.snapshot_id or 0
        new = NewSnapshot(snapshot_id=snapshot_id, table_uuid=None, idempotency_key=key, now_ms=self.runtime.now_ms)
        added = one_file(path, snapshot_id)
        return Append(new.of_job("append", added=[path]), added, check_duplicates=check_duplicates)

    def sent_append(self, attempt: WriteAttempt, base: TableMetadata, key: str | None = None) -> Sequence[Update]:
        """The same as a stock client sends it: made on the table that it read, with manifest lists of its own."""
        manifests = self.manifests()
        staged = [
            dict(update) for update in self.append(attempt, key, check_duplicates=False).stage(base, manifests).updates
        ]
        manifests.flush()
        return staged

    def new_append(
        self, operation: str, kind: WriterKind = WriterKind.OURS, *, same_file: bool = False
    ) -> WriteAttempt:
        """A new attempt to add a data file, under names of its own. same_file: all attempts for this operation add the
        same file."""
        number = len(self.cluster.history.attempts) + 1
        name = operation if same_file else f"{operation}-{number}"
        return self.cluster.history.begin(
            WriteAttempt(
                operation,
                self.process.name,
                kind,
                snapshot_id=number * 1000 + self.random.below(1000),
                data_file=f"file:/t/data/{name}.parquet",
            )
        )

    def _zookeeper_lock(self, ensemble: Ensemble) -> ZooKeeperTableLock:
        session = ZooKeeperSession(
            "zookeeper:2181",
            self.runtime,
            timeout_ms=int(ensemble.timeout_seconds * 1000),
            connect_timeout_ms=self.cluster.settings.connect_timeout_ms,
            make_client=lambda _hosts, _timeout: SimulatedZooKeeperClient(
                ensemble, self.cluster.wire, self.process, self.runtime
            ),
        )
        return ZooKeeperTableLock(
            session,
            self.runtime,
            agent_info=lambda request: request,
            user="simulated",
            host=self.process.name,
            may_overwrite=lambda namespace: self.pool.cas_support.may_overwrite(namespace),
            swap_seconds=self.cluster.settings.unanswered_swap_timeout_ms / 1000,
        )
