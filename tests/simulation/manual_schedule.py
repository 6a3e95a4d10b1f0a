"""A world that stands still, to be moved by hand, so that each invariant can be shown what it is there to see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from iceberg_hms.changes import updates
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.staging.staging import RecordedWrites, stage_one
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifests
from simulation.actors.client_snapshots import NEVER_REBASED, CommitKind, SentSnapshot, SnapshotBuilder
from simulation.actors.requests import for_update_table
from simulation.engine.runtime import EPOCH_MS
from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.scenarios.scenario import Scenario
from simulation.schedule import Schedule, quiet_logs
from simulation.world.cluster import TABLE, ClusterNode
from simulation.world.first_table import one_file
from simulation.world.history import Answer, CatalogCall, CatalogCallKind, WriteAttempt, WriterKind
from simulation.world.metastore import METADATA_LOCATION, iceberg_row
from simulation.world.storage import Storage

OTHER = TableName("db", "u")


class ManualSchedule:
    """A schedule that is never run: moves and answers are made by hand, and checked as in a run."""

    def __init__(self, **scenario: Any) -> None:
        self.schedule = Schedule(Scenario("by-hand", "", **scenario), 1, WorkerPool())
        self.storage = self.schedule.storage
        self.history = self.schedule.history
        self.schedule.prepare()
        #: Called when an append's files are written, before the pointer names them.
        self.before_the_move: Callable[[], None] = lambda: None

    @property
    def failure(self) -> str | None:
        return self.schedule.scheduler.failure

    @property
    def location(self) -> str:
        return self.schedule.metastore.location(TABLE)

    def metadata(self, location: str | None = None) -> TableMetadata:
        location = location or self.location
        return metadata_file.decode(self.storage.files[location], location)

    def attempt(self, number: int, answer: Answer = Answer.NOTHING, **fields: Any) -> WriteAttempt:
        """An append of w1."""
        given = {"snapshot_id": number, "data_file": f"file:/t/data/{number}.parquet", **fields}
        return self.history.begin(WriteAttempt(f"wish {number}", "w1", answer=answer, **given))

    def append(self, number: int, base: str | None = None, process: str = "w1") -> str:
        """Move the pointer to the base with one more snapshot."""
        base = base or self.location
        path = f"file:/t/data/{number}.parquet"
        self.storage.data.add(path)
        new = NewSnapshot(snapshot_id=number, table_uuid=None, now_ms=lambda: EPOCH_MS)
        change = Append(new, one_file(path, number))
        manifests = MemoryManifests(self.storage.store)
        metadata, _ = stage_one(self.metadata(base), change, RecordedWrites(manifests), lambda: EPOCH_MS)
        manifests.flush()
        self.before_the_move()
        return self.point(metadata, base, process)

    def update(self, *changes: Any, base: str | None = None, process: str = "w1", table: TableName = TABLE) -> str:
        """Move the pointer to the base with some updates."""
        base = base or self.location
        return self.point(apply(self.metadata(base), list(changes), now_ms=EPOCH_MS), base, process, table)

    def mark(self, name: str) -> Any:
        return updates.set_properties({name: "1"})

    def point(self, metadata: TableMetadata, base: str, process: str = "w1", table: TableName = TABLE) -> str:
        logged = metadata.with_metadata_log_entry(base, metadata.last_updated_ms)
        location = f"file:/t/metadata/{len(self.storage.files):05}-x.metadata.json"
        self.storage.files[location] = metadata_file.encode(logged)
        self.move(location, process, table)
        return location

    def move(self, location: str, process: str = "w1", table: TableName = TABLE) -> None:
        row = iceberg_row(table, {METADATA_LOCATION: location})
        self.schedule.metastore.alter(table, table, row, process=process)

    def caller(self, kind: CatalogCallKind, name: str) -> CatalogCall:
        """A move of TABLE that has begun."""
        move = CatalogCall(kind, name, TABLE, OTHER)
        self.history.catalog_calls.append(move)
        return move

    def rename(self, process: str, location: str | None = None) -> None:
        row = iceberg_row(OTHER, {METADATA_LOCATION: location or self.location})
        self.schedule.metastore.alter(TABLE, OTHER, row, expected=self.location, process=process)

    def drop(self, process: str) -> None:
        self.schedule.metastore.remove(TABLE, process=process)

    def record_answer(self, attempt: WriteAttempt, answer: Answer) -> None:
        self.history.record_answer(attempt, answer)

    def rest(self) -> None:
        self.schedule.check_at_rest()


def run_tasks(*functions: Callable[[Scheduler], None], seed: int = 1, **bounds: Any) -> Scheduler:
    """Run each function as a process of its own."""
    pool = WorkerPool()
    scheduler = Scheduler(SeededRandom(seed), pool, **bounds)
    for index, function in enumerate(functions):
        scheduler.spawn(Process(f"p{index}"), "task", partial(function, scheduler))
    scheduler.run()
    pool.close()
    return scheduler


def on_a_node(work: Callable[[ClusterNode], Any], **scenario: Any) -> Schedule:
    """Run something in one process alone."""
    pool = WorkerPool()
    schedule = Schedule(Scenario("test", "", **{"writers": 0, **scenario}), 1, pool)
    node = ClusterNode(schedule.cluster, "p")
    node.runtime.spawn("work", lambda: work(node))
    with quiet_logs():
        schedule.scheduler.run()
    pool.close()
    assert schedule.scheduler.failure is None
    return schedule


OURS = WriterKind.OURS


@dataclass
class SentCommit:
    """What a stock client sent to a table with two data files, and what came of it."""

    storage: Storage
    attempt: WriteAttempt
    snapshot: SentSnapshot | None = None
    metadata: TableMetadata = field(default_factory=lambda: TableMetadata({}))


def sent_commit(commit_kind: CommitKind, *, files: int = 2, branch: str = "main", **scenario: Any) -> SentCommit:
    """One client sends one snapshot of this kind."""
    made: list[SentCommit] = []

    def work(node: ClusterNode) -> None:
        coordinator = node.coordinator()
        for number in range(files):
            attempt = WriteAttempt(
                f"first {number}", "p", snapshot_id=number + 1, data_file=f"file:/t/data/{number + 1}.parquet"
            )
            coordinator.commit(TABLE, node.append(attempt), wait_seconds=60.0)
        data_file = None if commit_kind in NEVER_REBASED else "file:/t/data/mine.parquet"
        attempt = WriteAttempt("mine", "p", snapshot_id=77, data_file=data_file, mark="mark", branch=branch)
        attempt.rewrites = commit_kind is CommitKind.REWRITE
        made.append(SentCommit(node.cluster.storage, attempt))
        base = coordinator.load(TABLE).metadata
        snapshot = made[0].snapshot = SnapshotBuilder(node, attempt, commit_kind).make(base)
        if snapshot is not None and commit_kind is not CommitKind.INVALID:
            sent = snapshot.updates
            change = from_request(list(for_update_table(base, sent)), list(sent))
            made[0].metadata = coordinator.commit(TABLE, change, wait_seconds=60.0).metadata

    on_a_node(work, **scenario)
    return made[0]
