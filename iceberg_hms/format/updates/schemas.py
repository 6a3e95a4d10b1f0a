"""Updates of schemas, as Java's TableMetadata.Builder makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.draft import MetadataDraft


def add_schema(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`add-schema`: if the table has an equal schema, that one is used. `last-column-id` never falls; the request's
    `last-column-id` is ignored, as in Java since 1.8."""
    schema = Schema.parse(update.get("schema"))
    schema.validate(draft.format_version)
    same = next((known for known in draft.schemas if known.same_as(schema)), None)
    if same is None:
        schema_id = max((known.schema_id + 1 for known in draft.schemas), default=0)
        draft.mutable_list("schemas").append({"type": "struct", **schema.with_id(schema_id).raw})
        draft.changed = True
    else:
        schema_id = same.schema_id
    draft.put("last-column-id", max(draft.raw["last-column-id"], schema.highest_field_id))
    draft.record_added("schemas", schema_id, schema.raw.get("schema-id"))


def set_current_schema(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`set-current-schema`: -1 is the schema that this request added last."""
    schema_id = draft.resolve_id("schemas", update["schema-id"], "schema")
    if schema_id not in {schema.schema_id for schema in draft.schemas}:
        raise InvalidInput(f"Cannot set current schema to unknown schema: {schema_id}")
    draft.put("current-schema-id", schema_id)


def remove_schemas(draft: MetadataDraft, update: Mapping[str, Any]) -> None:
    """`remove-schemas`: ignores unknown ids, refuses the current schema."""
    removed = set(update["schema-ids"])
    if draft.raw["current-schema-id"] in removed:
        raise InvalidInput("Cannot remove the current schema")
    kept = [schema.raw for schema in draft.schemas if schema.schema_id not in removed]
    if len(kept) < len(draft.schemas):
        draft.replace_list("schemas", kept)
