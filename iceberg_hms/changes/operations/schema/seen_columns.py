"""Columns that a caller named, and the assumption that they are still what the caller saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from iceberg_hms.changes.evolution import is_promotion_allowed
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import ListType, MapType, NestedField, StructType, nested_fields, walk_fields

#: `RequirementFailed.name` of the assumption that a column is still the one that the caller saw.
SEEN_COLUMN: Final = "seen-column"

#: A column as callers name it: dotted text ("location.lat"), or the names on its path (("location", "lat")), which also
#: finds names that contain dots.
Path: TypeAlias = str | Sequence[str]


def shown_path(path: Path) -> str:
    """A path as text."""
    return path if isinstance(path, str) else ".".join(path)


def find_column(schema: Schema, path: Path, *, case_sensitive: bool = True) -> NestedField | None:
    """The column with a path, or None. As in Java, "points.x" also finds "points.element.x".
    Raises InvalidInput for a path that is no text or texts, and for a name that two columns have but for their case."""
    if isinstance(path, str):
        return schema.find(path) if case_sensitive else schema.find_ignoring_case(path)
    if not path or not all(isinstance(name, str) for name in path):
        raise InvalidInput(f"A column is named by text, or by the names on its path, found {path!r}")
    siblings: Sequence[NestedField] = schema.fields
    found = None
    for name in path:
        found = _named(siblings, name, case_sensitive)
        if found is None:
            return None
        siblings = [*nested_fields(found.type), *_inside(found)]
    return found


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """A column that an operation uses.

    path: as the caller named it. field: as it was then. whole: whether the operation concerns all that is nested in it.
    any_type: whether the operation is as right for another type of the column. last_id: a field with a higher id was
    added by an earlier step of the same transaction: on a table that moved it has the name and another id.
    """

    path: Path
    field: NestedField
    whole: bool = False
    any_type: bool = False
    last_id: int | None = None

    def check(self, schema: Schema, *, case_sensitive: bool = True) -> None:
        """Raises RequirementFailed if the name belongs to no column or to another one, or if the column's type changed.
        Of a nested type only the kind counts, and the ids of elements, keys and values, unless `whole`."""
        name, was = shown_path(self.path), self.field
        named = find_column(schema, self.path, case_sensitive=case_sensitive)
        if self.last_id is not None and was.id > self.last_id:
            if named is None:
                self._refuse(f"column {name} was dropped", None)
            return
        now = schema.field(was.id)
        if now is None:
            again = "" if named is None else f", and another column has the name now (field id {named.id})"
            self._refuse(f"column {name} was dropped{again}", None)
        elif named is None or named.id != was.id:
            self._refuse(f"column {name} was renamed to {schema.name_of(was.id)}", schema.name_of(was.id))
        elif not self.any_type and not _same_kind(was, now):
            self._refuse(f"column {name} was {was.type} and is {now.type} now", str(now.type))
        elif self.whole and (new := _ids_inside(now) - _ids_inside(was)):
            inside = sorted(str(schema.name_of(field_id)) for field_id in new)
            self._refuse(f"column {name} has new fields: {', '.join(inside)}", inside)

    def _refuse(self, what: str, found: object) -> None:
        expected = f"{shown_path(self.path)} with field id {self.field.id} and type {self.field.type}"
        raise RequirementFailed(SEEN_COLUMN, f"since the caller looked, {what}", expected=expected, found=found)


def _named(fields: Sequence[NestedField], name: str, case_sensitive: bool) -> NestedField | None:
    exact = next((field for field in fields if field.name == name), None)
    if exact is not None or case_sensitive:
        return exact
    alike = [field for field in fields if field.name.lower() == name.lower()]
    if len(alike) > 1:
        raise InvalidInput(f"Column name {name} is ambiguous: {', '.join(field.name for field in alike)}")
    return alike[0] if alike else None


def _inside(field: NestedField) -> Sequence[NestedField]:
    """The fields of a list's element or a map's value, whose names may follow the list's or map's own."""
    match field.type:
        case ListType(element=StructType() as inner) | MapType(value=StructType() as inner):
            return inner.fields
        case _:
            return ()


def _same_kind(was: NestedField, now: NestedField) -> bool:
    """Whether the types are equal, those of nested fields aside."""
    return is_promotion_allowed(was.type, now.type) and is_promotion_allowed(now.type, was.type)


def _ids_inside(field: NestedField) -> set[int]:
    return {inner.id for inner in walk_fields(field.type)}
