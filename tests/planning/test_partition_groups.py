"""Rows by their partitions."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.transforms import IdentityTransform
from iceberg_hms.planning import layout, partition_groups
from iceberg_hms.planning.partition_groups import PartitionGroups

FIELDS = [
    PartitionField(source_id=at, field_id=1000 + at, name=f"f{at}", transform=IdentityTransform()) for at in range(3)
]


def batch_of(*columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), [layout.partition(1000 + at) for at in range(len(columns))])


def rows_of(batch: pa.RecordBatch) -> list[Any]:
    groups = PartitionGroups.of(batch, FIELDS[: batch.num_columns])
    assert len({tuple(map(repr, each.values())) for each in groups.values}) == len(groups.values)
    return [groups.values[code] for code in groups.codes]


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(0, 3))] * 3)), st.booleans())
def test_each_row_has_its_values(rows: list[tuple[int | None, ...]], many: bool) -> None:
    batch = batch_of(*(pa.array([row[at] for row in rows], pa.int32()) for at in range(3)))
    with pytest.MonkeyPatch.context() as patch:
        if many:
            patch.setattr(partition_groups, "_COUNTED_MAX", 0)
        assert rows_of(batch) == [{f"f{at}": row[at] for at in range(3)} for row in rows]


def test_nan_is_a_partition_and_negative_zero_another_than_zero() -> None:
    found = rows_of(batch_of(pa.array([0.0, -0.0, float("nan"), None, float("nan")])))
    assert list(map(repr, found)) == [f"{{'f0': {each}}}" for each in ("0.0", "-0.0", "nan", "None", "nan")]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([uuid.UUID(int=3).bytes, None], pa.binary(16)), [uuid.UUID(int=3), None]),
        (pa.array([Decimal("1.20"), None]), [Decimal("1.20"), None]),
        (pa.array([True, False]), [True, False]),
        (pa.array([1.5], pa.float32()), [1.5]),
        (pa.array([b"a", b""]), [b"a", b""]),
        (pa.array(["a", None]), ["a", None]),
    ],
    ids=str,
)
def test_values_of_a_type(column: pa.Array, values: list[Any]) -> None:
    assert rows_of(batch_of(column)) == [{"f0": each} for each in values]


def test_a_field_that_the_manifest_lacks_is_left_out() -> None:
    batch = batch_of(pa.array([1, 2], pa.int32()))
    groups = PartitionGroups.of(batch, FIELDS)
    assert groups.values == [{"f0": 1}, {"f0": 2}]


def test_without_fields_all_rows_are_one_group() -> None:
    groups = PartitionGroups.of(batch_of(pa.array([1, 2], pa.int32())), ())
    assert (groups.codes.tolist(), groups.values) == ([0, 0], [{}])
    assert groups.codes.dtype == np.int64
