"""Parquet files and the tables that they go into, for the tests of footers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.catalog.schemas import to_order, to_schema, to_spec
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import new_table_metadata

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def table_for(
    schema: Any,
    spec: Any = None,
    order: Any = None,
    *,
    version: int = 2,
    properties: dict[str, str] | None = None,
) -> TableMetadata:
    """An empty table of a schema (pyarrow's, or the spec's JSON)."""
    ours = to_schema(schema)
    return new_table_metadata(
        ours,
        to_spec(spec, ours),
        to_order(order, ours),
        "file:/warehouse/t",
        properties or {},
        format_version=version,
        uuid=UUID,
        now_ms=1_000,
    )


def table_of(columns: dict[str, str], *, version: int = 3) -> TableMetadata:
    """An empty table of optional columns with these types, in the spec's words."""
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(columns.items(), 1)
    ]
    return table_for({"type": "struct", "schema-id": 0, "fields": fields}, version=version)


def with_ids(arrow: pa.Schema, metadata: TableMetadata) -> pa.Schema:
    """The same pyarrow schema with the field ids of the table's columns, at the top level and inside of structs, lists
    and maps."""
    return pa.schema([_field_with_id(field, field.name, metadata) for field in arrow])


def _field_with_id(field: pa.Field, path: str, metadata: TableMetadata) -> pa.Field:
    found = metadata.schema.find(path)
    arrow = field.type
    if pa.types.is_struct(arrow):
        arrow = pa.struct([_field_with_id(child, f"{path}.{child.name}", metadata) for child in arrow])
    elif pa.types.is_list(arrow):
        arrow = pa.list_(_field_with_id(arrow.value_field, f"{path}.element", metadata))
    elif pa.types.is_map(arrow):
        arrow = pa.map_(
            _field_with_id(arrow.key_field, f"{path}.key", metadata),
            _field_with_id(arrow.item_field, f"{path}.value", metadata),
        )
    extra = {} if found is None else {b"PARQUET:field_id": str(found.id).encode()}
    return pa.field(field.name, arrow, nullable=field.nullable, metadata={**(field.metadata or {}), **extra})


def write(path: Path, table: pa.Table, **options: Any) -> str:
    """Write a file, with its folders; returns its location."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return str(path)


def open_input(location: str) -> pa.NativeFile:
    return pa.OSFile(location, "rb")
