"""Whether data files that were written with one schema of a table can be read with another one, and to which types a
column may be promoted.

Readers find a column by its field id (spec: Column Projection), so the question is whether each id keeps its meaning.
Schema evolution keeps it (spec: Schema Evolution). CREATE OR REPLACE does not: it gives a new column the id of the old
column of that name, whatever their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    nested_fields,
    walk_fields,
)

_PROMOTIONS = frozenset(
    {
        (types.INT, types.LONG),
        (types.FLOAT, types.DOUBLE),
        (types.DATE, types.TIMESTAMP),
        (types.DATE, types.TIMESTAMP_NS),
    }
)
#: Promotions from these types exist since format version 3.
_SINCE_V3: Final = ("date", "unknown")
#: Transforms whose values of a date and of its midnight are equal.
_SAME_OF_MIDNIGHT: Final = frozenset({"year", "month", "day", "void"})


def incompatible_columns(written: Schema, current: Schema) -> list[str]:
    """Why readers cannot read files of schema `written` with schema `current`, one sentence a column; empty if they
    can.

    A column may be new if it is optional or has a default; renamed; moved among its siblings; widened (spec: Schema
    Evolution, type promotion); or dropped, since readers skip dropped columns.
    """
    found = []
    for field in walk_fields(current.as_struct()):
        was = written.field(field.id)
        why = _new(field, written, current) if was is None else _changed(was, field, written, current)
        if why is not None:
            found.append(f"column {current.name_of(field.id)} {why}")
    return found


def remapped_names(before: str, now: str) -> list[str]:
    """Names that the name mapping `before` (JSON) maps to one column and `now` to another one, or to none.

    Files without field ids are read by name, and a new column may have a dropped column's name (spec: Column
    Projection). A mapping that cannot be parsed counts as empty.
    """
    if before == now:
        return []
    was = _ids(before)
    ids = _ids(now) if was else {}
    return [".".join(path) for path, field_id in was.items() if ids.get(path) != field_id]


def conflicting_names(mapping: str, schema: Schema) -> list[str]:
    """Names that belong to one column in a name mapping (JSON) and to another column in a schema."""
    found = ((".".join(path), field_id) for path, field_id in _ids(mapping).items())
    return [name for name, field_id in found if (field := schema.find(name)) is not None and field.id != field_id]


def add_schema_names(mapping: str, schema: Schema) -> str:
    """A name mapping (JSON) extended by the columns of a schema, under names that no other column has in it, so that
    files of that schema can be read by it too. Unchanged if it cannot be parsed."""
    try:
        entries = orjson.loads(mapping)
    except orjson.JSONDecodeError:
        return mapping
    _add_names(entries, schema.fields)
    return orjson.dumps(entries).decode()


def _add_names(entries: list[Any], fields: Iterable[NestedField]) -> None:
    taken = {name for entry in entries for name in entry.setdefault("names", [])}
    known = {entry.get("field-id"): entry for entry in entries}
    for field in fields:
        entry = known.get(field.id)
        if entry is None:
            entry = {"field-id": field.id, "names": []}
            entries.append(entry)
        if field.name not in taken:
            entry["names"].append(field.name)
        if nested := nested_fields(field.type):
            entry["fields"] = entry.get("fields") or []
            _add_names(entry["fields"], nested)


def _new(field: NestedField, written: Schema, current: Schema) -> str | None:
    if not field.required or field.initial_default is not None:
        return None
    parent = current.parent_of(field.id)
    if parent is not None and written.field(parent.id) is None:
        # The files lack the parent too, so its own check decides.
        return None
    return "is new and required, and has no default"


def _changed(was: NestedField, field: NestedField, written: Schema, current: Schema) -> str | None:
    if not is_promotion_allowed(was.type, field.type):
        return f"was {_shown(was.type)} and is {_shown(field.type)} now"
    if _parent_id(written, was) != _parent_id(current, field):
        return f"was {written.name_of(was.id)}, which is in another place"
    if field.required and not was.required:
        return "was optional and is required now"
    return None


def is_promotion_allowed(old: Type, new: Type) -> bool:
    """Whether a column of type `old` may be read as type `new` (Java: TypeUtil.isPromotionAllowed). For nested types
    only the kind and the ids of elements, keys and values count: the fields inside have ids, and checks, of their own.
    """
    if isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType):
        if old == new or old == types.UNKNOWN or (old, new) in _PROMOTIONS:
            return True
        if old.kind == new.kind == "decimal":
            return old.scale == new.scale and old.precision <= new.precision
        return False
    match old, new:
        case StructType(), StructType():
            return True
        case ListType(), ListType():
            return old.element_id == new.element_id
        case MapType(), MapType():
            return (old.key_id, old.value_id) == (new.key_id, new.value_id)
        case _:
            return old == types.UNKNOWN


def check_promotion(base: TableMetadata, name: str, field: NestedField, new: Type) -> None:
    """Raises InvalidInput unless the column `field` may become `new`: the specification has the promotion, the table's
    format version too, and each partition field of the column keeps its values.

    Java has no promotion of the types date and unknown yet (TypeUtil.isPromotionAllowed); the specification has.
    """
    old = field.type
    if old == new:
        return
    what = f"Cannot change column type: {name}: {old} -> {new}"
    if not is_promotion_allowed(old, new) or (
        not isinstance(old, PrimitiveType) and not isinstance(new, PrimitiveType)
    ):
        raise InvalidInput(what, next_step=_advice(old, new))
    if isinstance(old, PrimitiveType) and old.kind in _SINCE_V3 and base.format_version < 3:
        raise InvalidInput(
            f"{what}: this promotion needs format version 3, the table has {base.format_version}",
            next_step="upgrade the table with upgrade_table_version(3)",
        )
    if old != types.DATE:
        return
    for spec in base.specs:
        for each in spec.fields:
            if field.id in (each.source_id, *each.more_source_ids) and str(each.transform) not in _SAME_OF_MIDNIGHT:
                raise InvalidInput(
                    f"{what}: the values of partition field {each.name} ({each.transform}) of spec {spec.spec_id} "
                    "would change",
                    next_step="add a column of the new type instead",
                )


def promoted_default(old: Type, new: Type, default: Any) -> Any:
    """The JSON form of a default value once its column is promoted."""
    if default is not None and old == types.DATE and new != types.DATE:
        return f"{default}T00:00:00"
    return default


def _advice(old: Type, new: Type) -> str:
    if isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType):
        return "int may become long, float double, a decimal one of more digits and equal scale; add a column otherwise"
    return "add, delete or update the fields inside of the column by their own paths"


def _ids(mapping: str) -> dict[tuple[str, ...], int]:
    try:
        return dict(_walk(orjson.loads(mapping), ()))
    except orjson.JSONDecodeError:
        return {}


def _walk(mapping: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for entry in mapping if isinstance(mapping, list) else ():
        if not isinstance(entry, dict):
            continue
        for name in entry.get("names") or ():
            here = (*path, str(name))
            if entry.get("field-id") is not None:
                yield here, entry["field-id"]
            yield from _walk(entry.get("fields"), here)


def _parent_id(schema: Schema, field: NestedField) -> int | None:
    parent = schema.parent_of(field.id)
    return None if parent is None else parent.id


def _shown(type_: Type) -> str:
    match type_:
        case PrimitiveType():
            return str(type_)
        case StructType():
            return "a struct"
        case ListType():
            return f"a list with element id {type_.element_id}"
        case MapType():
            return f"a map with key id {type_.key_id} and value id {type_.value_id}"
