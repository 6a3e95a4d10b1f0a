"""Evolving a table's schema, as a change: the steps that make the new schema from the current one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import orjson

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Update
from iceberg_hms.changes.evolution import remapped_names
from iceberg_hms.changes.operations.metadata_operation import MetadataOperation
from iceberg_hms.changes.operations.schema.schema_draft import SchemaDraft
from iceberg_hms.changes.operations.schema.schema_tree import Edits
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, evolved_mapping
from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortField
from iceberg_hms.format.schema.types import walk_fields

#: A step on a draft: it calls one of its methods, or `schema_union.union_by_name`.
SchemaStep = Callable[[SchemaDraft], None]

#: What stands before a column's name in these properties.
COLUMN_PREFIXES: Final = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.stats-enabled.column.",
)


class UpdateSchema(MetadataOperation):
    """Adds, deletes, renames, promotes and moves columns.

    It keeps the steps, so on a table that moved they are taken again on the current schema, and new columns get ids
    from there. It assumes that each column that a step names has the name, the field id and the type that its caller
    saw; of a nested type only the kind counts, unless the column is deleted. Steps that replace the identifier
    fields assume that these are the ones that the caller saw.

    steps: in their order. allow_incompatible_changes, case_sensitive: see `SchemaDraft`.
    Raises InvalidInput if the steps are not valid on `seen`.
    """

    name: ClassVar[str] = "update-schema"

    def __init__(
        self,
        seen: TableMetadata,
        steps: Sequence[SchemaStep],
        *,
        allow_incompatible_changes: bool = False,
        case_sensitive: bool = True,
        start: TableMetadata | None = None,
        caller: str = "",
    ) -> None:
        super().__init__(seen, start=start, caller=caller)
        self._steps = tuple(steps)
        self._allow_incompatible = allow_incompatible_changes
        self._case_sensitive = case_sensitive
        draft = self._draft(seen)
        self._named = tuple(replace(each, last_id=self._start.last_column_id) for each in draft.seen.values())
        self._replaces_identifiers = draft.replaces_identifiers
        self.validate()

    def check_seen(self, base: TableMetadata) -> None:
        for column in self._named:
            column.check(base.schema, case_sensitive=self._case_sensitive)
        was, now = _identifiers(self._seen.schema), _identifiers(base.schema)
        if self._replaces_identifiers and was != now:
            raise RequirementFailed(
                "seen-identifier-fields",
                f"since the caller looked, the identifier fields became {', '.join(now) or 'none'}",
                expected=was,
                found=now,
            )

    def updates(self, base: TableMetadata) -> Sequence[Update]:
        draft = self._draft(base)
        schema = draft.finish()
        if schema.same_as(base.schema):
            return []
        _check_layout(base, schema)
        _check_partition_names(base, schema)
        changed, removed = follow_columns(base.properties, base.schema, schema, draft.edits)
        if not self._allow_incompatible:
            _check_mapped_names(base, changed)
        return [
            {"action": "add-schema", "schema": schema.raw},
            {"action": "set-current-schema", "schema-id": -1},
            *([updates.remove_properties(removed)] if removed else []),
            *([updates.set_properties(changed)] if changed else []),
        ]

    def _draft(self, base: TableMetadata) -> SchemaDraft:
        draft = SchemaDraft(
            base, allow_incompatible_changes=self._allow_incompatible, case_sensitive=self._case_sensitive
        )
        for step in self._steps:
            step(draft)
        return draft


def _identifiers(schema: Schema) -> list[str]:
    return sorted(str(schema.name_of(field_id)) for field_id in schema.identifier_field_ids)


def _check_layout(base: TableMetadata, schema: Schema) -> None:
    """Raises InvalidInput if the default spec or sort order uses a column that the schema lacks. Older ones may: their
    files keep their partition values (Java: PartitionSpec.checkCompatibility)."""
    uses: list[tuple[str, str, PartitionField | SortField]] = [
        (f"partition field {field.name}", f"remove it with update_spec().remove_field({field.name!r})", field)
        for field in base.spec.fields
        if str(field.transform) != "void"
    ]
    uses += [
        (f"sort field {field}", "choose another order with update_sort_order()", field)
        for field in base.sort_order.fields
    ]
    for what, advice, field in uses:
        for source_id in (field.source_id, *field.more_source_ids):
            if schema.field(source_id) is None and base.schema.field(source_id) is not None:
                raise InvalidInput(
                    f"Cannot delete column {base.schema.name_of(source_id)}: {what} uses it",
                    next_step=f"{advice} first, or in the same transaction",
                )


def _check_mapped_names(base: TableMetadata, changed: Mapping[str, str]) -> None:
    """Raises InvalidInput if a name goes from one column to another in the name mapping. Files without field ids are
    read by it, so readers would take the values of the old column for those of the new one. Java allows it."""
    before = base.properties.get(NAME_MAPPING, "")
    moved = remapped_names(before, changed.get(NAME_MAPPING, before))
    if moved:
        raise InvalidInput(
            f"Cannot give another column the name {', '.join(moved)}: the table has a name mapping, since files "
            "without field ids are read by name, and the old column's values there would be the new one's",
            next_step="choose another name; allow_incompatible_changes=True does it all the same",
        )


def _check_partition_names(base: TableMetadata, schema: Schema) -> None:
    """Raises InvalidInput if a column gets a name that a partition field of another column has, in any spec: Java
    cannot load such a table (PartitionSpec.Builder.checkAndAddPartitionName). If that column is gone, it can."""
    for field in walk_fields(schema.as_struct()):
        name, was = schema.name_of(field.id), base.schema.name_of(field.id)
        if name == was:
            continue
        for spec in base.specs:
            for each in spec.fields:
                if each.name == name and field.id != each.source_id and schema.field(each.source_id) is not None:
                    raise InvalidInput(
                        f"Cannot name column {name}: partition spec {spec.spec_id} has a field of this name, of "
                        f"another column (field id {each.source_id})",
                        next_step="choose another name",
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
