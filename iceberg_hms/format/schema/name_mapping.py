"""Name mappings: how readers find the columns of files without field ids (spec: Column Projection)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import NestedField

#: Table property: the name mapping, as JSON.
NAME_MAPPING: Final = "schema.name-mapping.default"


def name_mapping(schema: Schema) -> list[dict[str, Any]]:
    """The name mapping with which readers read files without field ids as this schema: every field by its current name
    (spec: Appendix C, Name Mapping Serialization)."""
    return _mapped(schema.fields)


def _mapped(fields: Iterable[NestedField]) -> list[dict[str, Any]]:
    mapped = []
    for field in fields:
        entry: dict[str, Any] = {"field-id": field.id, "names": [field.name]}
        if nested := _mapped(types.nested_fields(field.type)):
            entry["fields"] = nested
        mapped.append(entry)
    return mapped
