"""The record of a data file, from what its format's reader found in it: one way for Parquet, ORC and Avro."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from iceberg_hms.datafiles.column_bounds import ColumnStatistics, bounds, is_floating
from iceberg_hms.datafiles.file_columns import FoundColumns, TableOfFiles
from iceberg_hms.datafiles.metrics_config import MetricsConfig
from iceberg_hms.datafiles.partition_values import partition_of, path_columns
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.lineage_columns import (
    LINEAGE_COLUMNS,
    LINEAGE_VERSION,
    LineageValues,
    RowLineage,
)
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, mapping_text
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import UNSORTED_ORDER_ID
from iceberg_hms.format.schema.types import NestedField, PrimitiveType, StructType


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """data_file: the record for a manifest. has_field_ids: if not, readers need the table's name mapping.
    extra_columns: names of columns that the table lacks and that keep PyIceberg from reading the file.
    other_names: columns whose field ids are those of columns that have other names in the table (`FoundColumns`).
    lineage: the metadata columns of row lineage that the file carries. shifted: columns that Iceberg's readers show
    other days of than the writer's (`FoundInFile`). spellings: as `FoundColumns` has them."""

    data_file: DataFile
    has_field_ids: bool
    extra_columns: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    lineage: RowLineage = field(default_factory=dict)
    shifted: tuple[str, ...] = ()
    spellings: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundInFile:
    """What a reader of one format found.

    size: of the file, in bytes. statistics: by field id; none for a column of which the file has none.
    split_offsets: where its row groups or stripes start, at which readers split the file.
    shifted: the field ids of columns with days before October 15, 1582, as far as the file tells, that its writer
    counted in the calendar of that time. Iceberg counts in today's, and shows other days.
    """

    file_format: str
    size: int
    record_count: int
    matched: FoundColumns
    statistics: Mapping[int, ColumnStatistics] = field(default_factory=dict)
    split_offsets: list[int] | None = None
    shifted: tuple[int, ...] = ()

    @property
    def lineage(self) -> RowLineage:
        """The metadata columns of row lineage that the file carries."""
        return {
            id_: LineageValues() if found is None else LineageValues(found.nulls, found.lower, found.upper)
            for id_, found in (
                (id_, self.statistics.get(id_)) for id_ in LINEAGE_COLUMNS if id_ in self.matched.present
            )
        }


#: October 15, 1582, in days since 1970: before it writers of the hybrid calendar count other days.
GREGORIAN_START: Final = -141_427


def offsets_in_order(offsets: Iterable[int], size: int) -> list[int] | None:
    """`FoundInFile.split_offsets` from where a footer says that row groups or stripes start; None if that cannot be."""
    found = sorted(offsets)
    sane = found and found[-1] < size and all(one < next_one for one, next_one in pairwise(found))
    return found if sane else None


def described(
    location: str, table: TableOfFiles, found: FoundInFile, partition: Mapping[str, Any] | None
) -> DescribedFile:
    """partition: the values of partition fields that are known already (`partition_of`). Raises InvalidInput: the file
    lacks a required column or has nulls in it, it spans partitions or is not in the given one, or it carries row
    lineage and the table has none."""
    metadata = table.metadata
    _check_required(location, metadata, found, partition)
    lineage = found.lineage
    if lineage and metadata.format_version < LINEAGE_VERSION:
        names = ", ".join(LINEAGE_COLUMNS[id_].name for id_ in lineage)
        raise InvalidInput(
            f"{location} carries {names}, which rows have from format version {LINEAGE_VERSION} on: after an upgrade "
            "others would have the same values",
            next_step="write the file without them; if the table was upgraded meanwhile, reload it",
        )
    data_file = DataFile(
        file_path=location,
        file_format=found.file_format,
        record_count=found.record_count,
        file_size_in_bytes=found.size,
        partition=partition_of(location, metadata, found.statistics, found.matched.present, partition),
        spec_id=metadata.default_spec_id,
        split_offsets=found.split_offsets,
        sort_order_id=UNSORTED_ORDER_ID,
        **_metrics(table.metrics, found),
    )
    matched = found.matched
    shifted = tuple(str(metadata.schema.name_of(each)) for each in found.shifted)
    return DescribedFile(
        data_file, matched.has_field_ids, matched.extra, matched.other_names, lineage, shifted, matched.spellings
    )


