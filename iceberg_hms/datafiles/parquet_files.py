"""What existing Parquet files have. Reads their footers, never their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.datafiles.column_bounds import ColumnStatistics
from iceberg_hms.datafiles.described_file import GREGORIAN_START, FoundInFile, offsets_in_order
from iceberg_hms.datafiles.file_columns import FoundColumns, TableOfFiles
from iceberg_hms.datafiles.parquet_bounds import column_statistics
from iceberg_hms.datafiles.parquet_columns import parquet_columns
from iceberg_hms.datafiles.parquet_footer import maps_of_old_form
from iceberg_hms.errors import CorruptFile, StorageError, UnsupportedFormat
from iceberg_hms.format.schema.types import PrimitiveType

_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_TAIL = 8
#: What Spark and Hive 4 write into footers.
_HIVE_PROLEPTIC = b"writer.date.proleptic"
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY = b"org.apache.spark.legacyDateTime"
_UNITS_PER_DAY = {
    "date": 1,
    **dict.fromkeys(("timestamp", "timestamptz"), 86_400_000_000),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), 86_400_000_000_000),
}


def found_in_parquet(location: str, table: TableOfFiles, open_input: Callable[[str], Any]) -> FoundInFile | None:
    """Read a Parquet file's footer; None for a file without rows.

    location: kept byte for byte. table: of whose metadata the current schema, the default spec and
    `write.metadata.metrics.*` matter. open_input: opens a location as a pyarrow file; raises MissingFile, StorageError.

    The result has counts, sizes, bounds and split offsets as Java's ParquetMetrics gives them; it counts INT96 columns
    too, which that leaves out. Raises InvalidInput (a column that the table cannot read), CorruptFile,
    UnsupportedFormat (encryption). Changes nothing.
    """
    size, footer, raw = _read_footer(location, open_input)
    if not footer.num_rows:
        return None
    old_maps = maps_of_old_form(location, raw)
    matched = table.find_once(
        location,
        (*_schema_of(footer), old_maps),
        partial(parquet_columns, location, footer, table.metadata.format_version, old_maps),
    )
    statistics = {
        each.field_id: column_statistics(location, footer, each.stored, each.type)
        for each in matched.columns
        if isinstance(each.type, PrimitiveType) and each.stored.shape == "leaf"
    }
    return FoundInFile(
        file_format="PARQUET",
        size=size,
        record_count=footer.num_rows,
        matched=matched,
        statistics=statistics,
        split_offsets=offsets_in_order(_row_group_offsets(footer), size),
        shifted=tuple(_shifted(matched, statistics)) if _is_in_hybrid_calendar(footer) else (),
    )


def _is_in_hybrid_calendar(footer: pq.FileMetaData) -> bool:
    """Whether the writer says that it counted the days before October 15, 1582 in the calendar of that time: Spark, as
    it did before 3.0, or Hive. Of files of others Spark believes that they did not."""
    said = footer.metadata or {}
    return (
        said.get(_HIVE_PROLEPTIC) == b"false"
        or _LEGACY in said
        or said.get(_SPARK_VERSION, b"").startswith((b"1.", b"2."))
    )


def _shifted(matched: FoundColumns, statistics: Mapping[int, ColumnStatistics]) -> Iterator[int]:
    for each in matched.columns:
        unit = _UNITS_PER_DAY.get(each.type.kind) if isinstance(each.type, PrimitiveType) else None
        found = statistics.get(each.field_id)
        if unit and found is not None and found.lower is not None and found.lower < GREGORIAN_START * unit:
            yield each.field_id


def _schema_of(footer: pq.FileMetaData) -> tuple[bytes, str]:
    """What is equal for files with equal columns: as pyarrow reads them, by the schema that the writer may have added,
    and as Parquet describes them."""
    _, _, text = str(footer.schema).partition("\n")
    return footer.schema.to_arrow_schema().serialize().to_pybytes(), text


def _read_footer(location: str, open_input: Callable[[str], Any]) -> tuple[int, pq.FileMetaData, bytes]:
    """The size of the file, and what its footer has, in the file's own bytes too."""
    try:
        with open_input(location) as file:
            size = int(file.size())
            if size < len(_MAGIC) + _TAIL:
                raise CorruptFile(location, f"it has {size} bytes and is no Parquet file")
            file.seek(size - _TAIL)
            tail = bytes(file.read(_TAIL))
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] == _ENCRYPTED_MAGIC:
                raise UnsupportedFormat(f"{location} is encrypted")
            if tail[4:] != _MAGIC or length > size - len(_MAGIC) - _TAIL:
                raise CorruptFile(location, "it does not end with a Parquet footer")
            file.seek(size - _TAIL - length)
            data = bytes(file.read(length + _TAIL))
    except OSError as error:
        raise StorageError(f"Cannot read the footer of {location}: {error}") from error
    try:
        return size, pq.read_metadata(pa.BufferReader(_MAGIC + data)), data
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFile(location, f"its Parquet footer cannot be read: {error}") from error


def _row_group_offsets(footer: pq.FileMetaData) -> Iterator[int]:
    for number in range(footer.num_row_groups):
        first = footer.row_group(number).column(0)
        starts = [first.data_page_offset]
        if first.has_dictionary_page and first.dictionary_page_offset:
            starts.append(first.dictionary_page_offset)
        yield min(starts)
