"""Our plans are Java's and PyIceberg's: the same files, with the same residuals and deletes, on the same snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from iceberg_hms.catalog.table import Table
from iceberg_hms.expressions import Expression, as_expression
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from integration.planning import atlas_table, odd_tables
from integration.planning.atlas_table import Atlas, name_in
from integration.planning.compared import Judge, Plan, Planned, branches, java_planning, pyiceberg_planning
from integration.planning.java_plans import JavaPlanner, java_planner
from integration.planning.odd_tables import Lake
from integration.planning.our_plans import our_plan

#: Files of a partition.
HUNDREDTH: Final = 10
TENTH: Final = 100


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPlanner]:
    with java_planner(tmp_path_factory.mktemp("java")) as (planner, _):
        yield planner


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return odd_tables.lake(tmp_path)


def filters(atlas: Atlas) -> list[str]:
    """By partition, by bounds, by both, and mixed."""
    last = atlas.files_each - 1
    one, other = name_in(last // 2), name_in(last)
    few = name_in(3)[:-3]
    return [
        "hour < 152",
        "hour = 17",
        "hour = 17 and batch = 2",
        "hour in (3, 100, 671)",
        "hour not in (1, 2) and hour < 5",
        "batch <> 0 and hour >= 600 and hour <= 602",
        "hour = 9999",
        "hour is null",
        "hour is not null and batch is null",
        "not (hour < 670)",
        f"hour < 152 and name = '{one}'",
        "hour < 152 and value > 0.99",
        "hour = 5 and time >= '2024-02-01T05:30:00+00:00'",
        f"batch = 1 and hour in (3, 400) and name like '{few}%'",
        "hour > 660 and (batch = 1 or batch = 2) and value < -0.9",
        f"name = '{one}'",
        f"name in ('{one}', '{other}')",
        f"name like '{few}%' and hour > 665",
        f"hour = 3 and name not like '{few}%'",
        f"name >= '{one}' and name < '{name_in(last // 2 + 1)}'",
        "value > 0.999",
        "value is nan",
        "(value is null or name is null) and hour < 30",
        "name is null",
        "hour = 8 and value is not nan and value is not null",
        "time >= '2024-02-10T00:00:00+00:00' and time < '2024-02-10T01:00:00+00:00'",
        "time = '2024-02-10T00:00:01+00:00'",
        "time > '2024-02-28T23:59:00+00:00' or value > 0.9999",
        f"(hour = 3 and name = '{one}') or (hour = 4 and name = '{other}')",
        f"hour = 3 or name = '{one}'",
        "not (hour <> 5 or value <= 0.9)",
        "(hour < 2 or value > 0.9999) and batch in (0, 3)",
        f"name not in ('{one}', '{other}') and hour = 0 and batch = 0",
        f"not (name = '{one}') and hour = 1",
    ]


def register(folder: Path, location: str) -> tuple[Lake, Table]:
    """The table in a catalog of ours."""
    catalog = memory_catalog(files=RoutedFiles(fsync=False), warehouse=f"file:{folder}/warehouse")  # type: ignore[arg-type]
    catalog.create_namespace("atlas")
    return Lake(catalog), catalog.register_table("atlas.atlas", location)


def check_atlas(java: JavaPlanner, folder: Path, atlas: Atlas) -> None:
    location = atlas_table.make(atlas)
    lake, table = register(folder, location)
    judge = Judge(java_planning(java, location, table.schema()))
    planned = 0
    for where in map(as_expression, filters(atlas)):
        plan = our_plan(lake.catalog, table.metadata, where)
        judge.check(plan, where)
        planned += len(plan)
    assert planned > atlas.files // 4, "the filters match too few files to prove anything"


#: The format version that each build compares.
QUICK_VERSION = 2


def test_a_hundredth_of_atlas_where_each_manifest_has_files_of_all_partitions(
    java: JavaPlanner, tmp_path: Path
) -> None:
    check_atlas(java, tmp_path, Atlas(f"file:{tmp_path}/atlas", HUNDREDTH, 1_004, spread=True))


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("spread", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["clustered", "spread"])
def test_a_tenth_of_atlas(java: JavaPlanner, tmp_path: Path, spread: bool) -> None:
    check_atlas(java, tmp_path, Atlas(f"file:{tmp_path}/atlas", TENTH, spread=spread))


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_atlas(java: JavaPlanner, tmp_path: Path) -> None:
    check_atlas(java, tmp_path, Atlas(f"file:{tmp_path}/atlas"))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("spread", [False, True], ids=["clustered", "spread"])
def test_a_hundredth_of_atlas_by_pyiceberg(java: JavaPlanner, tmp_path: Path, spread: bool) -> None:
    atlas = Atlas(f"file:{tmp_path}/atlas", HUNDREDTH, 1_004, spread)
    location = atlas_table.make(atlas)
    lake, table = register(tmp_path, location)
    by_java = cache(java_planning(java, location, table.schema()))

    def has_match(path: str, where: Expression) -> bool:
        # PyIceberg 0.12 keeps files all of whose texts start with what `not like` excludes.
        return any(path in (by_java(each) or {}) for each in branches(where))

    judge = Judge(pyiceberg_planning(location, table.schema()), has_match)
    for where in map(as_expression, filters(atlas)):
        judge.check(our_plan(lake.catalog, table.metadata, where), where)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        pytest.param(name, version, marks=() if version == QUICK_VERSION else pytest.mark.slow)
        for name, (_, versions) in odd_tables.HISTORIES.items()
        for version in versions
    ],
)
def test_tables_with_a_history(java: JavaPlanner, lake: Lake, name: str, version: int) -> None:
    table, filters = odd_tables.HISTORIES[name][0](lake, version)
    check(java, lake, table, filters)


@pytest.mark.slow
@pytest.mark.parametrize("kind", odd_tables.VALUES)
def test_every_transform_of_each_type(java: JavaPlanner, lake: Lake, kind: str) -> None:
    for transform in odd_tables.transforms(kind):
        check(java, lake, *odd_tables.typed_table(lake, kind, transform, odd_tables.versions_of(kind)[-1]))


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("kind", [each for each in odd_tables.VALUES if odd_tables.transformed_filters(each)])
def test_filters_on_every_transform_of_each_type(java: JavaPlanner, lake: Lake, kind: str) -> None:
    for transform in odd_tables.transforms(kind):
        if transform == "{}":
            # Java 1.11 takes the result of any transform for the value of an identity partition, and loses files.
            continue
        table, _ = odd_tables.typed_table(lake, kind, transform, odd_tables.versions_of(kind)[-1])
        check(java, lake, table, odd_tables.transformed_filters(kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", odd_tables.VALUES)
def test_every_transform_of_each_type_in_older_versions(java: JavaPlanner, lake: Lake, kind: str) -> None:
    for version in odd_tables.versions_of(kind)[:-1]:
        for transform in odd_tables.transforms(kind):
            check(java, lake, *odd_tables.typed_table(lake, kind, transform, version))


def check(java: JavaPlanner, lake: Lake, table: Table, filters: list[Expression]) -> None:
    judge = judge_of(java, lake, table)
    plans = [(where, our_plan(lake.catalog, table.metadata, where)) for where in filters]
    assert any(plan for _, plan in plans)
    for where, plan in plans:
        judge.check(plan, where)


def judge_of(java: JavaPlanner, lake: Lake, table: Table) -> Judge:
    schema = table.schema()
    return Judge(
        java_planning(java, table.metadata_location, schema),
        lake.has_match(schema),
        # The spec gives them no order that all writers share, so we never look at their bounds.
        ignores_bounds=any(str(each.type) == "uuid" for each in schema.fields),
        path_bounds=odd_tables.path_bounds(lake, table),
    )


def test_what_differs_is_found(java: JavaPlanner, lake: Lake) -> None:
    table, _ = odd_tables.with_deletes(lake, 2)
    judge, where = judge_of(java, lake, table), as_expression("id > 5 and day = '1970-01-02'")
    plan = our_plan(lake.catalog, table.metadata, where)
    judge.check(plan, where)
    first, second, *_ = (path for path, each in plan.items() if each.deletes)
    others: list[Plan] = [
        {first: plan[first]},
        {**plan, "file:/another.parquet": plan[first]},
        {**plan, first: replace(plan[first], residual=True)},
        {**plan, first: Planned(plan[first].residual)},
        {**plan, second: replace(plan[second], deletes=plan[second].deletes | {("file:/another", None)})},
    ]
    for other in others:
        with pytest.raises(AssertionError):
            judge.check(other, where)


def test_a_file_with_a_match_that_only_java_plans_is_found(java: JavaPlanner, lake: Lake) -> None:
    table, _ = odd_tables.with_deletes(lake, 2)
    judge, where = judge_of(java, lake, table), as_expression("id = 5 or day is null")
    plan = our_plan(lake.catalog, table.metadata, where)
    judge.check(plan, where)
    matching = [path for path in plan if lake.has_match(table.schema())(path, where)]
    assert matching
    for path in matching:
        with pytest.raises(AssertionError):
            judge.check({key: each for key, each in plan.items() if key != path}, where)
