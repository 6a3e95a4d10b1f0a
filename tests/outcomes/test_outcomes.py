"""Every cell of the table of outcomes, on a catalog in memory with the real format code and real Avro manifests.

The operation in flight is made on a table object that was loaded before the other one lands through another object.
"""

from __future__ import annotations

import pytest

from iceberg_hms.errors import RequirementFailed
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.outcomes.actions import cases, copied_for, model, submit, tables_of
from tests.outcomes.stage import stage
from tests.outcomes.table import Cell, read


@pytest.mark.parametrize("cell", read().cells, ids=str)
def test_an_operation_replays_or_is_refused_by_name(cell: Cell) -> None:
    files, pointer, ids, contents = copied_for(cell)
    with memory_catalog(files=files, pointer=pointer) as catalog:
        made = stage(catalog, files, ids, contents)
        in_flight, landed = cases(cell)
        stale, other = tables_of(cell, made)
        submit(landed, other, made)
        model(landed, made)
        assert made.found() == made.rows.ids(), "the operation that landed did something else"
        before = made.left()
        refusal = read().refused.get(cell)
        if refusal is None:
            submit(in_flight, stale, made)
            model(in_flight, made)
        else:
            with pytest.raises(RequirementFailed) as caught:
                submit(in_flight, stale, made)
            assert caught.value.name in refusal.by, str(caught.value)
            assert caught.value.proved_failed
            assert made.left() == before
        assert made.found() == made.rows.ids()
