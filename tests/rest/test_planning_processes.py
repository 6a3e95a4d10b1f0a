"""Processes that plan, over tables on the local disk."""

from __future__ import annotations

import gzip
import os
import pickle
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.clock import SYSTEM_CLOCK, SystemClock
from iceberg_hms.config import Settings
from iceberg_hms.errors import InvalidInput, LocationNotAllowed, NoSuchPlanTask, PlanUnavailable
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.gzip_parts import GzipStart
from iceberg_hms.planning.answers import AnswerBounds, PlanJob, Run
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.rest.planning_process import NICE, PlanningSetup, PlanningTask, version_of
from iceberg_hms.rest.planning_processes import PlanningProcesses
from iceberg_hms.stores import open_files
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.rest.planning_children import planners_of

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "n", "required": False, "type": "long"}],
}
BOUNDS = AnswerBounds(files=1_000, seconds=30, runs=4)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.load({"warehouse": tmp_path_factory.mktemp("warehouse").as_uri()}, environ={})


@pytest.fixture(scope="module")
def catalog(settings: Settings) -> Iterator[Catalog]:
    files: Any = open_files(settings)
    with memory_catalog(files=files, warehouse=settings.warehouse) as made:
        made.create_namespace("default")
        yield made


@pytest.fixture(scope="module")
def table(catalog: Catalog) -> Table:
    table = catalog.create_table(("default", "t"), SCHEMA)
    table.append(
        DataFile(f"{table.metadata.location}/data/{name}.parquet", "PARQUET", record_count=1, file_size_in_bytes=10)
        for name in "abc"
    )
    return table


def setup(settings: Settings, allowed: str | None = None, *, strict: bool = False) -> PlanningSetup:
    return PlanningSetup(settings, allowed, strict, memory_bytes=2**30)


@pytest.fixture(scope="module")
def processes(settings: Settings) -> Iterator[PlanningProcesses]:
    made = PlanningProcesses(1, lambda: setup(settings), SYSTEM_CLOCK, seconds=60)
    yield made
    made.close()


def task_of(table: Table, *, packed: bool = False, **more: Any) -> PlanningTask:
    metadata = table.metadata
    request = ScanRequest(snapshot_id=metadata.current_snapshot_id)
    job = PlanJob(request, metadata.current_schema_id, BOUNDS, **more)
    return PlanningTask(table.metadata_location, version_of(metadata), metadata.location, job, packed)


def child_of(server: int, others: Collection[int] = ()) -> int:
    """The only process that plans for a server, besides others."""
    (one,) = set(planners_of(server)) - set(others)
    return one


class LateClock(SystemClock):
    """late: nearly a minute passes between two looks."""

    late = False
    _passed = 0.0

    def monotonic(self) -> float:
        self._passed += 59.8 if self.late else 0
        return super().monotonic() + self._passed


def ends(pid: int, seconds: float = 30) -> bool:
    """Whether a process that is no child of this one, or not waited for, ends in time."""
    descriptor = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([descriptor], [], [], seconds)
    finally:
        os.close(descriptor)
    return bool(ready)


def test_a_process_plans_what_it_is_sent(processes: PlanningProcesses, table: Table) -> None:
    answer = processes.answer(task_of(table))
    assert isinstance(answer.tasks, bytes)
    tasks = orjson.loads(b"{" + answer.tasks + b"}")["file-scan-tasks"]
    assert [each["data-file"]["file-path"][-9:] for each in tasks] == ["a.parquet", "b.parquet", "c.parquet"]
    assert (answer.count, answer.rest) == (3, [])
    child = child_of(os.getpid())
    assert os.getpriority(os.PRIO_PROCESS, child) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
    # The next one goes to the same process.
    assert processes.answer(task_of(table)) == answer
    assert child_of(os.getpid()) == child


def test_a_process_compresses_what_the_client_takes_so(processes: PlanningProcesses, table: Table) -> None:
    plain, packed = (processes.answer(task_of(table, packed=each)) for each in (False, True))
    assert isinstance(plain.tasks, bytes)
    assert isinstance(packed.tasks, GzipStart)
    assert gzip.decompress(packed.tasks.ended(b"}")) == b"{" + plain.tasks + b"}"
    assert replace(packed, tasks=b"") == replace(plain, tasks=b"")


