"""The schema with which manifests of a partition spec are written."""

from __future__ import annotations

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema


def schema_of_spec(base: TableMetadata, spec: PartitionSpec) -> Schema:
    """The current schema, or the newest one that has all columns that the spec partitions by: the partition values of
    old files keep their types when their column was dropped. The current one if no schema has all."""
    wanted = {field.source_id for field in spec.fields}
    for schema in (base.schema, *sorted(base.schemas, key=lambda each: each.schema_id, reverse=True)):
        if all(schema.field(source) is not None for source in wanted):
            return schema
    return base.schema
