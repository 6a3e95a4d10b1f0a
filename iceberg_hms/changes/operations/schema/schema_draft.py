"""A table's schema while the steps of one update change it, by the rules of Java's SchemaUpdate.

A step names columns as they are called before the first step, or columns that an earlier step added. So two columns can
exchange their names, and the order of steps matters for moves alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from iceberg_hms.changes.evolution import check_promotion, promoted_default
from iceberg_hms.changes.operations.schema.schema_tree import Edits, Move
from iceberg_hms.changes.operations.schema.seen_columns import Path, SeenColumn, find_column, shown_path
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.json_values import default_json
from iceberg_hms.format.schema.schema import Schema, assign_fresh_ids
from iceberg_hms.format.schema.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    walk_fields,
)

#: Default values exist since this format version (spec: Default values).
DEFAULTS_FORMAT_VERSION: Final = 3


class Keep:
    """What an argument is that its caller left out, where None says something."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = Keep()


class SchemaDraft:
    """One run of the steps, on one state of a table. Each step raises InvalidInput that names the column.

    base: the state. allow_incompatible_changes: whether old files may turn out to lack values of required columns, and
    files without field ids to have values of another column.
    case_sensitive: whether steps name columns as they are written.
    edits: what the steps did. seen: the existing columns that they named, by name.
    """

    def __init__(
        self, base: TableMetadata, *, allow_incompatible_changes: bool = False, case_sensitive: bool = True
    ) -> None:
        self.base = base
        self.schema = base.schema
        self.case_sensitive = case_sensitive
        self.edits = Edits()
        self.seen: dict[Path, SeenColumn] = {}
        self._allow_incompatible = allow_incompatible_changes
        self._last_id = max(base.last_column_id, self.schema.highest_field_id)
        self._added_ids: dict[str, int] = {}
        self._added_parents: dict[int, int | None] = {}
        self._identifiers: list[int] | None = None

    def add_column(
        self, path: Path, type_: Type, *, doc: str | None = None, required: bool = False, default: Any = None
    ) -> None:
        """Add a column, or a field of a struct, of a list's element or of a map's value."""
        parent, name, full = self._place(path)
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"Cannot add a column without a name: {path!r}")
        siblings = self._siblings(parent)
        # Not only a sibling: "points.element" is the element itself, and would be the path of a field `element` in it.
        named = self._find(shown_path(path))
        taken = [*_alike(siblings, name, self.case_sensitive), *([] if named is None else [named])]
        if any(each.id not in self.edits.deleted for each in taken) or self._key(full) in self._added_ids:
            raise InvalidInput(f"Cannot add column, name already exists: {full}")
        value = self._default(full, type_, default)
        if required and value is None and not self._allow_incompatible:
            raise InvalidInput(
                f"Incompatible change: cannot add required column without a default value: {full}",
                next_step="make it optional, give a default (v3), or pass allow_incompatible_changes=True",
            )
        new_id = self._last_id + 1
        field = NestedField(new_id, name, self._fresh(new_id, name, type_), required, doc, value, value)
        self._last_id = max(new_id, *(inner.id for inner in walk_fields(StructType((field,)))))
        parent_id = None if parent is None else parent.id
        self._added_ids[self._key(full)] = self._added_ids[self._key(shown_path(path))] = new_id
        self._added_parents[new_id] = parent_id
        self.edits.changed[new_id] = field
        self.edits.added.setdefault(parent_id, []).append(new_id)

    def delete_column(self, path: Path) -> None:
        """Delete a column with all that is nested in it."""
        field, name = self._existing(path, "delete", whole=True), shown_path(path)
        self._refuse_part(field, f"Cannot delete {name}", "delete the list or map that contains it")
        inside = {field.id, *(inner.id for inner in walk_fields(field.type))}
        if not inside.isdisjoint(self.edits.added):
            raise InvalidInput(f"Cannot delete a column that has additions: {name}")
        if not inside.isdisjoint(self.edits.changed):
            raise InvalidInput(f"Cannot delete a column that has updates: {name}")
        if any(not inside.isdisjoint((move.field_id, move.before, move.after)) for move in self._moves()):
            raise InvalidInput(f"Cannot delete a column that a move names: {name}")
        self.edits.deleted.add(field.id)

    def rename_column(self, path: Path, new_name: str) -> None:
        """Give a column another name; it stays in its struct."""
        field, name = self._existing(path, "rename"), shown_path(path)
        if not isinstance(new_name, str) or not new_name:
            raise InvalidInput(f"Cannot rename column {name} to {new_name!r}")
        self._refuse_part(field, f"Cannot rename {name}", "it has no name of its own")
        self._refuse_deleted(field, f"Cannot rename a column that will be deleted: {name}")
        self.edits.changed[field.id] = replace(self.edits.changed.get(field.id, field), name=new_name)

    def update_column(
        self,
        path: Path,
        type_: Type | Keep = KEEP,
        *,
        doc: str | Keep | None = KEEP,
        required: bool | None = None,
        default: Any = KEEP,
    ) -> None:
        """Promote a column's type, or change its doc, whether it is required, or the default of rows yet to write."""
        field, name = self._for_update(path), shown_path(path)
        now = field
        if not isinstance(type_, Keep):
            now = self._promoted(now, name, type_)
        if not isinstance(doc, Keep):
            self._refuse_part(field, f"Cannot document {name}", "it has no doc of its own")
            now = replace(now, doc=doc)
        if not isinstance(default, Keep):
            self._refuse_part(field, f"Cannot set a default of {name}", "it has no default of its own")
            now = replace(now, write_default=self._default(name, now.type, default))
        if required is not None and required != now.required:
            has_values = field.id in self._added_parents and field.initial_default is not None
            if required and not has_values and not self._allow_incompatible:
                raise InvalidInput(
                    f"Cannot change column nullability: {name}: optional -> required",
                    next_step="pass allow_incompatible_changes=True if no row of the table has a null there",
                )
            now = replace(now, required=required)
        if now != field:
            self.edits.changed[field.id] = now

    def move(self, path: Path, *, before: Path | None = None, after: Path | None = None) -> None:
        """Move a column before or after a sibling; without one, to the first place of its struct."""
        name = shown_path(path)
        field_id = self._for_move(path, f"Cannot move missing column: {name}")
        where = "before" if before is not None else "after"
        beside = before if before is not None else after
        parent = self._parent(field_id)
        if parent is not None and not isinstance(self._field(parent).type, StructType):
            raise InvalidInput(f"Cannot move fields in non-struct type: {self._field(parent).type}")
        other = None
        if beside is not None:
            other = self._for_move(beside, f"Cannot move {name} {where} missing column: {shown_path(beside)}")
            if other == field_id:
                raise InvalidInput(f"Cannot move {name} {where} itself")
            if self._parent(other) != parent:
                raise InvalidInput(f"Cannot move field {name} to a different struct")
        move = Move(field_id, **({} if other is None else {where: other}))
        self.edits.moves.setdefault(parent, []).append(move)

    def set_identifier_fields(self, paths: Sequence[Path]) -> None:
        """Replace the identifier fields; `paths` name columns as the steps so far have left them."""
        current = Schema.parse(StructType(self.edits.apply(self.schema.fields)).to_json())
        found = []
        for path in paths:
            field = find_column(current, path, case_sensitive=self.case_sensitive)
            if field is None:
                name = shown_path(path)
                raise InvalidInput(
                    f"Cannot add field {name} as an identifier field: not found in current schema or added columns"
                )
            was = self.schema.field(field.id)
            if was is not None:
                full = self.schema.name_of(was.id) or was.name
                self.seen.setdefault(full, SeenColumn(full, was))
            found.append(field.id)
        self._identifiers = found

    def see(self, path: tuple[str, ...], field: NestedField) -> None:
        """Note that a step uses an existing column, whatever its type."""
        self.seen.setdefault(path, SeenColumn(path, field, any_type=True))

    def finish(self) -> Schema:
        """The schema that results; without a schema id. Raises InvalidInput if it is not valid."""
        columns = self.edits.apply(self.schema.fields)
        identifiers = sorted(self.schema.identifier_field_ids if self._identifiers is None else self._identifiers)
        struct = StructType(columns)
        present = {field.id for field in walk_fields(struct)}
        for field_id in identifiers:
            if field_id not in present:
                raise InvalidInput(
                    f"Cannot delete identifier field {self.schema.name_of(field_id)}",
                    next_step="call set_identifier_fields with the other ones as well",
                )
        self._refuse_empty(struct)
        raw: dict[str, Any] = struct.to_json()
        if identifiers:
            raw["identifier-field-ids"] = identifiers
        schema = Schema.parse(raw)
        schema.validate(self.base.format_version)
        if not self._allow_incompatible:
            self._refuse_alike(schema)
        return schema

    @property
    def replaces_identifiers(self) -> bool:
        """Whether a step set the identifier fields."""
        return self._identifiers is not None

    def _place(self, path: Path) -> tuple[NestedField | None, str, str]:
        """The field that gets a new one, or None for the table; the new field's name, and its full name."""
        if isinstance(path, str):
            parent_path, dot, name = path.rpartition(".")
            above: Path | None = parent_path if dot else None
            if dot and self._find(parent_path) is None:
                raise InvalidInput(
                    f"Cannot add column with ambiguous name: {path}: there is no column {parent_path}",
                    next_step=f'name it by a tuple: ("{path}",) is a column with a dot in its name',
                )
        else:
            path = tuple(path)
            above, name = path[:-1] or None, path[-1] if path else ""
        if above is None:
            return None, name, name
        parent, what = self._existing(above, "add to", missing="Cannot find parent struct"), shown_path(above)
        match parent.type:
            case ListType():
                parent = parent.type.element_field
            case MapType():
                parent = parent.type.value_field
        if not isinstance(parent.type, StructType):
            raise InvalidInput(f"Cannot add to non-struct column: {what}: {parent.type}")
        self._refuse_deleted(parent, f"Cannot add to a column that will be deleted: {what}")
        return parent, name, f"{self.schema.name_of(parent.id)}.{name}"

    def _siblings(self, parent: NestedField | None) -> Sequence[NestedField]:
        if parent is None:
            return self.schema.fields
        return parent.type.fields if isinstance(parent.type, StructType) else ()

    def _fresh(self, new_id: int, name: str, type_: Type) -> Type:
        ids = [inner.id for inner in walk_fields(type_)]
        column = Schema.parse(StructType((NestedField(max(ids, default=0) + 1, name, type_),)).to_json())
        return assign_fresh_ids(column, new_id).fields[0].type

    def _promoted(self, field: NestedField, name: str, type_: Type) -> NestedField:
        check_promotion(self.base, name, field, type_)
        if field.type == type_:
            return field
        if not isinstance(type_, PrimitiveType):
            type_ = self._fresh(self._last_id, field.name, type_)
            self._last_id = max([self._last_id, *(inner.id for inner in walk_fields(type_))])
        return replace(
            field,
            type=type_,
            initial_default=promoted_default(field.type, type_, field.initial_default),
            write_default=promoted_default(field.type, type_, field.write_default),
        )

    def _default(self, name: str, type_: Type, default: Any) -> Any:
        if default is None:
            return None
        if self.base.format_version < DEFAULTS_FORMAT_VERSION:
            raise InvalidInput(
                f"Cannot set a default of column {name}: defaults are not supported until "
                f"v{DEFAULTS_FORMAT_VERSION}, the table has v{self.base.format_version}",
                next_step=f"upgrade the table with upgrade_table_version({DEFAULTS_FORMAT_VERSION})",
            )
        try:
            return default_json(type_, default)
        except InvalidInput as error:
            raise InvalidInput(f"Cannot set a default of column {name}: {error.message}") from error

    def _find(self, path: Path) -> NestedField | None:
        return find_column(self.schema, path, case_sensitive=self.case_sensitive)

    def _existing(self, path: Path, verb: str, *, whole: bool = False, missing: str | None = None) -> NestedField:
        field = self._find(path)
        if field is None:
            what = f"{missing or f'Cannot {verb} missing column'}: {shown_path(path)}"
            raise InvalidInput(what, next_step=self._advice(path))
        around = pairwise((field, *self.schema.ancestors_of(field.id)))
        if any(isinstance(outer.type, MapType) and outer.type.key_id == inner.id for inner, outer in around):
            raise InvalidInput(f"Cannot {verb} map keys: {shown_path(path)}")
        key = path if isinstance(path, str) else tuple(path)
        if whole or key not in self.seen:
            self.seen[key] = SeenColumn(key, field, whole)
        return field

    def _for_update(self, path: Path) -> NestedField:
        field = self._find(path)
        added = self._added_ids.get(self._key(shown_path(path)))
        if added is not None and (field is None or self._is_deleted(field)):
            return self.edits.changed[added]
        field = self._existing(path, "update")
        self._refuse_deleted(field, f"Cannot update a column that will be deleted: {shown_path(path)}")
        return self.edits.changed.get(field.id, field)

    def _for_move(self, path: Path, missing: str) -> int:
        added = self._added_ids.get(self._key(shown_path(path)))
        if added is not None:
            return added
        if self._find(path) is None:
            raise InvalidInput(missing, next_step=self._advice(path))
        field = self._existing(path, "move")
        self._refuse_deleted(field, f"Cannot move a column that will be deleted: {shown_path(path)}")
        return field.id

    def _advice(self, path: Path) -> str | None:
        """For a path whose last name an earlier step gave to a column."""
        name = path.rpartition(".")[2] if isinstance(path, str) else path[-1]
        for field_id, field in self.edits.changed.items():
            was = self.schema.field(field_id)
            if was is not None and field.name == name != was.name:
                return f"name it as before the first step: {self.schema.name_of(field_id)}"
        return None

    def _parent(self, field_id: int) -> int | None:
        if field_id in self._added_parents:
            return self._added_parents[field_id]
        parent = self.schema.parent_of(field_id)
        return None if parent is None else parent.id

    def _field(self, field_id: int) -> NestedField:
        field = self.schema.field(field_id)
        return self.edits.changed[field_id] if field is None else field

    def _moves(self) -> Iterator[Move]:
        for moves in self.edits.moves.values():
            yield from moves

    def _is_deleted(self, field: NestedField) -> bool:
        return any(each.id in self.edits.deleted for each in (field, *self.schema.ancestors_of(field.id)))

    def _refuse_deleted(self, field: NestedField, what: str) -> None:
        if self._is_deleted(field):
            raise InvalidInput(what)

    def _refuse_part(self, field: NestedField, what: str, advice: str) -> None:
        parent = self.schema.parent_of(field.id)
        if parent is not None and not isinstance(parent.type, StructType):
            raise InvalidInput(f"{what}: it is the element of a list or the value of a map", next_step=advice)

    def _refuse_empty(self, struct: StructType) -> None:
        """Java allows it; no engine can read the files of a table without columns, or write a struct without fields."""
        if not struct.fields and self.schema.fields:
            raise InvalidInput("Cannot delete all columns of a table")
        for field in walk_fields(struct):
            was = self.schema.field(field.id)
            if field.type == StructType(()) and was is not None and was.type != field.type:
                raise InvalidInput(
                    f"Cannot delete all fields of a struct: {self.schema.name_of(field.id)}",
                    next_step="delete the struct itself",
                )

    def _refuse_alike(self, schema: Schema) -> None:
        """Java allows it; Spark, Trino and Hive, which ignore the case, cannot read such a table."""
        for siblings in (schema.fields, *(types.nested_fields(each.type) for each in walk_fields(schema.as_struct()))):
            known: dict[str, NestedField] = {}
            for field in siblings:
                other = known.setdefault(field.name.lower(), field)
                if other is not field and not (self._is_old(other) and self._is_old(field)):
                    raise InvalidInput(
                        f"Cannot call columns alike but for the case: {schema.name_of(other.id)} and "
                        f"{schema.name_of(field.id)}: Spark, Trino and Hive could not read the table"
                    )

    def _is_old(self, field: NestedField) -> bool:
        was = self.schema.field(field.id)
        return was is not None and was.name == field.name

    def _key(self, full: str) -> str:
        return full if self.case_sensitive else full.lower()


def _alike(fields: Sequence[NestedField], name: str, case_sensitive: bool) -> list[NestedField]:
    if case_sensitive:
        return [field for field in fields if field.name == name]
    return [field for field in fields if field.name.lower() == name.lower()]
