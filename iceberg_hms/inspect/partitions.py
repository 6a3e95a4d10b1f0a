"""The bounds of partition values in manifests, in readable form."""

from __future__ import annotations

from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest_list import FieldSummary
from iceberg_hms.format.metadata.partition_text import transform_of, value_text
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.transforms import Transform
from iceberg_hms.format.schema.types import Type


def partition_ranges(
    metadata: TableMetadata, spec: PartitionSpec, summaries: tuple[FieldSummary, ...]
) -> list[dict[str, Any]]:
    """The values of each partition field in a manifest's files (spec: field_summary), in the order of the spec's
    fields. lower, upper: readable bounds, None if there is none."""
    ranges = []
    for field, summary in zip(spec.fields, summaries, strict=False):
        transform, result = transform_of(metadata, field)
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


def _bound(transform: Transform, result: Type | None, data: bytes | None) -> str | None:
    if data is None:
        return None
    if result is None:
        return raw_bytes(data)
    try:
        return value_text(transform, result, values.from_bytes(result, data))
    except InvalidInput:
        return raw_bytes(data)


def raw_bytes(data: bytes) -> str:
    """Bytes of unknown meaning, in hexadecimal."""
    return f"0x{data.hex()}"
