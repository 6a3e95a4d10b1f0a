"""The columns of a decoded manifest."""

from __future__ import annotations

import pyarrow as pa

from iceberg_hms.planning import layout


def test_names_of_columns() -> None:
    assert layout.partition(1000) == "partition.1000"
    assert layout.statistic(layout.LOWER_BOUND, 7) == "lower_bound.7"


def test_an_absent_column_is_none() -> None:
    batch = pa.RecordBatch.from_pydict({layout.FILE_PATH: ["a"]})

    found = layout.column(batch, layout.FILE_PATH)
    assert found is not None
    assert found.to_pylist() == ["a"]
    assert layout.column(batch, layout.SNAPSHOT_ID) is None
