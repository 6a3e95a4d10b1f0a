"""What records say of the metadata columns of row lineage."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.lineage_columns import (
    LAST_UPDATED,
    ROW_ID,
    LineageValues,
    stated_lineage,
    states_lineage,
)
from tests.format.samples import data_file

BOTH = {ROW_ID.id: 0, LAST_UPDATED.id: 1}


def test_the_columns_have_the_ids_of_the_specification() -> None:
    assert [(each.id, each.name, str(each.type), each.required) for each in (ROW_ID, LAST_UPDATED)] == [
        (2147483540, "_row_id", "long", False),
        (2147483539, "_last_updated_sequence_number", "long", False),
    ]


def test_a_record_of_java_states_counts_and_bounds() -> None:
    file = data_file(
        value_counts={1: 2, ROW_ID.id: 2, LAST_UPDATED.id: 2},
        null_value_counts={1: 0, **BOTH},
        lower_bounds={ROW_ID.id: (4).to_bytes(8, "little")},
        upper_bounds={ROW_ID.id: (7).to_bytes(8, "little")},
    )
    assert stated_lineage(file) == {ROW_ID.id: LineageValues(0, 4, 7), LAST_UPDATED.id: LineageValues(1)}
    assert states_lineage(file)


@pytest.mark.parametrize("metric", ["value_counts", "column_sizes"])
def test_a_record_may_state_a_column_and_not_its_nulls(metric: str) -> None:
    file = data_file(**{"null_value_counts": None, metric: BOTH})
    assert stated_lineage(file) == {ROW_ID.id: LineageValues(), LAST_UPDATED.id: LineageValues()}
    assert not states_lineage(file)


def test_a_record_without_metrics_proves_nothing() -> None:
    file = data_file(value_counts=None, null_value_counts=None, column_sizes=None)
    assert (stated_lineage(file), states_lineage(file)) == ({}, False)
    assert not states_lineage(data_file(null_value_counts={ROW_ID.id: 0})), "both columns must be there"


def test_a_bound_that_is_no_long_is_refused() -> None:
    with pytest.raises(InvalidInput):
        stated_lineage(data_file(null_value_counts=BOTH, lower_bounds={ROW_ID.id: b"x"}))
