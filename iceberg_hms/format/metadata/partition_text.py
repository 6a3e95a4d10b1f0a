"""Partition values in readable form: `event_time_day=2021-04-01`, not 18718."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.transforms import Transform
from iceberg_hms.format.schema.types import Type


def partition_values(metadata: TableMetadata, spec: PartitionSpec, partition: Mapping[str, Any]) -> dict[str, str]:
    """A file's partition values, by the names of its spec's fields."""
    return {field.name: value_text(*transform_of(metadata, field), partition.get(field.name)) for field in spec.fields}


def transform_of(metadata: TableMetadata, field: PartitionField) -> tuple[Transform, Type | None]:
    """A field's transform and the type of its values; None if the source column or the transform is unknown."""
    source = source_type(metadata, field.source_id)
    try:
        return field.transform, None if source is None else field.transform.result_type(source)
    except InvalidInput:
        return field.transform, None


def source_type(metadata: TableMetadata, field_id: int) -> Type | None:
    """A column's type in the current schema, else in the newest schema that had it."""
    for schema in (metadata.schema, *reversed(metadata.schemas)):
        field = schema.field(field_id)
        if field is not None:
            return field.type
    return None


def value_text(transform: Transform, result: Type | None, value: Any) -> str:
    """A partition value for people. result: its type; None if that is unknown."""
    if value is None:
        return "null"
    if result is None:
        return str(value)
    try:
        return transform.human(value, result)
    except (InvalidInput, TypeError, ValueError, AttributeError):
        return str(value)
