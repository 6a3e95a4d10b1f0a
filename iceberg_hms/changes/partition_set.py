"""Sets of partitions: which files and manifests belong to one; and the schema of a partition spec's manifests."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from iceberg_hms.expressions.bounds import bound_value
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.manifests.manifest_list import FieldSummary, ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import Type

#: A partition: its spec's id, and the values that are not null, by field name. A field that a spec no longer uses
#: (void) is null, and may be left out of a file's values.
PartitionKey = tuple[int, frozenset[tuple[str, Any]]]
#: With more partitions than this, comparing each with a manifest's bounds costs more than it saves.
_PRUNE_MAX: Final = 1_000


def partition_key(data_file: DataFile) -> PartitionKey:
    """The partition of a data file or delete file."""
    return data_file.spec_id, frozenset(
        (name, _comparable(value)) for name, value in data_file.partition.items() if value is not None
    )


class PartitionSet:
    """Partitions, by the files that are in them. Partitions of different specs are never the same one, as in Java."""

    def __init__(self, data_files: Iterable[DataFile]) -> None:
        self.keys: dict[PartitionKey, Mapping[str, Any]] = {partition_key(each): each.partition for each in data_files}

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, data_file: DataFile) -> bool:
        return partition_key(data_file) in self.keys

    def may_contain(self, manifest: ManifestFile, base: TableMetadata) -> bool:
        """Whether a manifest's bounds allow a file of one of the partitions. True where the bounds do not say."""
        of_spec = [partition for (spec_id, _), partition in self.keys.items() if spec_id == manifest.partition_spec_id]
        spec = base.spec_by_id(manifest.partition_spec_id)
        if not of_spec or spec is None or manifest.partitions is None or len(of_spec) > _PRUNE_MAX:
            return bool(of_spec)
        fields = spec.partition_type(schema_of_spec(base, spec)).fields
        if len(fields) != len(manifest.partitions):
            return True
        summaries = list(zip(fields, manifest.partitions, strict=True))
        return any(
            all(_may_hold(field.type, summary, partition.get(field.name)) for field, summary in summaries)
            for partition in of_spec
        )


def schema_of_spec(base: TableMetadata, spec: PartitionSpec) -> Schema:
    """The current schema, or the newest one that has all columns that the spec partitions by: the partition values of
    old files keep their types when their column was dropped. The current one if no schema has all."""
    wanted = {field.source_id for field in spec.fields}
    for schema in (base.schema, *sorted(base.schemas, key=lambda each: each.schema_id, reverse=True)):
        if all(schema.field(source) is not None for source in wanted):
            return schema
    return base.schema


def _comparable(value: Any) -> Any:
    # NaN is one partition although it differs from itself, and -0.0 is another one than 0.0.
    return struct.pack(">d", value) if isinstance(value, float) else value


def _may_hold(of: Type, summary: FieldSummary, value: Any) -> bool:
    if value is None:
        return summary.contains_null
    if isinstance(value, float):
        # How NaN and negative zero are bounded differs between writers.
        return True
    if summary.lower_bound is None or summary.upper_bound is None:
        # Every value is null or NaN.
        return False
    lower, upper = bound_value(of, summary.lower_bound), bound_value(of, summary.upper_bound)
    try:
        return lower is None or upper is None or bool(lower <= value <= upper)
    except TypeError:
        return True
