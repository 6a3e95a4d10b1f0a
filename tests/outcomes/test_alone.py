"""Every case of an operation that nobody overtakes, on a catalog in memory with real Avro manifests."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import InvalidInput, RequirementFailed
from tests.outcomes.alone import CASES, made, plan, renumbered, row_ids, rows_by, submit_step
from tests.outcomes.table import Expected, read

EXPECTED = read().alone


def test_every_case_has_its_expected_outcome() -> None:
    assert [each.name for each in EXPECTED] == list(CASES)
    for each in EXPECTED:
        assert (each.java is not None) == (CASES[each.name].by_java is not None), each.name


@pytest.mark.parametrize("expected", EXPECTED, ids=[each.name for each in EXPECTED])
def test_an_operation_alone_is_made_or_refused_by_name(expected: Expected) -> None:
    case = CASES[expected.name]
    with made(case) as (catalog, table):
        before = plan(catalog, table)
        ids = row_ids(before, {})
        if expected.by is None:
            submit_step(case.steps[-1], table)
            after = plan(catalog, table)
            assert renumbered(ids, row_ids(after, ids)) == ()
        else:
            kind = InvalidInput if expected.by == "InvalidInput" else RequirementFailed
            with pytest.raises(kind) as caught:
                submit_step(case.steps[-1], table)
            assert getattr(caught.value, "name", "InvalidInput") == expected.by, str(caught.value)
            after = plan(catalog, table)
            assert after == before
        assert rows_by(after) == case.rows
