"""The steps that make a table's schema the union with another one, by name (Java: UnionByNameVisitor)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iceberg_hms.changes.evolution import is_promotion_allowed
from iceberg_hms.changes.operations.schema.schema_draft import KEEP, SchemaDraft
from iceberg_hms.changes.operations.schema.seen_columns import find_column
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import ListType, MapType, NestedField, PrimitiveType, StructType, Type


def union_by_name(draft: SchemaDraft, other: Schema) -> None:
    """Add the columns of `other` that the table lacks, at any depth, as optional ones; promote the types of those that
    it has, make them optional, and take over docs and write defaults.

    A column that is narrower in `other` stays as it is. The ids of `other` do not count. Raises InvalidInput for a
    column whose types do not go together.
    """
    _unite_fields(draft, (), other.fields)


def _unite_fields(draft: SchemaDraft, above: tuple[str, ...], fields: Sequence[NestedField]) -> None:
    """The fields of a struct; first what is nested in them: columns get their ids in the order in which Java and
    PyIceberg add them."""
    paths = [(*above, field.name) for field in fields]
    found = [find_column(draft.schema, path, case_sensitive=draft.case_sensitive) for path in paths]
    for path, existing, field in zip(paths, found, fields, strict=True):
        if existing is not None:
            _unite_nested(draft, path, existing.type, field.type)
    for path, existing, field in zip(paths, found, fields, strict=True):
        if existing is not None:
            _update(draft, path, existing, field)
            continue
        draft.add_column(path, field.type, doc=field.doc, default=field.initial_default)
        if field.write_default != field.initial_default:
            draft.update_column(path, default=field.write_default)


def _unite_nested(draft: SchemaDraft, path: tuple[str, ...], existing: Type, new: Type) -> None:
    """What is in a column; nothing if both have no such parts."""
    match existing, new:
        case StructType(), StructType():
            _unite_fields(draft, path, new.fields)
        case (ListType(), ListType()) | (MapType(), MapType()):
            # An element, key and value, which every list or map has.
            for part, old in zip(types.nested_fields(new), types.nested_fields(existing), strict=True):
                inner = (*path, part.name)
                _unite_nested(draft, inner, old.type, part.type)
                _update(draft, inner, old, part)


def _update(draft: SchemaDraft, path: tuple[str, ...], existing: NestedField, new: NestedField) -> None:
    draft.see(path, existing)
    changes: dict[str, Any] = {}
    if existing.required and not new.required:
        changes["required"] = False
    if not _covers(draft, existing.type, new.type):
        if not isinstance(new.type, PrimitiveType) and existing.type != types.UNKNOWN:
            name = ".".join(path)
            raise InvalidInput(f"Cannot change column type: {name}: {existing.type} -> {new.type}")
        changes["type_"] = new.type
    if new.doc is not None and new.doc != existing.doc:
        changes["doc"] = new.doc
    if new.write_default is not None and new.write_default != existing.write_default:
        changes["default"] = new.write_default
    if changes:
        draft.update_column(path, changes.pop("type_", KEEP), **changes)


def _covers(draft: SchemaDraft, existing: Type, new: Type) -> bool:
    """Whether a column keeps its type: it has the other one, a wider one, or one of the same nested kind."""
    if isinstance(existing, PrimitiveType):
        since_v3 = isinstance(new, PrimitiveType) and new.kind == "date" and existing != new
        return is_promotion_allowed(new, existing) and not (since_v3 and draft.base.format_version < 3)
    return type(existing) is type(new) or new == types.UNKNOWN
