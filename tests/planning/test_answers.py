"""Answers of bounded size, which together have each file once. The endpoints' tests have more of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import NoSuchPlanTask
from iceberg_hms.expressions.expression import col
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.planning.answers import AnswerBounds, PlanAnswer, PlanJob, Run, answer
from iceberg_hms.planning.request import ScanRequest
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "n", "required": False, "type": "long"}],
}
#: Files of each append.
SIZES = (1, 9, 2, 2, 5, 1, 1, 7)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    catalog = memory_catalog()
    catalog.create_namespace("default")
    return catalog


@pytest.fixture(scope="module")
def table(catalog: Catalog) -> Table:
    table = catalog.create_table(("default", "t"), SCHEMA, properties={"commit.manifest-merge.enabled": "false"})
    for number, size in enumerate(SIZES):
        table.append(
            DataFile(f"{table.metadata.location}/{number}-{at}.parquet", "PARQUET", 1, 10) for at in range(size)
        )
    return table


def ask(catalog: Catalog, table: Table, job: PlanJob) -> PlanAnswer:
    columns = catalog.services.manifest_columns
    return answer(table.metadata, job, catalog.manifests(), columns, monotonic=SYSTEM_CLOCK.monotonic)


def a_job(table: Table, files: int, runs: int = 4, seconds: float = 30) -> PlanJob:
    request = ScanRequest(snapshot_id=table.metadata.current_snapshot_id)
    return PlanJob(request, 0, AnswerBounds(files, seconds, runs))


def names(found: PlanAnswer) -> list[str]:
    assert isinstance(found.tasks, bytes)
    tasks = orjson.loads(b"{" + found.tasks + b"}")["file-scan-tasks"]
    return [each["data-file"]["file-path"].rpartition("/")[2] for each in tasks]


def everything(catalog: Catalog, table: Table, job: PlanJob) -> tuple[list[str], list[PlanAnswer]]:
    answers = [ask(catalog, table, job)]
    found, waiting = names(answers[0]), list(answers[0].rest)
    while waiting:
        answers.append(ask(catalog, table, replace(job, run=waiting.pop(), digest=answers[0].digest)))
        found += names(answers[-1])
        waiting += answers[-1].rest
    return sorted(found), answers


ALL: Sequence[str] = sorted(f"{number}-{at}.parquet" for number, size in enumerate(SIZES) for at in range(size))


@pytest.mark.parametrize("files", [1, 2, 3, 4, 5, 8, 9, 20, 27, 28, 100])
@pytest.mark.parametrize("runs", [2, 3, 50])
def test_answers_have_each_file_once(catalog: Catalog, table: Table, files: int, runs: int) -> None:
    found, answers = everything(catalog, table, a_job(table, files, runs))
    assert found == ALL
    # The last manifest of an answer may have as many as an answer once more.
    assert max(each.count for each in answers) < 2 * files
    # Of a manifest that is divided each part is a run of its own.
    assert max(sum(1 for run in each.rest if run.files is None) for each in answers) <= runs
    assert all(each.count for each in answers)


def test_without_time_each_answer_has_one_manifest(catalog: Catalog, table: Table) -> None:
    found, answers = everything(catalog, table, a_job(table, 1_000, seconds=-1))
    assert found == ALL
    assert sorted(each.count for each in answers) == sorted(SIZES)


def test_the_rest_is_shared_out_by_what_the_answer_before_did(catalog: Catalog, table: Table) -> None:
    # Manifests are listed with the newest first: 7, 1, 1 and 5 files; then 2, 2, 9 and 1.
    first = ask(catalog, table, a_job(table, 10))
    assert first.count == 14
    assert first.rest == [Run(4, 7), Run(7, 8)] or first.rest == [Run(4, 8)]
    assert ask(catalog, table, a_job(table, 100)).rest == []


def test_statistics_make_answers_smaller(catalog: Catalog, table: Table) -> None:
    job = a_job(table, 20)
    wanted = replace(job, request=replace(job.request, stats_fields=("n",)))
    assert ask(catalog, table, wanted).count <= ask(catalog, table, job).count


def test_a_run_is_of_the_plan_that_it_came_from(catalog: Catalog, table: Table) -> None:
    job = a_job(table, 5)
    found = ask(catalog, table, job)
    run = found.rest[0]
    for damaged in (
        replace(job, run=run, digest="00"),
        replace(job, run=Run(0, 99), digest=found.digest),
        replace(job, run=Run(0, 1, (0, 3, 99)), digest=found.digest),
        replace(job, schema_id=99),
    ):
        with pytest.raises(NoSuchPlanTask):
            ask(catalog, table, damaged)


def test_a_plan_keeps_the_schema_that_it_began_with(catalog: Catalog) -> None:
    fields = [{"id": 1, "name": "a", "required": False, "type": "long"}]
    fields.append({"id": 2, "name": "b", "required": False, "type": "long"})
    table = catalog.create_table(("default", "renamed"), {"type": "struct", "schema-id": 0, "fields": fields})
    bounds = {1: b"\1" + b"\0" * 7, 2: b"\7" + b"\0" * 7}
    table.append([DataFile("file:/x/a.parquet", "PARQUET", 1, 10, lower_bounds=bounds, upper_bounds=bounds)])
    job = a_job(table, 5)
    job = replace(job, request=replace(job.request, filter=col("a") == 7))
    assert ask(catalog, table, job).count == 0
    table.update_schema().delete_column("a").commit()
    table.update_schema().rename_column("b", "a").commit()
    now = catalog.load_table(("default", "renamed"))
    # The name is another column's by now, whose values are in the file.
    assert ask(catalog, now, replace(job, schema_id=now.metadata.current_schema_id)).count == 1
    assert ask(catalog, now, job).count == 0
