"""Table properties that name columns, and follow them when they are renamed or deleted (Java: SchemaUpdate)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from iceberg_hms.changes.operations.schema_tree import Edits
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, evolved_mapping
from iceberg_hms.format.schema.schema import Schema

#: What stands before a column's name in these properties.
COLUMN_PREFIXES: Final = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.stats-enabled.column.",
)


def follow_columns(
    properties: Mapping[str, str], was: Schema, now: Schema, edits: Edits
) -> tuple[dict[str, str], list[str]]:
    """The properties that change, and the names of those that go, with `edits` of the schema `was`: `now` is the schema
    that results.

    The name mapping gets new columns and new names; one that cannot be read stays as it is, as in Java. Java lets the
    other properties follow only the column that was renamed or deleted; here they also follow what is nested in it.
    """
    changed: dict[str, str] = {}
    mapping = properties.get(NAME_MAPPING)
    if mapping is not None and (new := _followed(mapping, edits)) is not None:
        changed[NAME_MAPPING] = new
    removed = []
    for key, value in properties.items():
        prefix = next((each for each in COLUMN_PREFIXES if key.startswith(each)), None)
        field = None if prefix is None else was.find(key.removeprefix(prefix))
        if prefix is None or field is None:
            continue
        name = now.name_of(field.id)
        if name != was.name_of(field.id):
            removed.append(key)
            if name is not None:
                changed[prefix + name] = value
    return changed, [key for key in removed if key not in changed]


def _followed(mapping: str, edits: Edits) -> str | None:
    """The name mapping that results; None if that is the same one, or the mapping cannot be read."""
    try:
        entries: Any = orjson.loads(mapping)
        new = evolved_mapping(entries, edits.changed, edits.added_fields())
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError):
        return None
    return None if new == entries or not isinstance(entries, list) else orjson.dumps(new).decode()
