"""Tables with columns of all kinds, and operations on them, for the tests of evolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_hms.changes.change import Change
from iceberg_hms.changes.operations.schema.schema_draft import SchemaDraft
from iceberg_hms.changes.operations.schema.update_schema import UpdateSchema
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import walk_fields
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.tables import table

NOW = 5_000


def column(field_id: int, name: str, kind: Any = "long", *, required: bool = False, **more: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "required": required, "type": kind, **more}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def list_of(element_id: int, element: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": element_id, "element": element, "element-required": False}


def map_of(key_id: int, key: Any, value_id: int, value: Any) -> dict[str, Any]:
    return {
        "type": "map",
        "key-id": key_id,
        "key": key,
        "value-id": value_id,
        "value": value,
        "value-required": False,
    }


COLUMNS = [
    column(1, "id", "long", required=True),
    column(2, "level", "string"),
    column(3, "day", "date"),
    column(4, "price", "decimal(9, 2)"),
    column(5, "place", struct(column(6, "lat", "float"), column(7, "long", "float"))),
    column(8, "points", list_of(9, struct(column(10, "x", "int"), column(11, "y", "int")))),
    column(12, "scores", map_of(13, struct(column(14, "k", "int")), 15, struct(column(16, "v", "int")))),
    column(17, "tags", list_of(18, "int")),
    column(19, "a.b", "int"),
]


def wide_table(
    version: int = 2, *, columns: list[dict[str, Any]] | None = None, identifiers: tuple[int, ...] = (), **changes: Any
) -> TableMetadata:
    """A table of COLUMNS, or of others. changes: raw fields, with underscores for dashes."""
    raw: dict[str, Any] = {"type": "struct", "schema-id": 0, "fields": COLUMNS if columns is None else columns}
    if identifiers:
        raw["identifier-field-ids"] = list(identifiers)
    fields: dict[str, Any] = {"schemas": [raw], "last_column_id": Schema.parse(raw).highest_field_id}
    if version == 1:
        fields["schema"] = raw
    return table(version, **fields, **changes)


def evolve(base: TableMetadata, *steps: Callable[[SchemaDraft], None], **options: Any) -> TableMetadata:
    """The table after an update of its schema."""
    return committed(base, UpdateSchema(base, steps, **options))


def committed(base: TableMetadata, change: Change) -> TableMetadata:
    """The table after a change, as a coordinator makes it."""
    change.check(base)
    return apply(base, change.stage(base, MemoryManifestStore().open()).updates, now_ms=NOW)


def names(schema: Schema) -> dict[str, int]:
    """Full name -> field id, in the order of the schema."""
    return {str(schema.name_of(field.id)): field.id for field in walk_fields(schema.as_struct())}


def top(schema: Schema) -> list[str]:
    """The columns' names."""
    return [field.name for field in schema.fields]
