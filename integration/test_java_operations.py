"""The table of outcomes beside Java's own API: what it refuses, which files it leaves, and what its summaries count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from integration.java_operations import OPERATIONS, StageTable, StageTables
from integration.java_steps import commit_step, plan
from integration.java_tables import JavaTable, JavaTables
from tests.outcomes import alone
from tests.outcomes.actions import cases, copied_for, submit, table_for, tables_of
from tests.outcomes.rows import name_of, planned
from tests.outcomes.stage import LATE, stage
from tests.outcomes.table import Cell, Expected, read

#: What both say of a snapshot; other properties say who wrote it.
SAID = ("operation", "added-", "deleted-", "removed-", "total-", "changed-")


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", OPERATIONS)
def test_java_refuses_and_leaves_the_same(spark: Any, tmp_path: Path, in_flight: str) -> None:
    tables = StageTables(spark._jvm)
    cells = [cell for cell in read().cells if cell.in_flight == in_flight and cell.landed in OPERATIONS]
    assert len(cells) >= 20
    found = {str(cell): differences(cell, tables, tmp_path / str(cell)) for cell in cells}
    assert {cell: each for cell, each in found.items() if each} == {}


def differences(cell: Cell, tables: StageTables, folder: Path) -> list[str]:
    """In what Java's outcome of a cell is another than the table's."""
    by_java, refused = in_java(cell, tables, folder)
    expected = read().refused.get(cell)
    if refused is not None or expected is not None:
        if expected is not None and expected.java is not None:
            found = "refused" if refused is not None else damage(by_java)
            return [] if found == expected.java else [f"by Java it is {found}, not {expected.java}"]
        if refused is None:
            return [f"Java replays it, and we refuse it by {expected}"]
        return [f"Java refuses it: {refused}"] if expected is None else []
    others = []
    with by_us(cell) as (catalog, table):
        for branch in ("main", "audit"):
            snapshot = table.metadata.snapshot_by_id(table.refs()[branch].snapshot_id)
            assert snapshot is not None
            files = {
                name_of(data): tuple(sorted(map(name_of, deletes))) for data, deletes in planned(catalog, snapshot)
            }
            if files != (theirs := by_java.planned(branch)):
                others.append(f"{branch} has {files}, by Java {theirs}")
            others += otherwise(branch, snapshot.summary, by_java.summary(branch))
    return others


def damage(by_java: StageTable) -> str:
    """What became of main: a key of `JAVA_LEAVES`, or nothing."""
    try:
        rows = by_java.rows()
    except Py4JJavaError:
        return "unreadable"
    if len(set(rows)) < len(rows):
        return "twice"
    return "back" if LATE in rows else ""


def in_java(cell: Cell, tables: StageTables, folder: Path) -> tuple[StageTable, str | None]:
    """The table after both operations, and why Java refused the one in flight."""
    version, kinds = table_for(cell)
    tables.make(folder, version, kinds)
    in_flight, landed = cases(cell)
    first = stale = tables.load_stage(folder, kinds)
    if cell.relation == "unseen_deletes":
        tables.load_stage(folder, kinds).delete_late()
    other = tables.load_stage(folder, kinds)
    if cell.relation == "unseen_deletes" and cell.in_flight != "rewrite":
        stale, other = other, first
    assert other.commit(landed) is None
    return stale, stale.commit(in_flight)


@contextmanager
def by_us(cell: Cell) -> Iterator[tuple[Any, Table]]:
    """The catalog, and the table after both operations."""
    files, pointer, ids, contents = copied_for(cell)
    with memory_catalog(files=files, pointer=pointer) as catalog:
        made = stage(catalog, files, ids, contents)
        in_flight, landed = cases(cell)
        stale, other = tables_of(cell, made)
        submit(landed, other, made)
        submit(in_flight, stale, made)
        yield catalog, made.table()


@pytest.mark.slow
@pytest.mark.parametrize("expected", read().alone, ids=[each.name for each in read().alone])
def test_java_does_the_same_alone_or_what_the_table_says(spark: Any, tmp_path: Path, expected: Expected) -> None:
    case = alone.CASES[expected.name]
    by_java = before_the_last_commit(case, JavaTables(spark._jvm), tmp_path / "table")
    ids = alone.row_ids(plan(by_java), {})
    refused = commit_step(by_java, case.steps[-1])
    if expected.java is None:
        assert (refused is None) == (expected.by is None), refused
        with alone.made(case) as (catalog, table):
            alone.submit_step(case.steps[-1], table)
            assert alone.plan(catalog, table) == plan(by_java)
            assert table.current_snapshot() is not None
            assert otherwise("main", table.current_snapshot().summary, by_java.summary("main")) == []
        return
    assert refused is None
    if not case.by_java:
        with pytest.raises(Py4JJavaError, match="Can't index multiple DVs"):
            plan(by_java)
        return
    left = plan(by_java)
    assert alone.rows_by(left) == case.by_java
    assert alone.renumbered(ids, alone.row_ids(left, ids)) == case.renumbered


@pytest.mark.slow
@pytest.mark.parametrize("expected", read().alone, ids=[each.name for each in read().alone])
def test_on_a_table_that_java_made_java_reads_what_we_left(spark: Any, tmp_path: Path, expected: Expected) -> None:
    case, tables = alone.CASES[expected.name], JavaTables(spark._jvm)
    by_java = before_the_last_commit(case, tables, tmp_path / "table")
    with memory_catalog(files=RoutedFiles(), warehouse=f"file:{tmp_path}/warehouse") as catalog:
        catalog.create_namespace("logging")
        table = catalog.register_table("logging.events", by_java.metadata_location)
        refused = None
        try:
            alone.submit_step(case.steps[-1], table)
        except (InvalidInput, RequirementFailed) as error:
            refused = getattr(error, "name", "InvalidInput")
        assert refused == expected.by
        assert alone.rows_by(plan(tables.reader(table.refresh().metadata_location))) == case.rows


def before_the_last_commit(case: alone.Alone, tables: JavaTables, folder: Path) -> JavaTable:
    """A table on which Java made all commits but the last."""
    tables.create(folder, case.version, case.partition)
    table = tables.load(folder)
    for step in case.steps[:-1]:
        assert commit_step(table, step) is None
    table.table.refresh()
    return table


def otherwise(branch: str, ours: Any, theirs: Any) -> list[str]:
    """In what two summaries differ."""
    us, them = said(ours), said(theirs)
    return [
        f"{branch}: {name} is {us.get(name)}, by Java {them.get(name)}"
        for name in sorted({*us, *them})
        if us.get(name) != them.get(name)
    ]


def said(summary: Any) -> dict[str, str]:
    """What a summary says, without the counts of nothing."""
    return {name: value for name, value in summary.items() if name.startswith(SAID) and value != "0"}
