"""The table of outcomes beside Java's own API: what it refuses, which files it leaves, and what its summaries count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.catalog.table import Table
from iceberg_hms.testing.memory_catalog import memory_catalog
from integration.java_operations import OPERATIONS, JavaTable, JavaTables
from tests.outcomes.actions import cases, copied_for, submit, table_for
from tests.outcomes.rows import name_of, planned
from tests.outcomes.stage import stage
from tests.outcomes.table import Cell, read

#: What both say of a snapshot; other properties say who wrote it.
SAID = ("operation", "added-", "deleted-", "removed-", "total-", "changed-")


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", OPERATIONS)
def test_java_refuses_and_leaves_the_same(spark: Any, tmp_path: Path, in_flight: str) -> None:
    tables = JavaTables(spark._jvm)
    cells = [cell for cell in read().cells if cell.in_flight == in_flight and cell.landed in OPERATIONS]
    assert len(cells) >= 20
    found = {str(cell): differences(cell, tables, tmp_path / str(cell)) for cell in cells}
    assert {cell: each for cell, each in found.items() if each} == {}


def differences(cell: Cell, tables: JavaTables, folder: Path) -> list[str]:
    """In what Java's outcome of a cell is another than the table's."""
    by_java, refused = in_java(cell, tables, folder)
    expected = read().refused.get(cell)
    if refused is not None or expected is not None:
        if expected is not None and expected.java_replays:
            return [f"Java refuses it, too: {refused}"] if refused is not None else []
        if refused is None:
            return [f"Java replays it, and we refuse it by {expected}"]
        return [f"Java refuses it: {refused}"] if expected is None else []
    found = []
    with by_us(cell) as (catalog, table):
        for branch in ("main", "audit"):
            snapshot = table.metadata.snapshot_by_id(table.refs[branch].snapshot_id)
            assert snapshot is not None
            files = {
                name_of(data): tuple(sorted(map(name_of, deletes))) for data, deletes in planned(catalog, snapshot)
            }
            if files != (theirs := by_java.planned(branch)):
                found.append(f"{branch} has {files}, by Java {theirs}")
            ours, theirs = said(snapshot.summary), said(by_java.summary(branch))
            found += [
                f"{branch}: {name} is {ours.get(name)}, by Java {theirs.get(name)}"
                for name in sorted({*ours, *theirs})
                if ours.get(name) != theirs.get(name)
            ]
    return found


def in_java(cell: Cell, tables: JavaTables, folder: Path) -> tuple[JavaTable, str | None]:
    """The table after both operations, and why Java refused the one in flight."""
    version, with_deletes = table_for(cell)
    tables.make(folder, version, with_deletes=with_deletes)
    in_flight, landed = cases(cell)
    stale = tables.load(folder, with_deletes=with_deletes)
    assert tables.load(folder, with_deletes=with_deletes).commit(landed) is None
    return stale, stale.commit(in_flight)


@contextmanager
def by_us(cell: Cell) -> Iterator[tuple[Any, Table]]:
    """The catalog, and the table after both operations."""
    files, pointer, ids, contents = copied_for(cell)
    with memory_catalog(files=files, pointer=pointer) as catalog:
        made = stage(catalog, files, ids, contents)
        in_flight, landed = cases(cell)
        stale = made.table()
        submit(landed, made.table(), made)
        submit(in_flight, stale, made)
        yield catalog, made.table()


def said(summary: Any) -> dict[str, str]:
    """What a summary says, without the counts of nothing."""
    return {name: value for name, value in summary.items() if name.startswith(SAID) and value != "0"}
