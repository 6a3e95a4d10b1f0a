"""What all plans of a warehouse share: threads, processes, tokens and bounds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.changes.summary import whole_number
from iceberg_hms.clock import Clock
from iceberg_hms.coordinator.locations.guarded_manifests import manifests_for
from iceberg_hms.planning.answers import AnswerBounds, PlanAnswer, PlanJob, answer
from iceberg_hms.rest.plan_tokens import PlanTokens
from iceberg_hms.rest.planning_process import PlanningSetup, PlanningTask, version_of
from iceberg_hms.rest.planning_processes import PlanningProcesses
from iceberg_hms.rest.request_threads import RequestThreads
from iceberg_hms.rest.settings import RestSettings

#: Threads that plan, besides those that wait for a process that does.
THREADS: Final = 4
#: Tables with so many files are planned by a process: for others its round trip takes longer than the plan.
PROCESS_FROM_FILES: Final = 5_000
#: How much longer than `rest.planning-wait-ms` a process may take: an answer ends after a manifest, not within one.
MARGIN_SECONDS: Final = 60.0
#: Tokens in one answer at most, and their bytes.
_TASKS_MAX: Final = 256
_TASK_BYTES: Final = 512 * 1024
_COUNTS: Final = ("total-data-files", "total-delete-files")


@dataclass(frozen=True, slots=True)
class Planning:
    """threads: on which plans are made, so that loads do not wait for them. tokens: of plans and tasks.
    processes: None: threads plan all."""

    settings: RestSettings
    threads: RequestThreads
    tokens: PlanTokens
    clock: Clock
    processes: PlanningProcesses | None

    def bounds(self, token_bytes: int) -> AnswerBounds:
        """Of one answer whose tasks have tokens of so many bytes."""
        runs = max(2, min(_TASKS_MAX, _TASK_BYTES // token_bytes))
        return AnswerBounds(self.settings.rest_planning_max_files, self.settings.rest_planning_wait_ms / 1000, runs)

    def answer(self, catalog: Catalog, table: LoadedTable, job: PlanJob, *, takes_gzip: bool) -> PlanAnswer:
        """The answer to a job. takes_gzip: whether it may be gzip. Raises as `planning.answers.answer`,
        PlanUnavailable."""
        metadata, row = table.metadata, table.row
        if self.processes is not None and _is_large(table, job):
            folder = None if row is None else row.location
            task = PlanningTask(str(table.metadata_location), version_of(metadata), folder, job, takes_gzip)
            return self.processes.answer(task)
        policy = catalog.locations
        guard = None if policy is None or row is None else policy.table_guard(row, metadata)
        services = catalog.services
        manifests, columns = manifests_for(services.ports, guard), services.manifest_columns
        return answer(metadata, job, manifests, columns, monotonic=self.clock.monotonic, guard=guard)

    def close(self) -> None:
        """End what was started."""
        self.threads.close()
        if self.processes is not None:
            self.processes.close()


def planning_of(
    catalog: Catalog, settings: RestSettings, tokens: PlanTokens, clock: Clock, *, free_locations: bool
) -> Planning:
    """For a warehouse. free_locations: its clients may name every location."""
    number = settings.rest_planning_processes
    processes = None
    # Nobody else can open the files of a catalog in memory; an interpreter within a program may have no executable.
    if number and catalog.services.locks is not None and sys.executable:
        seconds = settings.rest_planning_wait_ms / 1000 + MARGIN_SECONDS
        processes = PlanningProcesses(number, _setup(catalog, settings, free=free_locations), clock, seconds)
    threads = RequestThreads("iceberg-hms-rest-plan", THREADS + (0 if processes is None else number))
    return Planning(settings, threads, tokens, clock, processes)


def _setup(catalog: Catalog, settings: RestSettings, *, free: bool) -> Callable[[], PlanningSetup]:
    return partial(
        PlanningSetup,
        settings=catalog.settings,
        allowed_locations=None if free else settings.rest_allowed_locations,
        strict=settings.rest_locations == "strict",
        memory_bytes=settings.rest_memory_max_bytes // 2,
    )


def _is_large(table: LoadedTable, job: PlanJob) -> bool:
    """Whether a table has many files, or does not say how many."""
    snapshot_id = job.request.snapshot_id
    snapshot = None if snapshot_id is None else table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return False
    counts = [whole_number(snapshot.summary.get(name, "0")) for name in _COUNTS]
    return "total-data-files" not in snapshot.summary or None in counts or _sum(counts) >= PROCESS_FROM_FILES


def _sum(counts: list[int | None]) -> int:
    return sum(each or 0 for each in counts)
