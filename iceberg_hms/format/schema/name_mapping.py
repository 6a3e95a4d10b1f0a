"""Name mappings: how readers find the columns of files without field ids (spec: Column Projection)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import orjson

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import shown
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import NestedField

#: Table property: the name mapping, as JSON.
NAME_MAPPING: Final = "schema.name-mapping.default"


def name_mapping(schema: Schema) -> list[dict[str, Any]]:
    """The name mapping with which readers read files without field ids as this schema: every field by its current name
    (spec: Appendix C, Name Mapping Serialization)."""
    return _mapped(schema.fields)


def mapping_text(schema: Schema, names: Mapping[int, Sequence[str]] | None = None) -> str:
    """`name_mapping`, as the table property has it. names: further names of fields, by field id."""
    return orjson.dumps(with_names(name_mapping(schema), names or {})).decode()


def parse_mapping(text: str) -> list[dict[str, Any]]:
    """The name mapping in a table's property. Raises InvalidInput for a text that is none."""
    try:
        mapping = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _unreadable(f"is not JSON: {error}") from error
    _check_entries(mapping)
    return cast("list[dict[str, Any]]", mapping)


def _check_entries(mapping: object) -> None:
    if not isinstance(mapping, list) or not all(isinstance(item, dict) for item in mapping):
        raise _unreadable("must be a list of objects")
    for item in mapping:
        if not isinstance(item.get("names", []), list):
            raise _unreadable(f": names must be a list, found {shown(item['names'])}")
        if item.get("fields") is not None:
            _check_entries(item["fields"])


def _unreadable(why: str) -> InvalidInput:
    step = "set the property to the name mapping of the table's columns, or remove it if all files have field ids"
    return InvalidInput(f"Table property {NAME_MAPPING} {why}", next_step=step)


def with_names(mapping: Sequence[Mapping[str, Any]], names: Mapping[int, Sequence[str]]) -> list[dict[str, Any]]:
    """A name mapping in which fields have further names. names: by field id."""
    entries = []
    for each in mapping:
        entry = {**each, "names": [*each["names"], *names.get(each.get("field-id", 0), ())]}
        if nested := each.get("fields"):
            entry["fields"] = with_names(nested, names)
        entries.append(entry)
    return entries


def evolved_mapping(
    mapping: Sequence[Any],
    changed: Mapping[int, NestedField],
    added: Mapping[int | None, Sequence[NestedField]],
) -> list[dict[str, Any]]:
    """A name mapping after its schema evolved (Java: MappingUtil.update). A renamed column keeps its old names, so that
    old files are still read; a name that another column takes over is taken from the column that had it.

    mapping: the parsed JSON. changed: fields by id, as they are now. added: new fields by the id of the field that
    contains them, None for columns. Raises TypeError, KeyError or AttributeError for a mapping of another form.
    """
    return _evolved(mapping, None, changed, added)


def _evolved(
    mapping: Sequence[Any],
    parent: int | None,
    changed: Mapping[int, NestedField],
    added: Mapping[int | None, Sequence[NestedField]],
) -> list[dict[str, Any]]:
    new = added.get(parent, ())
    owners = {changed[each["field-id"]].name: each["field-id"] for each in mapping if each.get("field-id") in changed}
    owners |= {field.name: field.id for field in new}
    entries = []
    for each in mapping:
        field_id = each.get("field-id")
        names = [name for name in each["names"] if owners.get(name, field_id) == field_id]
        if field_id in changed and owners.get(changed[field_id].name) == field_id:
            names += [changed[field_id].name] if changed[field_id].name not in names else []
        entry = {**each, "names": names}
        nested = each.get("fields") or []
        if field_id is not None and (inner := _evolved(nested, field_id, changed, added)):
            entry["fields"] = inner
        entries.append(entry)
    return [*entries, *_mapped(new)]


def _mapped(fields: Iterable[NestedField]) -> list[dict[str, Any]]:
    mapped = []
    for field in fields:
        entry: dict[str, Any] = {"field-id": field.id, "names": [field.name]}
        if nested := _mapped(types.nested_fields(field.type)):
            entry["fields"] = nested
        mapped.append(entry)
    return mapped