def without_unsure_bounds(records: Iterable[DataFile], schema: Schema) -> list[DataFile]:
    """The records of callers, without upper bounds of floats of which they do not count NaN: PyIceberg's records have
    the bounds of footers, which leave NaN out (see `of_floats`)."""
    fields = map(schema.find, schema.names())
    floats = {each.id for each in fields if each is not None and is_floating(each.type)}
    return [_with_sure_bounds(each, floats) for each in records] if floats else list(records)


def _with_sure_bounds(record: DataFile, floats: Set[int]) -> DataFile:
    upper = record.upper_bounds or {}
    unsure = (upper.keys() & floats) - (record.nan_value_counts or {}).keys()
    if not unsure:
        return record
    return replace(record, upper_bounds={key: value for key, value in upper.items() if key not in unsure})


def needed_name_mapping(metadata: TableMetadata, files: list[DescribedFile]) -> str | None:
    """The name mapping for files without field ids, as JSON: the table's `schema.name-mapping.default`, else the one
    that an append of such files sets on the table. None if all files have field ids. Without a mapping Java reads such
    files by the position of their columns."""
    if all(file.has_field_ids for file in files):
        return None
    return metadata.properties.get(NAME_MAPPING) or mapping_text(metadata.schema)


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


def missing_required(schema: Schema, present: frozenset[int]) -> list[NestedField]:
    """Required fields that a file lacks and that have no default; fields in lists and maps, or in missing optional
    structs, do not count."""
    return [each for each in _always_there(schema.fields) if each.id not in present and each.initial_default is None]


def _always_there(fields: Iterable[NestedField]) -> Iterable[NestedField]:
    """The fields that have a value in every row."""
    for each in fields:
        if each.required:
            yield each
            if isinstance(each.type, StructType):
                yield from _always_there(each.type.fields)


def _check_required(
    location: str, metadata: TableMetadata, found: FoundInFile, partition: Mapping[str, Any] | None
) -> None:
    missing = missing_required(metadata.schema, found.matched.present)
    if missing:
        from_path = path_columns(location, metadata, partition)
        missing = [each for each in missing if each.id not in from_path]
    if missing:
        names = ", ".join(str(metadata.schema.name_of(each.id)) for each in missing)
        raise InvalidInput(f"{location} does not have the table's required columns: {names}")
    for each in _always_there(metadata.schema.fields):
        statistics = found.statistics.get(each.id)
        if each.id not in found.matched.present or not isinstance(each.type, PrimitiveType):
            continue
        name = metadata.schema.name_of(each.id)
        if statistics is None or statistics.nulls is None:
            raise InvalidInput(
                f"{location}: the table requires column {name}, and the file does not tell whether it has nulls",
                next_step="write it with statistics, or as a type without null (Parquet: required; Avro: no union)",
            )
        if statistics.nulls:
            raise InvalidInput(f"{location}: {statistics.nulls} nulls in column {name}, which the table requires")


#: Java's writers leave out the metrics of Avro files, and tell that from metrics of no column.
_WITHOUT_METRICS: Final = "AVRO"


def _metrics(config: MetricsConfig, found: FoundInFile) -> dict[str, Any]:
    if found.file_format == _WITHOUT_METRICS:
        return {}
    sizes: dict[int, int] = {}
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for column in found.matched.columns:
        mode = config.mode(column.field_id)
        statistics = found.statistics.get(column.field_id)
        if not mode.counts or statistics is None:
            continue
        if statistics.size is not None:
            sizes[column.field_id] = statistics.size
        if column.repeated:
            # Readers cannot use counts or bounds of fields in lists and maps.
            continue
        counts[column.field_id] = statistics.values
        if statistics.nulls is not None:
            nulls[column.field_id] = statistics.nulls
        if statistics.nans is not None:
            nans[column.field_id] = statistics.nans
        if not mode.bounds or not isinstance(column.type, PrimitiveType):
            continue
        least, greatest = bounds(column.type, statistics, mode.length)
        if least is not None:
            lower[column.field_id] = least
        if greatest is not None:
            upper[column.field_id] = greatest
    return {
        "column_sizes": sizes,
        "value_counts": counts,
        "null_value_counts": nulls,
        "nan_value_counts": nans,
        "lower_bounds": lower,
        "upper_bounds": upper,
    }
