"""The table metadata file: its single values, schema, partition specs, sort orders, and previous files."""

from __future__ import annotations

from typing import Any, Final

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortField
from iceberg_hms.format.schema.types import nested_fields

#: The row of a spec or sort order without fields.
_NO_FIELD: Final = dict.fromkeys(("field_id", "field", "transform", "source", "order"))


def metadata_facts(metadata: TableMetadata, metadata_location: str) -> dict[str, Any]:
    """The single values of a metadata file. Times are milliseconds since 1970; `next_row_id` is set in v3 only."""
    return {
        "metadata_location": metadata_location,
        "format_version": metadata.format_version,
        "uuid": metadata.uuid,
        "location": metadata.location,
        "last_updated_ms": metadata.last_updated_ms,
        "last_sequence_number": metadata.last_sequence_number,
        "last_column_id": metadata.last_column_id,
        "current_schema_id": metadata.current_schema_id,
        "default_spec_id": metadata.default_spec_id,
        "default_sort_order_id": metadata.default_sort_order_id,
        "current_snapshot_id": metadata.current_snapshot_id,
        "snapshots": len(metadata.snapshots),
        "next_row_id": metadata.next_row_id if metadata.format_version >= 3 else None,
    }


def column_rows(schema: Schema) -> list[dict[str, Any]]:
    """Every field of a schema, parents before their children; nested fields have dotted names."""
    rows = []
    identifiers = set(schema.identifier_field_ids)
    waiting = [(field.name, field) for field in reversed(schema.fields)]
    while waiting:
        name, field = waiting.pop()
        inner = nested_fields(field.type)
        rows.append(
            {
                "field_id": field.id,
                "name": name,
                "type": type(field.type).__name__.removesuffix("Type").lower() if inner else str(field.type),
                "required": field.required,
                "identifier": field.id in identifiers,
                "doc": field.doc,
            }
        )
        waiting.extend((f"{name}.{child.name}", child) for child in reversed(inner))
    return rows


def spec_rows(metadata: TableMetadata) -> list[dict[str, Any]]:
    """The fields of every partition spec of the table, oldest spec first; older files still use older specs. A spec
    without fields is a row whose `field` is None."""
    rows: list[dict[str, Any]] = []
    for spec in metadata.specs:
        fields = [
            {
                "field_id": field.field_id,
                "field": field.name,
                "transform": str(field.transform),
                "source": column_names(metadata, field),
                "order": None,
            }
            for field in spec.fields
        ]
        of = {"id": spec.spec_id, "is_default": spec.spec_id == metadata.default_spec_id}
        rows += [of | field for field in fields or [_NO_FIELD]]
    return rows


def sort_order_rows(metadata: TableMetadata) -> list[dict[str, Any]]:
    """The fields of every sort order of the table, as `spec_rows`. order: the direction and null order."""
    rows: list[dict[str, Any]] = []
    for order in metadata.sort_orders:
        fields = [
            {
                "field_id": None,
                "field": column_names(metadata, field),
                "transform": str(field.transform),
                "source": column_names(metadata, field),
                "order": f"{field.direction} {field.null_order}",
            }
            for field in order.fields
        ]
        of = {"id": order.order_id, "is_default": order.order_id == metadata.default_sort_order_id}
        rows += [of | field for field in fields or [_NO_FIELD]]
    return rows


def metadata_log_rows(metadata: TableMetadata, metadata_location: str) -> list[dict[str, Any]]:
    """The metadata files in the table's metadata log, and when they were written, oldest first; the current one
    last."""
    files = [(entry["timestamp-ms"], entry["metadata-file"], False) for entry in metadata.metadata_log]
    files.append((metadata.last_updated_ms, metadata_location, True))
    return [
        {"timestamp_ms": written_ms, "metadata_location": location, "is_current": is_current}
        for written_ms, location, is_current in files
    ]


def column_names(metadata: TableMetadata, field: PartitionField | SortField) -> str:
    """The source columns of a partition or sort field."""
    return ", ".join(column_name(metadata, each) for each in (field.source_id, *field.more_source_ids))


def column_name(metadata: TableMetadata, field_id: int) -> str:
    """A column's dotted name in the current schema, else in the newest schema that had it, else its id."""
    for schema in (metadata.schema, *reversed(metadata.schemas)):
        name = schema.name_of(field_id)
        if name is not None:
            return name
    return f"#{field_id}"
