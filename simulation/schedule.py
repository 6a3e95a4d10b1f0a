"""One schedule from its seed to its result, and many of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from string import ascii_lowercase
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.testing.memory_metastore import LockRow
from simulation.actors.catalog_callers import NAMES, CatalogCaller, LockOperator
from simulation.actors.clients import CommitServer
from simulation.actors.expirers import Expirer
from simulation.actors.migrators import HiveWriter, Migrator
from simulation.actors.movers import Mover
from simulation.actors.table_users import TableExpirer, TableUser
from simulation.actors.view_users import ViewUser
from simulation.actors.writers import (
    Auditor,
    CasWriter,
    CoordinatorWriter,
    ForeignWriter,
    JavaWriter,
    LockWriter,
    LostLockWriter,
    key_of,
)
from simulation.checks.checker import Checker, Promises
from simulation.checks.kinds import KindChecker
from simulation.checks.views import ViewChecker
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.scenarios.scenario import Scenario
from simulation.world.cluster import TABLE, Cluster
from simulation.world.decoding import remembered
from simulation.world.ensemble import Ensemble
from simulation.world.faults import Wire
from simulation.world.first_table import SNAPSHOT_ISOLATION, first_metadata
from simulation.world.history import Answer, History, WriterKind
from simulation.world.hive_table import HIVE, hive_table_row
from simulation.world.metastore import METADATA_LOCATION, Metastore, RowChange, iceberg_row
from simulation.world.metastore_server import SimulatedServer
from simulation.world.storage import Storage

#: How often a new process resumes a crashed writer's work, at most.
_SUCCESSORS_MAX: Final = 3
#: A process that has been awake for so long has given up the locks that it lost while asleep.
_AWAKE_SECONDS: Final = 30.0
#: The address of a server whose lock API is broken.
_WITHOUT_LOCKS: Final = "thrift://blind:9083"

_OtherActor = (
    ForeignWriter | CatalogCaller | LockOperator | Expirer | TableUser | Mover | ViewUser | Migrator | HiveWriter
)


@dataclass(frozen=True)
class Result:
    """The result of a schedule.

    failure: the invariant and what it found, None if all held.
    trace: one line for each event, if the schedule failed or the caller asked for it.
    seconds: simulated.
    committed, failed, unknown: how many attempts were answered so.
    """

    scenario: str
    seed: int
    failure: str | None
    trace: tuple[str, ...]
    steps: int
    seconds: float
    committed: int
    failed: int
    unknown: int


class Schedule:
    """One scenario under one seed: it wires servers, processes and checker together."""

    def __init__(self, scenario: Scenario, seed: int, pool: WorkerPool) -> None:
        random = SeededRandom(seed).fork(scenario.name)
        self.scenario = scenario
        self.seed = seed
        self.scheduler = Scheduler(random.fork("scheduler"), pool)
        self.wire = Wire(self.scheduler, random.fork("faults"), scenario.faults, lease_seconds=scenario.lease_seconds)
        self.metastore = Metastore(
            self.scheduler,
            lease_seconds=scenario.lease_seconds,
            reaper=scenario.reaper,
            reaper_delay=random.pick((0.0, 0.0, scenario.lease_seconds)),
            skew_ms=random.below(7_200_000) - 3_600_000,
        )
        self.metastore.lock_api_works = scenario.lock_api_works
        for namespace, parameters in (("default", {}), (TABLE.namespace, scenario.namespace)):
            self.metastore.add_database(namespace, parameters)
        self.ensemble = self._ensemble(random) if scenario.zookeeper else None
        network = Process("network")
        self.storage = Storage(SimulatedRuntime(self.scheduler, network, random.fork("storage")))
        self.history = History()
        servers = self._servers(random)
        uris = ",".join([uri for uri in servers if uri != _WITHOUT_LOCKS][: 1 if scenario.balanced else None])
        settings = replace(_settings(), metastore_uri=uris, **scenario.settings)
        self.cluster = Cluster(
            scheduler=self.scheduler,
            wire=self.wire,
            metastore=self.metastore,
            servers=servers,
            without_locks=_WITHOUT_LOCKS,
            ensemble=self.ensemble,
            storage=self.storage,
            history=self.history,
            settings=settings,
            lock=scenario.lock,
            network=network,
            random=random.fork("site"),
            lease_seconds=scenario.lease_seconds,
            waits=scenario.waits,
            proven=scenario.proven,
            balanced=scenario.balanced,
            own_servers=scenario.own_servers,
            latest=scenario.latest,
            present=lambda attempt: self.checker.has(attempt),
        )
        self._writers: list[CoordinatorWriter | CommitServer | TableUser] = []
        self._other_actors: list[_OtherActor] = []
        self._successors = 0
        self.checker = Checker(
            Promises(
                protected=scenario.protected,
                all_commit=scenario.all_commit,
                in_order=scenario.in_order,
                steady=scenario.faults.is_steady,
                tidy=scenario.tidy,
                tables_move=bool(scenario.catalog_callers),
            ),
            self.storage,
            self.history,
            self.scheduler.fail,
            self._ours,
            settings=settings,
            now=lambda: self.scheduler.now,
        )
        self._create_table()
        self.view_checker = ViewChecker(self.storage, self.history, self.scheduler.fail)
        self.kind_checker = KindChecker(self.storage, self.history, self.metastore, self.scheduler.fail)
        self._watch()

    def _watch(self) -> None:
        """Have the checkers and the faults hear of what happens."""
        self.metastore.on_row_change = self._on_row_change
        self.metastore.on_view_change = self.view_checker.on_row_change
        self.storage.on_delete = self._on_delete
        self.checker.refused = self.metastore.refused
        self.metastore.locks.on_acquired = lambda entry: self.wire.on_acquired(entry.process)
        if self.scenario.live_locks_kept:
            self.metastore.on_removed_by_other = self._on_lock_removed
        self.wire.on_crash = self._on_crash

    def run(self, *, traces: bool = False) -> Result:
        """Run it to its end. traces: keep the trace even if nothing fails."""
        self.prepare()
        for writer in self._everybody():
            writer.start()
        self.scheduler.when_idle = self._audit
        self.scheduler.run()
        if self.scheduler.failure is None:
            self.check_at_rest()
        answer = [attempt.answer for attempt in self.history.attempts]
        return Result(
            scenario=self.scenario.name,
            seed=self.seed,
            failure=self.scheduler.failure,
            trace=tuple(self.wire.trace.lines()) if traces or self.scheduler.failure else (),
            steps=self.scheduler.steps,
            seconds=self.scheduler.now,
            committed=answer.count(Answer.COMMITTED),
            failed=answer.count(Answer.FAILED),
            unknown=answer.count(Answer.UNKNOWN),
        )

    def prepare(self) -> None:
        """Make the processes, without starting them."""
        scenario = self.scenario
        names, starts_within = (NAMES, 30.0) if scenario.catalog_callers else ((TABLE,), scenario.starts_within)
        self._writers = [
            CoordinatorWriter(
                self.cluster,
                f"w{index + 1}",
                scenario.changes,
                rest=scenario.rest,
                shared=[f"shared.{letter}" for letter in ascii_lowercase[: scenario.shared]],
                names=names,
                starts_within=starts_within,
                without_lock_api=index < scenario.without_lock_api,
            )
            for index in range(scenario.writers)
        ]
        if scenario.clients is not None:
            self._writers += [
                CommitServer(self.cluster, f"s{index + 1}", scenario.clients) for index in range(scenario.servers)
            ]
        self._writers += [
            TableUser(self.cluster, f"u{index + 1}", scenario.changes) for index in range(scenario.table_users)
        ]
        foreign = [
            *(JavaWriter(self.cluster, f"java{index + 1}") for index in range(scenario.java_writers)),
            *(LockWriter(self.cluster, f"locker{index + 1}") for index in range(scenario.lock_writers)),
            *(CasWriter(self.cluster, f"swapper{index + 1}") for index in range(scenario.cas_writers)),
            *(LostLockWriter(self.cluster, f"lost-lock{index + 1}") for index in range(scenario.lost_lock_writers)),
        ]
        self.cluster.foreign.update(each.node.process.name for each in foreign)
        self.checker.foreign = self.cluster.foreign
        self.checker.expirers = frozenset((*self._expirers(), *self._table_expirers()))
        self._other_actors = [
            *foreign,
            *(
                CatalogCaller(self.cluster, f"caller{index + 1}", scenario.catalog_call_kinds, self.checker.registrable)
                for index in range(scenario.catalog_callers)
            ),
            *(Mover(self.cluster, f"mover{index + 1}") for index in range(scenario.movers)),
            *(ViewUser(self.cluster, f"v{index + 1}", scenario.changes) for index in range(scenario.view_users)),
            *(Migrator(self.cluster, f"m{index + 1}", scenario.changes) for index in range(scenario.migrators)),
            *(HiveWriter(self.cluster, f"hive{index + 1}", scenario.changes) for index in range(scenario.hive_writers)),
            *(LockOperator(self.cluster, name, scenario.operator_actions) for name in self._operators()),
            *(Expirer(self.cluster, name) for name in self._expirers()),
            *(TableExpirer(self.cluster, name) for name in self._table_expirers()),
        ]

    def _everybody(self) -> list[CoordinatorWriter | CommitServer | TableUser | _OtherActor]:
        return [*self._writers, *self._other_actors]

    def _ours(self) -> list[str]:
        """The processes whose swaps must log the file that they replace."""
        return [
            *(writer.node.process.name for writer in self._writers),
            *self.checker.expirers,
            "auditor",
            *self._operators(),
        ]

    def _operators(self) -> list[str]:
        count = self.scenario.operators if self.scenario.operator_actions else 0
        return [f"operator{index + 1}" for index in range(count)]

    def _expirers(self) -> list[str]:
        return [f"expirer{index + 1}" for index in range(self.scenario.expirers)]

    def _table_expirers(self) -> list[str]:
        return [f"table-expirer{index + 1}" for index in range(self.scenario.table_expirers)]

    def check_at_rest(self) -> None:
        """Check what must hold when nothing runs any more."""
        living = [each.node.process.name for each in self._everybody() if each.node.process.alive]
        self.view_checker.check_at_rest(living)
        self.kind_checker.check_at_rest(living)
        self.checker.check(at_rest=True, alive=living, locks=self._locks_left())

    def _audit(self) -> None:
        """Called once, when nothing runs any more: check, and let a last writer commit."""
        self.wire.stop_faults()
        self.metastore.on_insert = self.metastore.on_searched = None
        self.metastore.lock_api_works = self.scenario.lock_api_works
        self.check_at_rest()
        if self.scheduler.failure is None:
            auditor = Auditor(
                self.cluster, expects_success=self.scenario.recovers and not self.checker.has_excused_files
            )
            self.scheduler.spawn(auditor.process, "audit", auditor.run)

    def _create_table(self) -> None:
        properties = {**SNAPSHOT_ISOLATION, **self.scenario.properties}
        location, data = first_metadata(tuple(sorted(properties.items())))
        self.storage.files[location] = data
        self.metastore.rows[TABLE] = iceberg_row(TABLE, {**properties, METADATA_LOCATION: location})
        self.checker.begin(TABLE, location)
        if self.scenario.migrators:
            self.metastore.rows[HIVE] = hive_table_row()

    def _servers(self, random: SeededRandom) -> dict[str, SimulatedServer]:
        scenario = self.scenario
        unsupported = random.chance(0.5)
        verdicts = [scenario.swap_support, *scenario.other_servers]
        uris = [*(f"thrift://hms{number + 1}:9083" for number in range(len(verdicts))), _WITHOUT_LOCKS]
        return {
            uri: SimulatedServer(
                self.scheduler,
                self.metastore,
                uri,
                swap_support=swap_support,
                has_locks=uri != _WITHOUT_LOCKS,
                says_unsupported=unsupported,
            )
            for uri, swap_support in zip(uris, [*verdicts, scenario.swap_support], strict=True)
        }

    def _ensemble(self, random: SeededRandom) -> Ensemble:
        scenario = self.scenario
        ensemble = Ensemble(
            lambda: self.scheduler.now,
            timeout_seconds=scenario.lease_seconds,
            ends_after=random.pick((1.0, 1.0, 1.5)),
            cut_off_after=0.1 if scenario.ends_sessions_early else 1.5,
        )
        ensemble.on_first = self.wire.on_acquired
        return ensemble

    def _on_row_change(self, change: RowChange) -> None:
        (self.kind_checker if change.table == HIVE else self.checker).on_row_change(change)

    def _on_delete(self, location: str) -> None:
        self.checker.on_delete(location)
        self.kind_checker.on_delete(location)
        self.view_checker.on_delete(location)

    def _on_crash(self, process: Process) -> None:
        """After a while a new process runs the crashed writer's jobs again, under their idempotency keys; or a crashed
        server is started again, and its clients send again what it left unanswered."""
        random = self.cluster.random
        server = next((each for each in self._writers if each.node.process is process), None)
        if isinstance(server, CommitServer):
            self._restart(server)
            return
        cut_off = [
            attempt.operation
            for attempt in self.history.attempts
            if attempt.writer == process.name
            and attempt.kind is WriterKind.OURS
            and attempt.snapshot_id is not None
            and key_of(attempt.operation) is not None
            and not attempt.parents_seen
            and attempt.answer in (Answer.NOTHING, Answer.UNKNOWN)
        ]
        if not cut_off or self._successors >= _SUCCESSORS_MAX or random.chance(0.3):
            return
        self._successors += 1
        self._start_later(
            CoordinatorWriter(self.cluster, f"{process.name}+", 0, resume=tuple(dict.fromkeys(cut_off))), process
        )

    def _restart(self, server: CommitServer) -> None:
        if self.scenario.clients is None or not server.cut_off or self._successors >= _SUCCESSORS_MAX:
            return
        self._successors += 1
        name, clients = f"{server.node.process.name}+", self.scenario.clients
        again = CommitServer(self.cluster, name, clients, skew_ms=server.skew_ms, resume=server.cut_off)
        self._start_later(again, server.node.process)

    def _start_later(self, successor: CoordinatorWriter | CommitServer, crashed: Process) -> None:
        self._writers.append(successor)
        delay = self.cluster.random.pick((0.0, 1.0, 10.0, 100.0))

        def begin() -> None:
            self.scheduler.sleep(delay)
            successor.start()

        self.scheduler.spawn(self.cluster.network, f"rerun of {crashed.name}", begin)

    def _on_lock_removed(self, entry: LockRow, by: str) -> None:
        now = self.scheduler.now
        for process in (each.node.process for each in self._everybody()):
            if process.name == entry.process and process.alive and now - process.paused_until > _AWAKE_SECONDS:
                self.scheduler.fail(f"live-locks-kept: {by} removed lock {entry.id} of {entry.process}, which lives")

    def _locks_left(self) -> tuple[str, ...]:
        """The processes with lock entries, but for those that may leave one until its lease ends: where their servers
        cannot be reached, and after an answer that says that nobody knows the outcome, which may still be made."""
        faults = self.scenario.faults
        unreachable = faults.lost_requests or faults.partitions or faults.silences
        if unreachable or {"break", "outage"} & set(self.scenario.operator_actions):
            return ()
        nodes = [] if self.ensemble is None else self.ensemble.holders()
        left = (*(entry.process for entry in self.metastore.locks.rows.values()), *nodes)
        history = self.cluster.history
        unknown = {each.writer for each in history.attempts if each.answer is Answer.UNKNOWN}
        unknown |= {each.caller for each in history.catalog_calls if each.answer is Answer.UNKNOWN}
        unknown |= {each.caller for each in history.kind_calls if each.answer is Answer.UNKNOWN}
        return tuple(process for process in left if process not in unknown)


def run_schedule(scenario: Scenario, seed: int, pool: WorkerPool | None = None) -> Result:
    """Run one schedule: the same scenario and seed give the same events."""
    own = pool or WorkerPool()
    try:
        with quiet_logs(), remembered():
            return Schedule(scenario, seed, own).run()
    finally:
        if pool is None:
            own.close()


def run_schedules(
    scenarios: Sequence[Scenario], schedules: int, seed: int, *, skipped: int = 0, traces: bool = False
) -> Iterator[Result]:
    """Run schedules under the seeds seed, seed + 1, ..., with the scenarios in turn. traces: keep all of them.
    skipped: how many of the first to leave out."""
    pool = WorkerPool()
    try:
        with quiet_logs(), remembered():
            for index in range(skipped, schedules):
                yield Schedule(scenarios[index % len(scenarios)], seed + index, pool).run(traces=traces)
    finally:
        pool.close()


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Silence the logs within: faults cause thousands of warnings."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@lru_cache(maxsize=1)
def _settings() -> Settings:
    """The default settings, with fewer status checks, which only make traces longer."""
    return replace(Settings.load({}, environ={}), status_check_max_wait_ms=10_000)
