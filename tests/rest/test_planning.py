"""What plans of a warehouse share, and which of them a process makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.planning.answers import PlanAnswer, PlanJob
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.rest.plan_tokens import PlanTokens
from iceberg_hms.rest.planning import PROCESS_FROM_FILES, Planning, planning_of
from iceberg_hms.rest.planning_process import PlanningTask
from tests.rest.fakes import SCHEMA, ScriptedCatalog

BY_PROCESS = PlanAnswer(b"", 0, (), "by a process")


class Recorded:
    """Stands for PlanningProcesses."""

    def __init__(self) -> None:
        self.tasks: list[PlanningTask] = []
        self.closed = False

    def answer(self, task: PlanningTask) -> PlanAnswer:
        self.tasks.append(task)
        return BY_PROCESS

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def catalog() -> ScriptedCatalog:
    catalog = ScriptedCatalog()
    table = catalog.create_table(("default", "t"), SCHEMA)
    table.append([DataFile("file:/warehouse/default.db/t/data/a.parquet", "PARQUET", 1, 10)])
    return catalog


@pytest.fixture
def planning(catalog: ScriptedCatalog) -> Iterator[Planning]:
    tokens = PlanTokens.of_process(SYSTEM_CLOCK)
    made = planning_of(catalog, catalog.rest_settings, tokens, SYSTEM_CLOCK, free_locations=False)
    yield made
    made.close()


def with_count(table: LoadedTable, count: str | None, *, deletes: str = "0") -> LoadedTable:
    """The table as if its snapshot had so many files."""
    raw = dict(table.metadata.raw)
    summary = {"operation": "append", "total-delete-files": deletes}
    raw["snapshots"] = [
        {**each, "summary": summary if count is None else {**summary, "total-data-files": count}}
        for each in raw["snapshots"]
    ]
    return replace(table, metadata=type(table.metadata).parse(raw))


def job(table: LoadedTable, planning: Planning) -> PlanJob:
    request = ScanRequest(snapshot_id=table.metadata.current_snapshot_id)
    return PlanJob(request, 0, planning.bounds(100))


@pytest.mark.parametrize(
    ("files", "deletes", "by_process"),
    [
        ("1", "0", False),
        (str(PROCESS_FROM_FILES - 1), "0", False),
        (str(PROCESS_FROM_FILES), "0", True),
        ("10", str(PROCESS_FROM_FILES), True),
        # A summary is what its writer says.
        (None, "0", True),
        ("many", "0", True),
    ],
)
def test_a_process_plans_large_tables_and_those_that_do_not_say(
    catalog: ScriptedCatalog, planning: Planning, files: str | None, deletes: str, by_process: bool
) -> None:
    recorded: Any = Recorded()
    planning = replace(planning, processes=recorded)
    table = with_count(catalog.load(("default", "t")), files, deletes=deletes)
    answer = planning.answer(catalog, table, job(table, planning), takes_gzip=deletes == "0")
    assert (answer == BY_PROCESS) == by_process
    assert answer.count == (0 if by_process else 1)
    if by_process:
        (task,) = recorded.tasks
        assert task.metadata_location == table.metadata_location
        assert task.folder == table.metadata.location
        assert task.packed == (deletes == "0")


def test_a_catalog_in_memory_has_no_processes(planning: Planning) -> None:
    assert planning.processes is None


def test_closing_ends_processes_too(planning: Planning) -> None:
    recorded: Any = Recorded()
    replace(planning, processes=recorded).close()
    assert recorded.closed


@pytest.mark.parametrize(("token", "runs"), [(100, 256), (100_000, 5), (10_000_000, 2)])
def test_long_tokens_make_few_tasks(planning: Planning, token: int, runs: int) -> None:
    bounds = planning.bounds(token)
    assert (bounds.runs, bounds.files, bounds.seconds) == (runs, 20_000, 10)
