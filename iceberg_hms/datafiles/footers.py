"""Makes DataFile records of existing Parquet files. Reads their footers, never their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.datafiles.metrics_config import MetricsConfig
from iceberg_hms.datafiles.parquet_bounds import ColumnStatistics, column_statistics, lower_bound, upper_bound
from iceberg_hms.datafiles.parquet_columns import (
    Matched,
    match_columns,
    missing_required,
    required_columns,
)
from iceberg_hms.datafiles.partition_values import partition_of, path_columns
from iceberg_hms.errors import CorruptFile, InvalidInput, StorageError, UnsupportedFormat
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, name_mapping

_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_TAIL = 8


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """data_file: the record for a manifest. has_field_ids: if not, readers need the table's name mapping.
    extra_columns: names of columns that the table lacks and that keep PyIceberg from reading the file."""

    data_file: DataFile
    has_field_ids: bool
    extra_columns: tuple[str, ...] = ()


def describe_parquet(location: str, metadata: TableMetadata, open_input: Callable[[str], Any]) -> DescribedFile:
    """Read a Parquet file's footer and make its manifest record.

    location: kept byte for byte. metadata: the table's, of which the current schema, the default spec and
    `write.metadata.metrics.*` matter. open_input: opens a location as a pyarrow file; raises MissingFile, StorageError.

    The result has counts, sizes, bounds and split offsets as Java's ParquetMetrics gives them, and the partition of
    the whole file. Raises InvalidInput (a column that the table cannot read, a required one that is missing or
    has nulls, a file that spans partitions), CorruptFile, UnsupportedFormat (encryption). Changes nothing.
    """
    size, footer = _read_footer(location, open_input)
    matched = match_columns(location, footer, metadata)
    statistics = {
        column.field_id: column_statistics(footer, column) for column in matched.columns if not column.repeated
    }
    _check_required(location, metadata, matched, statistics)
    partition = partition_of(location, metadata, statistics, matched.present)
    data_file = DataFile(
        file_path=location,
        file_format="PARQUET",
        record_count=footer.num_rows,
        file_size_in_bytes=size,
        partition=partition,
        spec_id=metadata.default_spec_id,
        split_offsets=_split_offsets(footer, size),
        **_metrics(footer, metadata, matched, statistics),
    )
    return DescribedFile(data_file, matched.has_field_ids, matched.extra)


def needed_name_mapping(metadata: TableMetadata, files: list[DescribedFile]) -> str | None:
    """The name mapping for files without field ids, as JSON: the table's `schema.name-mapping.default`, else the one
    that an append of such files sets on the table. None if all files have field ids. Without a mapping Java reads such
    files by the position of their columns."""
    if all(file.has_field_ids for file in files):
        return None
    return metadata.properties.get(NAME_MAPPING) or orjson.dumps(name_mapping(metadata.schema)).decode()


def refuse_extra_columns(files: Iterable[DescribedFile]) -> None:
    """Raises InvalidInput with the names of the extra columns of the first file that has any."""
    for file in files:
        if file.extra_columns:
            raise InvalidInput(
                f"{file.data_file.file_path} has columns that the table lacks: {', '.join(file.extra_columns)}; "
                "Spark would skip them, and PyIceberg could not read the table",
                next_step="add them to the table, and a file without field ids needs them in the table's "
                f'{NAME_MAPPING} too; write the file without them; or pass on_extra_columns="ignore"',
            )


def _read_footer(location: str, open_input: Callable[[str], Any]) -> tuple[int, pq.FileMetaData]:
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
        return size, pq.read_metadata(pa.BufferReader(_MAGIC + data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFile(location, f"its Parquet footer cannot be read: {error}") from error


def _check_required(
    location: str, metadata: TableMetadata, matched: Matched, statistics: Mapping[int, ColumnStatistics]
) -> None:
    from_path = path_columns(location, metadata)
    missing = [each for each in missing_required(metadata.schema, matched.present) if each.id not in from_path]
    if missing:
        names = ", ".join(str(metadata.schema.name_of(each.id)) for each in missing)
        raise InvalidInput(f"{location} does not have the table's required columns: {names}")
    required = required_columns(metadata.schema)
    for field_id, found in statistics.items():
        if field_id in required and found.nulls:
            name = metadata.schema.name_of(field_id)
            raise InvalidInput(f"{location}: {found.nulls} nulls in column {name}, which the table requires")


def _metrics(
    footer: pq.FileMetaData, metadata: TableMetadata, matched: Matched, statistics: Mapping[int, ColumnStatistics]
) -> dict[str, Any]:
    config = MetricsConfig(metadata)
    sizes: dict[int, int] = {}
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for column in matched.columns:
        mode = config.mode(column.field_id)
        if not mode.counts:
            continue
        if column.repeated:
            # Readers cannot use counts or bounds of fields in lists and maps.
            sizes[column.field_id] = column_statistics(footer, column).size
            continue
        found = statistics[column.field_id]
        sizes[column.field_id] = found.size
        counts[column.field_id] = found.values
        if found.nulls is not None:
            nulls[column.field_id] = found.nulls
        if not mode.bounds or found.lower is None:
            continue
        lower[column.field_id] = lower_bound(column.type, found.lower, mode.length)
        highest = upper_bound(column.type, found.upper, mode.length)
        if highest is not None:
            upper[column.field_id] = highest
    return {
        "column_sizes": sizes,
        "value_counts": counts,
        "null_value_counts": nulls,
        "lower_bounds": lower,
        "upper_bounds": upper,
    }


def _split_offsets(footer: pq.FileMetaData, size: int) -> list[int] | None:
    """Offsets of the row groups, at which readers split the file; None if they are inconsistent."""
    offsets = []
    for number in range(footer.num_row_groups):
        first = footer.row_group(number).column(0)
        starts = [first.data_page_offset]
        if first.has_dictionary_page and first.dictionary_page_offset:
            starts.append(first.dictionary_page_offset)
        offsets.append(min(starts))
    offsets.sort()
    sane = offsets and offsets[-1] < size and all(one < next_one for one, next_one in pairwise(offsets))
    return offsets if sane else None
