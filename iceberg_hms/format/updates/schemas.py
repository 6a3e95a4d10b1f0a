"""Updates of schemas, as Java's TableMetadata.Builder makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.draft import MetadataDraft
from iceberg_hms.format.updates.id_list import IdList

_SCHEMAS = IdList(
    key="schemas",
    chosen_key="current-schema-id",
    entry="schema",
    chosen="current schema",
)


def add_schema(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`add-schema`: if the table has an equal schema, that one is used. `last-column-id` never falls; the request's
    `last-column-id` is ignored, as in Java since 1.8."""
    schema = Schema.parse(update.get("schema"))
    schema.validate(draft.format_version)
    same = draft.schemas.same_as(schema)
    if same is None:
        schema_id = draft.schemas.next_id(0)
        draft.schemas.add(Schema({"type": "struct", **schema.with_id(schema_id).raw}, schema.as_struct()))
        draft.changed = True
    else:
        schema_id = same.schema_id
    draft.put("last-column-id", max(draft.raw["last-column-id"], schema.highest_field_id))
    draft.record_added("schemas", schema_id, schema.raw.get("schema-id"))


def set_current_schema(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`set-current-schema`: -1 is the schema that this request added last."""
    _SCHEMAS.choose(draft, update["schema-id"])


def remove_schemas(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`remove-schemas`: ignores unknown ids, refuses the current schema."""
    _SCHEMAS.remove(draft, update["schema-ids"])