def test_what_it_raises_is_raised_here_and_the_process_goes_on(processes: PlanningProcesses, table: Table) -> None:
    task = task_of(table, run=Run(0, 1), digest="another")
    with pytest.raises(NoSuchPlanTask):
        processes.answer(task)
    child = child_of(os.getpid())
    missing = replace(task.job, request=replace(task.job.request, stats_fields=("nowhere",)))
    with pytest.raises(InvalidInput, match="nowhere"):
        processes.answer(replace(task, job=missing))
    assert child_of(os.getpid()) == child


def test_a_metadata_file_that_was_replaced_is_not_planned_from(processes: PlanningProcesses, table: Table) -> None:
    with pytest.raises(PlanUnavailable, match="replaced"):
        processes.answer(replace(task_of(table), version=("another", 1)))


def test_it_reads_only_what_clients_may_name(settings: Settings, table: Table, tmp_path: Path) -> None:
    elsewhere = replace(settings, warehouse=tmp_path.as_uri())
    guarded = PlanningProcesses(1, lambda: setup(elsewhere, "", strict=True), SYSTEM_CLOCK, seconds=60)
    try:
        with pytest.raises(LocationNotAllowed):
            guarded.answer(task_of(table))
    finally:
        guarded.close()


def test_a_process_that_was_killed_is_replaced(processes: PlanningProcesses, table: Table) -> None:
    answer = processes.answer(task_of(table))
    killed = child_of(os.getpid())
    os.kill(killed, signal.SIGKILL)
    assert processes.answer(task_of(table)) == answer
    assert child_of(os.getpid()) != killed


def test_a_plan_that_takes_too_long_ends_with_its_process(settings: Settings, table: Table) -> None:
    others, clock = planners_of(os.getpid()), LateClock()
    processes = PlanningProcesses(1, lambda: setup(settings), clock, seconds=60)
    try:
        answer = processes.answer(task_of(table))
        stopped = child_of(os.getpid(), others)
        os.kill(stopped, signal.SIGSTOP)
        clock.late = True
        with pytest.raises(PlanUnavailable, match="too long"):
            processes.answer(task_of(table))
        clock.late = False
        assert processes.answer(task_of(table)) == answer
        assert child_of(os.getpid(), others) != stopped
    finally:
        processes.close()


def test_signals_that_end_the_server_do_not_end_a_plan(processes: PlanningProcesses, table: Table) -> None:
    answer = processes.answer(task_of(table))
    child = child_of(os.getpid())
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(child, number)
    assert processes.answer(task_of(table)) == answer
    assert child_of(os.getpid()) == child


def test_closing_ends_the_processes_and_refuses_plans(settings: Settings, table: Table) -> None:
    others = planners_of(os.getpid())
    processes = PlanningProcesses(1, lambda: setup(settings), SYSTEM_CLOCK, seconds=60)
    processes.answer(task_of(table))
    child = child_of(os.getpid(), others)
    processes.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    with pytest.raises(PlanUnavailable, match="ending"):
        processes.answer(task_of(table))


def test_processes_end_with_a_server_that_is_killed(settings: Settings, table: Table, tmp_path: Path) -> None:
    program = """
        import pickle, sys
        from iceberg_hms.clock import SYSTEM_CLOCK, SystemClock
        from iceberg_hms.rest.planning_processes import PlanningProcesses

        made, task = pickle.load(sys.stdin.buffer)
        processes = PlanningProcesses(1, lambda: made, SYSTEM_CLOCK, seconds=60)
        processes.answer(task)
        print(flush=True)
        sys.stdin.read()
    """

    server = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        server.stdin.write(pickle.dumps((setup(settings), task_of(table))))
        server.stdin.flush()
        server.stdout.readline()
        child = child_of(server.pid)
        assert not ends(child, 0)
        server.kill()
    assert ends(child)
