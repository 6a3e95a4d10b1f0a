"""One schedule from its seed to its verdict, and many of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.format import metadata_file
from iceberg_hms.format.create import new_table_metadata
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.format.schema import Schema
from iceberg_hms.testing.simulation.faults import Wire
from iceberg_hms.testing.simulation.history import Attempt, History, Kind, Told
from iceberg_hms.testing.simulation.invariants import TableState, View, broken
from iceberg_hms.testing.simulation.metastore import METADATA_LOCATION, Metastore, Moved
from iceberg_hms.testing.simulation.runtime import EPOCH_MS, SimulatedRuntime
from iceberg_hms.testing.simulation.scenarios import Scenario
from iceberg_hms.testing.simulation.scheduler import Process, Scheduler, WorkerPool
from iceberg_hms.testing.simulation.seeded import Seeded
from iceberg_hms.testing.simulation.storage import Storage
from iceberg_hms.testing.simulation.writers import (
    TABLE,
    Auditor,
    CasWriter,
    ForeignWriter,
    LockWriter,
    Site,
    StrayWriter,
    Writer,
    key_of,
)

#: How often a crashed writer's work is taken up by a new process.
_SUCCESSORS_MAX: Final = 3
_SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


@dataclass(frozen=True)
class Result:
    """What became of a schedule.

    failure: the invariant and what it found, None if all held.
    trace: one line an event; of a failure, or if it was asked for.
    seconds: simulated.
    committed, failed, unknown: attempts, by what their clients were told.
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
    """The world of one scenario under one seed."""

    def __init__(self, scenario: Scenario, seed: int, pool: WorkerPool) -> None:
        luck = Seeded(seed).fork(scenario.name)
        self.scenario = scenario
        self.seed = seed
        self.scheduler = Scheduler(luck.fork("scheduler"), pool)
        self.wire = Wire(self.scheduler, luck.fork("faults"), scenario.weather, lease_seconds=scenario.lease_seconds)
        self.metastore = Metastore(
            self.scheduler,
            verdict=scenario.verdict,
            lease_seconds=scenario.lease_seconds,
            reaper=scenario.reaper,
            reaper_delay=luck.pick((0.0, 0.0, scenario.lease_seconds)),
        )
        network = Process("network")
        self.storage = Storage(SimulatedRuntime(self.scheduler, network, luck.fork("storage")))
        self.history = History()
        self.site = Site(
            scheduler=self.scheduler,
            wire=self.wire,
            metastore=self.metastore,
            storage=self.storage,
            history=self.history,
            settings=_settings(),
            network=network,
            luck=luck.fork("site"),
            lease_seconds=scenario.lease_seconds,
            waits=scenario.waits,
            proven=scenario.proven,
            present=lambda attempt: self._state.has(attempt),
        )
        self._writers: list[Writer] = []
        self._foreign: list[ForeignWriter] = []
        self._successors = 0
        self._state = self._create_table()
        self.metastore.on_move = self._on_move
        self.metastore.on_acquired = self.wire.on_acquired
        self.storage.on_delete = self._on_delete
        self.history.on_told = self._on_told
        self.wire.on_crash = self._on_crash

    def run(self, *, traces: bool = False) -> Result:
        """Run it to its end. traces: keep the trace of a schedule that holds, too."""
        self.prepare()
        for writer in self._everybody():
            writer.start()
        self.scheduler.when_idle = self._audit
        self.scheduler.run()
        if self.scheduler.failure is None:
            self.check_at_rest()
        told = [attempt.told for attempt in self.history.attempts]
        return Result(
            scenario=self.scenario.name,
            seed=self.seed,
            failure=self.scheduler.failure,
            trace=tuple(self.wire.trace.lines()) if traces or self.scheduler.failure else (),
            steps=self.scheduler.steps,
            seconds=self.scheduler.now,
            committed=told.count(Told.COMMITTED),
            failed=told.count(Told.FAILED),
            unknown=told.count(Told.UNKNOWN),
        )

    def prepare(self) -> None:
        """Make the processes; none of them has begun."""
        scenario = self.scenario
        self._writers = [Writer(self.site, f"w{index + 1}", scenario.changes) for index in range(scenario.writers)]
        self._foreign = [
            *(LockWriter(self.site, f"locker{index + 1}") for index in range(scenario.lock_writers)),
            *(CasWriter(self.site, f"swapper{index + 1}") for index in range(scenario.cas_writers)),
            *(StrayWriter(self.site, f"stray{index + 1}") for index in range(scenario.strays)),
        ]

    def _everybody(self) -> list[Writer | ForeignWriter]:
        return [*self._writers, *self._foreign]

    def check_at_rest(self) -> None:
        """What must hold when nothing runs any more."""
        self._check(at_rest=True)

    def _audit(self) -> None:
        """Called once, when nothing runs any more."""
        self.wire.clear_up()
        self.check_at_rest()
        if self.scheduler.failure is None:
            auditor = Auditor(self.site, expects_success=self.scenario.comes_back)
            self.scheduler.spawn(auditor.process, "audit", auditor.run)

    def _create_table(self) -> TableState:
        location, data = _first_metadata(tuple(sorted(self.scenario.properties.items())))
        self.storage.files[location] = data
        self.metastore.rows[TABLE] = {METADATA_LOCATION: location}
        return TableState.read(self.storage, location)

    def _on_move(self, moved: Moved) -> None:
        if moved.location is not None:
            before, self._state = self._state, TableState.read(self.storage, moved.location)
            self._check(before=before, moved=moved)

    def _on_delete(self, location: str) -> None:
        self._check(deleted=location)

    def _on_told(self, _attempt: Attempt) -> None:
        self._check()

    def _on_crash(self, process: Process) -> None:
        """Somebody notices, some time, and runs the job again with its own key."""
        luck = self.site.luck
        cut_off = [
            attempt.wish
            for attempt in self.history.attempts
            if attempt.writer == process.name
            and attempt.kind is Kind.OURS
            and attempt.snapshot_id is not None
            and key_of(attempt.wish) is not None
            and attempt.told in (Told.NOTHING, Told.UNKNOWN)
        ]
        if not cut_off or self._successors >= _SUCCESSORS_MAX or luck.chance(0.3):
            return
        self._successors += 1
        successor = Writer(self.site, f"{process.name}+", 0, resume=tuple(dict.fromkeys(cut_off)))
        self._writers.append(successor)
        delay = luck.pick((0.0, 1.0, 10.0, 100.0))

        def begin() -> None:
            self.scheduler.sleep(delay)
            successor.start()

        self.scheduler.spawn(self.site.network, f"rerun of {process.name}", begin)

    def _check(
        self,
        *,
        before: TableState | None = None,
        moved: Moved | None = None,
        deleted: str | None = None,
        at_rest: bool = False,
    ) -> None:
        ours = frozenset((*(writer.node.process.name for writer in self._writers), "auditor"))
        living = [each.node.process.name for each in self._everybody() if each.node.process.alive]
        view = View(
            now=self._state,
            history=self.history,
            before=before,
            moved=moved,
            deleted=deleted,
            kept=self.scenario.kept,
            at_rest=at_rest,
            alive=frozenset(living),
            locks=self._locks_left() if at_rest else (),
            all_commit=self.scenario.all_commit,
            ours=ours,
        )
        found = broken(view)
        if found is not None:
            self.scheduler.fail(found)

    def _locks_left(self) -> tuple[str, ...]:
        """Processes with entries; after a lost call an entry may be left for its lease to end."""
        if self.scenario.weather.lost_requests or self.scenario.weather.lost_replies:
            return ()
        return tuple(entry.process for entry in self.metastore.locks)


