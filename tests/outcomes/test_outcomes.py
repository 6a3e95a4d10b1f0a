"""Every cell of the table of outcomes, on a catalog in memory with the real format code and real Avro manifests.

The operation in flight is made on a table object that was loaded before the other one lands through another object.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection

import pytest

from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.outcomes.actions import cases, model, submit, version_for
from tests.outcomes.stage import Stage, copied, stage
from tests.outcomes.table import Cell, read

#: Operation -> the method of Table and its parameter that it needs and that are not there yet. Its cells do not run.
NOT_YET = {
    "delete_where": ("delete", "where"),
    "overwrite": ("overwrite", "where"),
    "row_delta_positions": ("row_delta", "where"),
    "row_delta_equality": ("row_delta", "where"),
    "row_delta_vectors": ("row_delta", "where"),
    "expire_snapshots": ("expire_snapshots", "snapshot_ids"),
}
CELLS = [cell for cell in read().cells if not {cell.in_flight, cell.landed} & NOT_YET.keys()]


def test_the_cells_of_every_operation_that_exists_run() -> None:
    there = [name for name, (method, parameter) in NOT_YET.items() if parameter in _parameters(method)]
    assert there == [], "take them out of NOT_YET"


def _parameters(method: str) -> Collection[str]:
    return inspect.signature(getattr(Table, method, lambda: None)).parameters


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_an_operation_replays_or_is_refused_by_name(cell: Cell) -> None:
    files, pointer, ids = copied(version_for(cell))
    with memory_catalog(files=files, pointer=pointer) as catalog:
        made = stage(catalog, files, ids)
        in_flight, landed = cases(cell)
        stale = made.table()
        submit(landed, made.table(), made)
        model(landed, made)
        assert made.found() == made.rows.ids(), "the operation that landed did something else"
        before = _left(made)
        refusal = read().refused.get(cell)
        if refusal is None:
            submit(in_flight, stale, made)
            model(in_flight, made)
        else:
            with pytest.raises(RequirementFailed) as caught:
                submit(in_flight, stale, made)
            assert caught.value.name in refusal.by, str(caught.value)
            assert caught.value.proved_failed
            assert _left(made) == before
        assert made.found() == made.rows.ids()


def _left(made: Stage) -> tuple[str, set[str]]:
    """The table's metadata file, and all files."""
    return made.table().metadata_location, set(made.files.locations())
