"""Counts and bounds from footers."""

from __future__ import annotations

import io
import math
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.datafiles.column_bounds import ColumnStatistics
from iceberg_hms.datafiles.parquet_bounds import column_statistics, footer_bounds
from iceberg_hms.datafiles.parquet_columns import parquet_columns
from iceberg_hms.format.schema import types
from tests.catalog.parquet import table_for


@dataclass(frozen=True)
class FooterBy:
    """A footer, as if another writer had written it."""

    footer: pq.FileMetaData
    created_by: str | None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.footer, name)


def statistics_of(
    array: pa.Array, table_type: str | None = None, *, writer: str | None = "parquet-cpp-arrow", **options: Any
) -> ColumnStatistics:
    rows = pa.table({"c": array})
    field = {"id": 1, "name": "c", "required": False, "type": table_type}
    metadata = table_for(rows.schema if table_type is None else {"type": "struct", "fields": [field]}, version=3)
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **options)
    footer = pq.read_metadata(buffer)
    of = metadata.schema.fields[0].type
    assert isinstance(of, types.PrimitiveType)
    as_if: Any = FooterBy(footer, writer)
    (column,) = parquet_columns("c.parquet", footer, 3)
    return column_statistics("c.parquet", as_if, column, of)


def pair(array: pa.Array, table_type: str | None = None, **options: Any) -> tuple[Any, Any]:
    found = statistics_of(array, table_type, **options)
    return found.lower, found.upper


@pytest.mark.parametrize(
    ("array", "table_type", "expected"),
    [
        (pa.array([-1, 5], pa.int8()), "int", (-1, 5)),
        (pa.array([-1, 5], pa.int32()), "long", (-1, 5)),
        (pa.array([-1.5, 2.0], pa.float32()), "double", (-1.5, None)),
        (pa.array([-1, 1], pa.timestamp("us")), "timestamp", (-1, 1)),
        (pa.array([-1, 1], pa.timestamp("ns")), "timestamp_ns", (-1, 1)),
        (pa.array([1, 2], pa.time64("us")), "time", (1, 2)),
        (pa.array([-1, 1], pa.date32()), "date", (-1, 1)),
        (
            pa.array([Decimal("-1.50"), Decimal("2.25")], pa.decimal128(9, 2)),
            "decimal(20, 2)",
            (Decimal("-1.50"), Decimal("2.25")),
        ),
        (
            pa.array([uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes], pa.binary(16)),
            "uuid",
            (uuid.UUID(int=1), uuid.UUID(int=2**127)),
        ),
    ],
    ids=lambda value: str(getattr(value, "type", value))[:40],
)
def test_values_are_those_of_the_tables_type(array: pa.Array, table_type: str, expected: tuple[Any, Any]) -> None:
    assert pair(array, table_type) == expected


def test_row_groups_are_gathered() -> None:
    found = statistics_of(pa.array([5, None, -3, 9, None, None, 0, 8]), row_group_size=2)
    assert (found.values, found.nulls, found.lower, found.upper, found.bounded) == (8, 3, -3, 9, True)
    assert found.size > 0


def test_a_row_group_of_nulls_does_not_take_the_bounds_away() -> None:
    assert pair(pa.array([None, None, 4, 5]), row_group_size=2) == (4, 5)


def test_a_row_group_of_nan_takes_the_bounds_away() -> None:
    found = statistics_of(pa.array([math.nan, math.nan, 4.0, 5.0]), row_group_size=2)
    assert (found.lower, found.upper, found.bounded) == (None, None, False)
    assert found.nulls == 0


def test_a_column_of_nulls_is_all_null_and_bounded_by_nothing() -> None:
    found = statistics_of(pa.array([None, None], pa.string()))
    assert (found.all_null, found.bounded, found.lower, found.upper) == (True, True, None, None)


def test_without_statistics_only_the_number_of_values_is_known() -> None:
    found = statistics_of(pa.array([1, None]), write_statistics=False)
    assert (found.values, found.nulls, found.bounded, found.all_null) == (2, None, False, False)


PARQUET_MR = "parquet-mr version 1.16.0 (build 402c3810c372d29603e181771acebfecc71bef61)"


@pytest.mark.parametrize("of", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("writer", "tells"),
    [
        (PARQUET_MR, True),
        ("parquet-mr version 1.10.0 (build x)", True),
        ("parquet-mr version 1.10.99.7.1.7.0-551 (build x)", True),
        ("parquet-mr version 2.0.0 (build x)", True),
        ("parquet-mr version 1.8.1 (build x)", False),
        ("parquet-mr version 1.9.0 (build x)", False),
        ("parquet-mr", False),
        ("parquet-mr-trino version 470", False),
        ("parquet-cpp-arrow version 26.0.1", False),
        ("parquet-rs version 57.0.0", False),
        ("DuckDB version v1.4.0", False),
        ("impala version 4.0.0", False),
        ("", False),
        (None, False),
    ],
)
def test_floats_have_an_upper_bound_if_their_writer_would_have_told_of_nan(
    of: pa.DataType, writer: str | None, tells: bool
) -> None:
    found = statistics_of(pa.array([1.0, None, 3.0], of), writer=writer)
    assert (found.lower, found.upper, found.bounded) == (1.0, 3.0 if tells else None, tells)
    assert found.nans == (0 if tells else None)
    nulls = statistics_of(pa.array([None, None], of), writer=writer)
    assert (nulls.bounded, nulls.nans) == (True, 0)


def test_only_floats_are_counted_for_nan() -> None:
    assert statistics_of(pa.array([1, 2]), writer=PARQUET_MR).nans is None


def test_zero_bounds_contain_both_zeros() -> None:
    found = statistics_of(pa.array([0.0, -0.0]), writer=PARQUET_MR)
    assert math.copysign(1, found.lower) == -1
    assert math.copysign(1, found.upper) == 1


def test_int96_has_no_bounds() -> None:
    array = pa.array([1, 2], pa.timestamp("ns"))
    found = statistics_of(array, "timestamp", use_deprecated_int96_timestamps=True)
    assert (found.bounded, found.lower) == (False, None)


def test_text_that_is_not_utf_8_has_no_bounds() -> None:
    broken = pa.StringArray.from_buffers(1, pa.array([b"\xff\xfe"]).buffers()[1], pa.py_buffer(b"\xff\xfe"))
    found = statistics_of(broken, "string")
    assert (found.values, found.bounded, found.lower) == (1, False, None)


@dataclass(frozen=True)
class FooterStatistics:
    """What an old writer may leave in a footer; pyarrow's own writer leaves NaN out."""

    min_raw: float
    max_raw: float
    has_min_max: bool = True


@pytest.mark.parametrize("found", [FooterStatistics(math.nan, 1.0), FooterStatistics(1.0, math.nan)])
def test_nan_is_no_bound(found: Any) -> None:
    good: Any = FooterStatistics(1.0, 2.0)
    assert footer_bounds(types.DOUBLE, found) is None
    assert footer_bounds(types.DOUBLE, good) == (1.0, 2.0)