def run_schedule(scenario: Scenario, seed: int, pool: WorkerPool | None = None) -> Result:
    """One schedule: the same scenario and seed give the same events."""
    own = pool or WorkerPool()
    try:
        with quiet_logs():
            return Schedule(scenario, seed, own).run()
    finally:
        if pool is None:
            own.close()


def run_schedules(
    scenarios: Sequence[Scenario], schedules: int, seed: int, *, traces: bool = False
) -> Iterator[Result]:
    """Schedules under the seeds seed, seed + 1, ...; the scenarios take turns. traces: keep them all."""
    pool = WorkerPool()
    try:
        with quiet_logs():
            for index in range(schedules):
                yield Schedule(scenarios[index % len(scenarios)], seed + index, pool).run(traces=traces)
    finally:
        pool.close()


@contextmanager
def quiet_logs() -> Iterator[None]:
    """The coordinator's warnings are what a schedule is made of: nobody reads thousands of them."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@lru_cache(maxsize=1)
def _settings() -> Settings:
    """Defaults, with less to wait for where only the length of the trace would grow."""
    return replace(Settings.load({}, environ={}), status_check_max_wait_ms=10_000)


@lru_cache(maxsize=64)
def _first_metadata(properties: tuple[tuple[str, str], ...]) -> tuple[str, bytes]:
    metadata: TableMetadata = new_table_metadata(
        Schema.parse(_SCHEMA),
        None,
        None,
        "file:/t",
        dict(properties),
        uuid="00000000-0000-4000-8000-000000000000",
        now_ms=EPOCH_MS - 86_400_000,
    )
    return "file:/t/metadata/00000-first.metadata.json", metadata_file.encode(metadata)
