"""The metadata of new tables, as Java's TableMetadata.newTableMetadata makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import METRICS_COLUMN_PREFIX
from iceberg_hms.format.schema.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionSpec
from iceberg_hms.format.schema.schema import Schema, assign_fresh_ids
from iceberg_hms.format.schema.sort_order import SortOrder
from iceberg_hms.format.updates.apply import DEFAULT_FORMAT_VERSION, apply
from iceberg_hms.format.updates.table import FORMAT_VERSION_PROPERTY, check_properties, parse_format_version

#: Set on every new table unless the caller sets it, as in Java since 1.4: the readers' default is gzip.
NEW_TABLE_PROPERTIES: Final[Mapping[str, str]] = {"write.parquet.compression-codec": "zstd"}


def new_table_metadata(
    schema: Schema,
    spec: PartitionSpec | None,
    order: SortOrder | None,
    location: str,
    properties: Mapping[str, str],
    *,
    format_version: int = DEFAULT_FORMAT_VERSION,
    uuid: str,
    now_ms: int,
) -> TableMetadata:
    """The metadata of an empty table.

    schema: gets fresh field ids from 1 on. spec, order: name columns by their ids in `schema` and get the fresh ids;
    None is unpartitioned, unsorted. location: absolute; trailing slashes are dropped. properties: `format-version` wins
    over `format_version`. now_ms: wall clock.

    Raises InvalidInput for reserved properties, for an invalid schema, spec or order, and for properties that name
    missing columns; UnsupportedFormat for version 4 and encryption.
    """
    kept = dict(properties)
    version = kept.pop(FORMAT_VERSION_PROPERTY, None)
    check_properties(kept)
    check_metrics_columns(kept, schema)
    schema.validate()
    fresh = assign_fresh_ids(schema)
    updates = _updates(
        uuid,
        format_version if version is None else parse_format_version(version),
        fresh.raw,
        _fresh_spec(spec, schema, fresh),
        _fresh_order(order, schema, fresh),
        location,
        {**NEW_TABLE_PROPERTIES, **kept},
    )
    return apply(None, updates, now_ms=now_ms)


def create_updates(metadata: TableMetadata) -> list[dict[str, Any]]:
    """The REST updates that create an empty table like this one, in the order of Java's staged create."""
    return _updates(
        str(metadata.uuid),
        metadata.format_version,
        metadata.schema.raw,
        metadata.spec.with_id(metadata.spec.spec_id).raw,
        metadata.sort_order.raw,
        metadata.location,
        metadata.properties,
    )


def _updates(
    uuid: str,
    format_version: int,
    schema: Mapping[str, Any],
    spec: Mapping[str, Any],
    order: Mapping[str, Any],
    location: str,
    properties: Mapping[str, str],
) -> list[dict[str, Any]]:
    return [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": format_version},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": dict(properties)},
    ]


def _fresh_spec(spec: PartitionSpec | None, schema: Schema, fresh: Schema) -> dict[str, Any]:
    if spec is None:
        return {"spec-id": 0, "fields": []}
    fields = [
        {**_remapped(raw, field.source_id, schema, fresh), "field-id": FIRST_PARTITION_FIELD_ID + at}
        for at, (raw, field) in enumerate(zip(spec.raw["fields"], spec.fields, strict=True))
    ]
    return {**spec.raw, "spec-id": 0, "fields": fields}


def _fresh_order(order: SortOrder | None, schema: Schema, fresh: Schema) -> dict[str, Any]:
    if order is None or order.is_unsorted:
        return {"order-id": 0, "fields": []}
    fields = [
        _remapped(raw, field.source_id, schema, fresh)
        for raw, field in zip(order.raw["fields"], order.fields, strict=True)
    ]
    return {**order.raw, "order-id": 1, "fields": fields}


def _remapped(raw: Mapping[str, Any], source_id: int, schema: Schema, fresh: Schema) -> dict[str, Any]:
    name = schema.name_of(source_id)
    column = None if name is None else fresh.find(name)
    if column is None:
        raise InvalidInput(f"Cannot find source column {source_id} of {dict(raw)} in the schema")
    return {**raw, "source-id": column.id}


def check_metrics_columns(properties: Mapping[str, str], schema: Schema) -> None:
    """Raises InvalidInput for properties of column metrics whose column the schema lacks (Java:
    MetricsConfig.validate)."""
    for key in properties:
        if key.startswith(METRICS_COLUMN_PREFIX) and schema.find(key.removeprefix(METRICS_COLUMN_PREFIX)) is None:
            raise InvalidInput(
                f"Invalid metrics config, could not find column {key.removeprefix(METRICS_COLUMN_PREFIX)} "
                f"from table prop {key} in schema"
            )
