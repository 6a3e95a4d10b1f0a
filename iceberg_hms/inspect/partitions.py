"""Partition values and bounds in readable form: `event_time_day=2021-04-01`, not 18718."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest_list import FieldSummary
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.transforms import Transform
from iceberg_hms.format.schema.types import Type


def partition_ranges(
    metadata: TableMetadata, spec: PartitionSpec, summaries: tuple[FieldSummary, ...]
) -> list[dict[str, Any]]:
    """The values of each partition field in a manifest's files (spec: field_summary), in the order of the spec's
    fields. lower, upper: readable bounds, None if there is none."""
    ranges = []
    for field, summary in zip(spec.fields, summaries, strict=False):
        transform, result = _transform(metadata, field)
        ranges.append(
            {
                "field": field.name,
                "transform": str(field.transform),
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower": _bound(transform, result, summary.lower_bound),
                "upper": _bound(transform, result, summary.upper_bound),
            }
        )
    return ranges


def partition_values(metadata: TableMetadata, spec: PartitionSpec, partition: Mapping[str, Any]) -> dict[str, str]:
    """A file's partition values, by the names of its spec's fields."""
    return {field.name: _value(*_transform(metadata, field), partition.get(field.name)) for field in spec.fields}


def _transform(metadata: TableMetadata, field: PartitionField) -> tuple[Transform, Type | None]:
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


def _bound(transform: Transform, result: Type | None, data: bytes | None) -> str | None:
    if data is None:
        return None
    if result is None:
        return raw_bytes(data)
    try:
        return _value(transform, result, values.from_bytes(result, data))
    except InvalidInput:
        return raw_bytes(data)


def _value(transform: Transform, result: Type | None, value: Any) -> str:
    if value is None:
        return "null"
    if result is None:
        return str(value)
    try:
        return transform.human(value, result)
    except (InvalidInput, TypeError, ValueError, AttributeError):
        return str(value)


def raw_bytes(data: bytes) -> str:
    """Bytes of unknown meaning, in hexadecimal."""
    return f"0x{data.hex()}"
