"""What is left of a filter for the rows of a partition."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.expressions.binding import bind
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.planning.residuals import Residuals
from tests.expressions.rows import matches
from tests.planning.batches import batch_of_files
from tests.planning.drawn import SCHEMA, drawn_filters, drawn_rows, drawn_specs, partition_of


def of_partition(partition: dict[str, Any], spec: PartitionSpec) -> DataFile:
    return DataFile("file:/f", "PARQUET", 1, 10, partition, spec_id=spec.spec_id)


@given(st.data())
@settings(max_examples=200)
def test_a_row_of_a_partition_matches_its_residual_as_it_matches_the_filter(data: st.DataObject) -> None:
    where = data.draw(drawn_filters())
    spec = data.draw(drawn_specs(where))
    rows = data.draw(drawn_rows(spec, where))
    files = [of_partition(partition_of(row, spec), spec) for row in rows]
    residuals = Residuals(where, SCHEMA, {spec.spec_id: spec})
    places = residuals.of(batch_of_files(files, spec, SCHEMA), spec.spec_id).to_pylist()
    for row, place in zip(rows, places, strict=True):
        left = bind(residuals.expressions[place], SCHEMA)
        assert matches(left, row) == matches(bind(where, SCHEMA), row)
