"""The table metadata file: its single values, schema, partition specs, sort orders, and previous files."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortField, SortOrder
from iceberg_hms.format.schema.types import nested_fields


@dataclass(frozen=True, slots=True)
class MetadataFacts:
    """The metadata's single values. Times are milliseconds since 1970; `next_row_id` is set in v3 only."""

    metadata_location: str
    format_version: int
    uuid: str | None
    location: str
    last_updated_ms: int
    last_sequence_number: int
    last_column_id: int
    current_schema_id: int
    default_spec_id: int
    default_sort_order_id: int
    current_snapshot_id: int | None
    snapshots: int
    next_row_id: int | None


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """One field of a schema; nested fields have dotted names."""

    field_id: int
    name: str
    type: str
    required: bool
    identifier: bool
    doc: str | None


@dataclass(frozen=True, slots=True)
class SpecRow:
    """One field of a partition spec or a sort order; `field` is None for a spec or order without fields.

    order: direction and null order of a sort field; None for a partition field.
    """

    id: int
    is_default: bool
    field_id: int | None
    field: str | None
    transform: str | None
    source: str | None
    order: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataLogRow:
    """A current or previous metadata file of the table, and when it was written."""

    timestamp_ms: int
    metadata_location: str
    is_current: bool


def metadata_facts(metadata: TableMetadata, metadata_location: str) -> MetadataFacts:
    """The single values of a metadata file."""
    return MetadataFacts(
        metadata_location=metadata_location,
        format_version=metadata.format_version,
        uuid=metadata.uuid,
        location=metadata.location,
        last_updated_ms=metadata.last_updated_ms,
        last_sequence_number=metadata.last_sequence_number,
        last_column_id=metadata.last_column_id,
        current_schema_id=metadata.current_schema_id,
        default_spec_id=metadata.default_spec_id,
        default_sort_order_id=metadata.default_sort_order_id,
        current_snapshot_id=metadata.current_snapshot_id,
        snapshots=len(metadata.snapshots),
        next_row_id=metadata.next_row_id if metadata.format_version >= 3 else None,
    )


def column_rows(schema: Schema) -> tuple[ColumnRow, ...]:
    """Every field of a schema, parents before their children."""
    rows: list[ColumnRow] = []
    identifiers = set(schema.identifier_field_ids)
    waiting = [(field.name, field) for field in reversed(schema.fields)]
    while waiting:
        name, field = waiting.pop()
        inner = nested_fields(field.type)
        kind = type(field.type).__name__.removesuffix("Type").lower() if inner else str(field.type)
        rows.append(ColumnRow(field.id, name, kind, field.required, field.id in identifiers, field.doc))
        waiting.extend((f"{name}.{child.name}", child) for child in reversed(inner))
    return tuple(rows)


def spec_rows(metadata: TableMetadata) -> tuple[SpecRow, ...]:
    """Every partition spec of the table, oldest first; older files still use older specs."""
    return tuple(row for spec in metadata.specs for row in _spec_rows(metadata, spec))


def _spec_rows(metadata: TableMetadata, spec: PartitionSpec) -> list[SpecRow]:
    default = spec.spec_id == metadata.default_spec_id
    return [
        SpecRow(
            spec.spec_id,
            default,
            field.field_id,
            field.name,
            str(field.transform),
            column_names(metadata, field),
        )
        for field in spec.fields
    ] or [SpecRow(spec.spec_id, default, None, None, None, None)]


def sort_order_rows(metadata: TableMetadata) -> tuple[SpecRow, ...]:
    """Every sort order of the table."""
    return tuple(row for order in metadata.sort_orders for row in _sort_rows(metadata, order))


def _sort_rows(metadata: TableMetadata, order: SortOrder) -> list[SpecRow]:
    default = order.order_id == metadata.default_sort_order_id
    rows = []
    for field in order.fields:
        name = column_names(metadata, field)
        how = f"{field.direction} {field.null_order}"
        rows.append(SpecRow(order.order_id, default, None, name, str(field.transform), name, how))
    return rows or [SpecRow(order.order_id, default, None, None, None, None)]


def metadata_log_rows(metadata: TableMetadata, metadata_location: str) -> tuple[MetadataLogRow, ...]:
    """The metadata files in the table's metadata log, oldest first; the current one last."""
    rows = [
        MetadataLogRow(entry["timestamp-ms"], entry["metadata-file"], is_current=False)
        for entry in metadata.metadata_log
    ]
    return (*rows, MetadataLogRow(metadata.last_updated_ms, metadata_location, is_current=True))


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
