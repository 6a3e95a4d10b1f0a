"""Table schemas: parsing, looking up fields by id and name, validation, fresh ids (spec: Schemas and Data Types)."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.cached_property import cached_property
from iceberg_hms.format.schema.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    nested_fields,
    parse_type,
    walk_fields,
)

#: How long the full names of a schema's fields may be together, in characters: a deeply nested field repeats the names
#: of all that contain it.
MAX_NAMES_TEXT: Final = 16 * 1024 * 1024
#: How many problems an error names.
_MAX_PROBLEMS: Final = 10


class Schema:
    """One schema of a table: an immutable view of its JSON form.

    raw: the JSON object, including unknown fields; never change it.
    """

    def __init__(self, raw: Mapping[str, Any], struct: StructType) -> None:
        self.raw = raw
        self._struct = struct

    @classmethod
    def parse(cls, raw: Any) -> Schema:
        """The schema of a JSON object. Raises InvalidInput that names the field.

        `validate` checks more, for new schemas only: a table's existing schema need not pass it.
        """
        raw = read.require_object(raw, "schema")
        read.optional_int(raw, "schema-id", "schema")
        if raw.get("identifier-field-ids") is not None:
            read.require_int_list(raw, "identifier-field-ids", "schema")
        struct = parse_type({**raw, "type": "struct"})
        if not isinstance(struct, StructType):
            raise InvalidInput("schema: it is not a struct")
        return cls(raw, struct)

    @classmethod
    def of(
        cls, fields: Iterable[NestedField], *, schema_id: int = 0, identifier_field_ids: Iterable[int] = ()
    ) -> Schema:
        """A schema of fields with ids. Raises InvalidInput as `validate` does."""
        struct = StructType(tuple(fields))
        raw: dict[str, Any] = {**struct.to_json(), "schema-id": schema_id}
        if identifiers := list(identifier_field_ids):
            raw["identifier-field-ids"] = identifiers
        schema = cls(raw, struct)
        schema.validate()
        return schema

    @property
    def schema_id(self) -> int:
        """0 if the JSON has none, as in old v1 files."""
        return self.raw.get("schema-id") or 0

    @property
    def fields(self) -> tuple[NestedField, ...]:
        """The columns."""
        return self._struct.fields

    @property
    def identifier_field_ids(self) -> frozenset[int]:
        return frozenset(self.raw.get("identifier-field-ids") or ())

    def as_struct(self) -> StructType:
        return self._struct

    def field(self, field_id: int) -> NestedField | None:
        """The field with an id, at any depth, or None."""
        return self._by_id.get(field_id)

    def find(self, name: str) -> NestedField | None:
        """The field with a dotted name ("location.lat", "tags.element", "scores.value"), case as written, or None.

        As in Java, "points.x" finds "points.element.x" when no other field has that name.
        """
        field_id = self._id_by_name.get(name)
        return None if field_id is None else self._by_id[field_id]

    def find_ignoring_case(self, name: str) -> NestedField | None:
        """As `find`, whatever the case of the name; a name as written wins. Raises InvalidInput if several fields have
        such a name."""
        exact = self.find(name)
        if exact is not None:
            return exact
        ids = self._ids_by_lower_name.get(name.lower(), ())
        if len(ids) > 1:
            alike = sorted(str(self.name_of(field_id)) for field_id in ids)
            raise InvalidInput(f"Column name {name} is ambiguous: {', '.join(alike)}")
        return self._by_id[next(iter(ids))] if ids else None

    def name_of(self, field_id: int) -> str | None:
        """The full dotted name of a field, or None."""
        return self._name_by_id.get(field_id)

    def names(self) -> Iterable[str]:
        """The full dotted names of all fields."""
        return self._name_by_id.values()

    def parent_of(self, field_id: int) -> NestedField | None:
        """The field that directly contains a field; None for a column or an unknown id."""
        return self._parent_by_id.get(field_id)

    def ancestors_of(self, field_id: int) -> Iterator[NestedField]:
        """The fields that contain a field, from the inside out."""
        while (parent := self.parent_of(field_id)) is not None:
            yield parent
            field_id = parent.id

    @property
    def highest_field_id(self) -> int:
        """The largest field id at any depth; 0 for a schema without fields."""
        return max(self._by_id, default=0)

    def same_as(self, other: Schema) -> bool:
        """True if fields and identifier fields are equal, whatever the schema ids."""
        return self._struct == other._struct and self.identifier_field_ids == other.identifier_field_ids

    @cached_property
    def content(self) -> str:
        """A text that two schemas share if `same_as` is true of them."""
        said = repr((self._struct, sorted(self.identifier_field_ids)))
        return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()

    def with_id(self, schema_id: int) -> Schema:
        return Schema({**self.raw, "schema-id": schema_id}, self._struct)

    def validate(self, format_version: int | None = None) -> None:
        """Raises InvalidInput if this is not valid as a new schema.

        Ids and names must be unique, identifier fields must be allowed as such (spec: Identifier Field IDs) and, if
        `format_version` is given, that version must support the types and defaults (spec: Primitive Types, Default
        values). A table's existing schemas are not validated.
        """
        _check_unique_ids(self._struct)
        _check_unique_names(self._struct)
        for field_id in sorted(self.identifier_field_ids):
            self._check_identifier(field_id)
        if format_version is not None:
            _check_format_version(self, format_version)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.schema_id == other.schema_id and self.same_as(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Schema({self.schema_id}: {self._struct})"

    @cached_property
    def _by_id(self) -> dict[int, NestedField]:
        return {field.id: field for field in walk_fields(self._struct)}

    @cached_property
    def _name_by_id(self) -> dict[int, str]:
        return _full_names(self._struct)

    @cached_property
    def _id_by_name(self) -> dict[str, int]:
        by_short_name = {name: field_id for field_id, name in _full_names(self._struct, short=True).items()}
        return by_short_name | {name: field_id for field_id, name in self._name_by_id.items()}

    @cached_property
    def _ids_by_lower_name(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for name, field_id in self._id_by_name.items():
            found.setdefault(name.lower(), set()).add(field_id)
        return found

    @cached_property
    def _parent_by_id(self) -> dict[int, NestedField]:
        return {child.id: field for field in walk_fields(self._struct) for child in nested_fields(field.type)}

    def _check_identifier(self, field_id: int) -> None:
        field = self.field(field_id)
        if field is None:
            raise InvalidInput(f"Cannot add field {field_id} as an identifier field: it does not exist in the schema")
        why = f"Cannot add field {field.name} as an identifier field"
        if not isinstance(field.type, PrimitiveType) or not field.required:
            raise InvalidInput(f"{why}: it must be a required field of a primitive type")
        if field.type.kind in ("float", "double"):
            raise InvalidInput(f"{why}: it must not be a float or double")
        for parent in self.ancestors_of(field_id):
            if not isinstance(parent.type, StructType) or not parent.required:
                raise InvalidInput(f"{why}: it may be nested in required structs only, not in {parent.name}")


def assign_fresh_ids(schema: Schema, start: int = 1) -> Schema:
    """The same columns with new field ids from `start` on, and schema id 0.

    The order is Java's (TypeUtil.assignFreshIds): all fields of a struct first, then the fields inside each. Identifier
    fields get the new ids of their columns.
    """
    counter = itertools.count(start)
    renumbered: dict[int, int] = {}

    def next_id(old: int) -> int:
        renumbered[old] = next(counter)
        return renumbered[old]

    _check_unique_ids(schema.as_struct())
    fields = _renumber_fields(schema.raw["fields"], next_id)
    raw: dict[str, Any] = {**schema.raw, "type": "struct", "schema-id": 0, "fields": fields}
    if schema.identifier_field_ids:
        raw["identifier-field-ids"] = [renumbered.get(old, old) for old in schema.raw["identifier-field-ids"]]
    return Schema.parse(raw)


def _renumber_fields(fields: list[Any], next_id: Callable[[int], int]) -> list[Any]:
    ids = [next_id(field["id"]) for field in fields]
    return [
        {**field, "id": new, "type": _renumber_type(field["type"], next_id)}
        for field, new in zip(fields, ids, strict=True)
    ]


def _renumber_type(raw: Any, next_id: Callable[[int], int]) -> Any:
    if isinstance(raw, str):
        return raw
    match raw["type"]:
        case "struct":
            return {**raw, "fields": _renumber_fields(raw["fields"], next_id)}
        case "list":
            element_id = next_id(raw["element-id"])
            return {**raw, "element-id": element_id, "element": _renumber_type(raw["element"], next_id)}
        case _:
            key_id, value_id = next_id(raw["key-id"]), next_id(raw["value-id"])
            return {
                **raw,
                "key-id": key_id,
                "key": _renumber_type(raw["key"], next_id),
                "value-id": value_id,
                "value": _renumber_type(raw["value"], next_id),
            }


def _full_names(struct: StructType, *, short: bool = False) -> dict[int, str]:
    """Field id -> full name. Raises InvalidInput if the names are longer than MAX_NAMES_TEXT together."""
    names: dict[int, str] = {}
    length = 0

    def index(type_: Type, prefix: str) -> None:
        nonlocal length
        for field in nested_fields(type_):
            name = prefix + field.name
            length += len(name)
            if length > MAX_NAMES_TEXT:
                raise InvalidInput(f"the full names of a schema's fields have more than {MAX_NAMES_TEXT} characters")
            names[field.id] = name
            # Java's short names omit "element" and "value" before the fields of a struct: points.x for
            # points.element.x.
            left_out = (
                short
                and isinstance(field.type, StructType)
                and (isinstance(type_, ListType) or (isinstance(type_, MapType) and field.id == type_.value_id))
            )
            index(field.type, prefix if left_out else name + ".")

    index(struct, "")
    return names


def _check_unique_ids(struct: StructType) -> None:
    seen: dict[int, str] = {}
    for field in walk_fields(struct):
        if field.id in seen:
            raise InvalidInput(f"Invalid schema: fields {seen[field.id]} and {field.name} have the same id {field.id}")
        seen[field.id] = field.name


def _check_unique_names(struct: StructType) -> None:
    """Full names are unique: a struct `a` with a field `b` excludes a column called `a.b`. Java and PyIceberg cannot
    load a table with both (IndexByName, pyiceberg.schema.index_by_name)."""
    seen: set[str] = set()
    for name in _full_names(struct).values():
        if name in seen:
            raise InvalidInput(f"Invalid schema: multiple fields for name {name}")
        seen.add(name)


def _check_format_version(schema: Schema, format_version: int) -> None:
    problems = []
    for field in walk_fields(schema.as_struct()):
        name, type_ = schema.name_of(field.id), field.type
        if isinstance(type_, PrimitiveType):
            if type_.min_format_version > format_version:
                problems.append(f"Invalid type for {name}: {type_} is not supported until v{type_.min_format_version}")
            if type_.kind == "unknown" and field.required:
                problems.append(f"Invalid type for {name}: a field of type unknown must be optional")
        if format_version < 3 and field.initial_default is not None:
            problems.append(f"Invalid initial default for {name}: defaults are not supported until v3")
        if len(problems) >= _MAX_PROBLEMS:
            break
    if problems:
        raise InvalidInput(f"Invalid schema for v{format_version}: {'; '.join(problems)}")
