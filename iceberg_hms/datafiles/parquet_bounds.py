"""Counts and bounds of a Parquet column from the footer's statistics, as in Java's ParquetMetrics.

A bound may be wider than the values, never narrower: readers skip whole files by it. So there is no bound where the
footer is unclear: for a row group without statistics, NaN, or text that is not UTF-8.
"""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import Any

import pyarrow.parquet as pq

from iceberg_hms.datafiles.column_bounds import ColumnStatistics, float_bounds, is_floating, of_floats
from iceberg_hms.datafiles.file_columns import FileColumn
from iceberg_hms.datafiles.parquet_types import INT96, FileType, unread_pages
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.types import PrimitiveType

_JAVA_WRITER = re.compile(r"parquet-mr version (\d+)\.(\d+)")
_TELLS_NAN_FROM = (1, 10)


def column_statistics(
    location: str, footer: pq.FileMetaData, column: FileColumn, of: PrimitiveType
) -> ColumnStatistics:
    """Gather a leaf column of a file over all row groups. of: the table's type, as which readers read it
    (`parquet_types`). Raises InvalidInput: a reader cannot read its pages."""
    stored: FileType = column.stored
    size = count = 0
    nulls: int | None = 0
    # Statistics of INT96 are in no order.
    bounded = stored.physical != INT96
    lower = upper = None
    for number in range(footer.num_row_groups):
        chunk = footer.row_group(number).column(column.index)
        unread = unread_pages(stored, chunk)
        if unread is not None:
            raise InvalidInput(f"{location}: column {column.name} is {unread[0]} in the file", next_step=unread[1])
        size += chunk.total_compressed_size
        count += chunk.num_values
        found = chunk.statistics if chunk.is_stats_set else None
        chunk_nulls = found.null_count if found is not None and found.has_null_count else None
        if chunk_nulls is None and stored.is_never_null:
            chunk_nulls = 0
        nulls = None if nulls is None or chunk_nulls is None else nulls + chunk_nulls
        if not bounded or chunk_nulls == chunk.num_values:
            continue
        pair = footer_bounds(of, found)
        if pair is None:
            bounded = False
            continue
        lower = pair[0] if lower is None else min(lower, pair[0])
        upper = pair[1] if upper is None else max(upper, pair[1])
    if not bounded:
        lower = upper = None
    statistics = ColumnStatistics(size, count, nulls, lower, upper, bounded)
    if is_floating(of):
        return of_floats(statistics, may_have_nan=not bounded or not _tells_nan(footer.created_by))
    return statistics


@lru_cache(maxsize=64)
def _tells_nan(writer: str | None) -> bool:
    """Whether the smallest or the largest value in the footers of a writer is NaN, if there is one: parquet-mr's from
    1.10 on (PARQUET-1246), so Spark's and Hive's. Others leave NaN out."""
    found = _JAVA_WRITER.match(writer or "")
    return found is not None and (int(found[1]), int(found[2])) >= _TELLS_NAN_FROM


def footer_bounds(of: PrimitiveType, found: pq.Statistics | None) -> tuple[Any, Any] | None:
    """The smallest and the largest value of one row group, of the table's type; None where they are unreliable."""
    if found is None or not found.has_min_max:
        return None
    try:
        lower, upper = _value(of, found.min_raw), _value(of, found.max_raw)
    except (ValueError, TypeError, OverflowError):
        return None
    if isinstance(lower, float):
        return float_bounds(lower, upper)
    return lower, upper


def _value(of: PrimitiveType, raw: Any) -> Any:
    """A value of the footer as a value of the table's type. Raises ValueError if it is none."""
    match of.kind:
        case "boolean":
            return bool(raw)
        case "float" | "double":
            return float(raw)
        case "decimal":
            number = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
            return values.from_unscaled(number, of.scale)
        case "string":
            return raw.decode("utf-8") if isinstance(raw, bytes) else str(raw)
        case "uuid":
            return uuid.UUID(bytes=raw)
        case "binary" | "fixed":
            return bytes(raw)
        case _:
            return int(raw)
