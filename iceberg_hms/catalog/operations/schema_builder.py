"""The builder of `update_schema()`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Self, TypeAlias

import pyarrow as pa

from iceberg_hms.catalog.operations.builder import Builder
from iceberg_hms.catalog.operations.submitter import Result
from iceberg_hms.catalog.schemas import to_schema, to_type
from iceberg_hms.changes.operations.schema_draft import KEEP, Keep, SchemaDraft
from iceberg_hms.changes.operations.schema_union import union_by_name
from iceberg_hms.changes.operations.seen_columns import Path, shown_path
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import Type

#: What callers give as a column's type: ours, the spec's text ("decimal(10, 2)") or JSON object, or pyarrow's.
ColumnType: TypeAlias = Type | pa.DataType | Mapping[str, Any] | str


class SchemaBuilder(Builder[SchemaDraft, Result], Generic[Result]):
    """Evolves a table's schema in steps, all of them or none (spec: Schema Evolution).

    A column is named by dotted text, or by the tuple of the names on its path, which also finds names with dots:
    "location.lat", ("location", "lat"), "points.element.x", "scores.value". As in Java, "points.x" is short for
    "points.element.x". Steps name columns as they are called before the first step, or columns that an earlier step
    added; the order matters for moves alone, so two columns can exchange their names. Every step raises InvalidInput
    that names the column and the reason.
    """

    made_by = "update_schema()"

    def add_column(
        self, path: Path, type: ColumnType, *, doc: str | None = None, required: bool = False, default: Any = None
    ) -> Self:
        """Add a column at the end of the table, or a field at the end of a struct, a list's element or a map's value.

        path: text with a dot names a field of an existing column. type: with field ids of its own or without; the table
        assigns new ones. default: what rows have that were written before, and what writers write that are given no
        value (format version 3); see `format.schema.json_values`. A required column has a default, unless
        `allow_incompatible_changes`."""
        found = self._checked(to_type, type, shown_path(path))
        return self._add(lambda draft: draft.add_column(path, found, doc=doc, required=required, default=default))

    def delete_column(self, path: Path) -> Self:
        """Delete a column with all that is nested in it. Its files keep the values, nobody reads them again: a new
        column of the same name is another one. Refused for columns of the default partition spec or sort order, and for
        identifier fields."""
        return self._add(lambda draft: draft.delete_column(path))

    def rename_column(self, path: Path, new_name: str) -> Self:
        """Rename a column. new_name: of the column itself, without those that contain it."""
        return self._add(lambda draft: draft.rename_column(path, new_name))

    def update_column(
        self,
        path: Path,
        type: ColumnType | Keep = KEEP,
        *,
        doc: str | Keep | None = KEEP,
        required: bool | None = None,
        default: Any = KEEP,
    ) -> Self:
        """Change a column; what is left out stays.

        type: int may become long, float double, a decimal one with more digits and the same scale; with format version
        3 also date timestamp or timestamp_ns, unless a partition field would change its values, and unknown any type.
        Iceberg 1.11 for Java and PyIceberg fail to read a file's dates as timestamps. doc: None removes it. required:
        False for a required column; True needs `allow_incompatible_changes`. default: for rows yet to write (format
        version 3); None removes it."""
        found = type if isinstance(type, Keep) else self._checked(to_type, type, shown_path(path))
        return self._add(lambda draft: draft.update_column(path, found, doc=doc, required=required, default=default))

    def move_first(self, path: Path) -> Self:
        """Move a column to the first place of its struct, or of the table."""
        return self._add(lambda draft: draft.move(path))

    def move_before(self, path: Path, before: Path) -> Self:
        """Move a column before a sibling."""
        return self._add(lambda draft: draft.move(path, before=before))

    def move_after(self, path: Path, after: Path) -> Self:
        """Move a column after a sibling."""
        return self._add(lambda draft: draft.move(path, after=after))

    def set_identifier_fields(self, *paths: Path) -> Self:
        """Replace the identifier fields (spec: Identifier Field IDs): required, of primitive types, not float or
        double, in required structs alone. paths: names as the steps so far have left them; none removes all."""
        return self._add(lambda draft: draft.set_identifier_fields(paths))

    def union_by_name(self, schema: Schema | pa.Schema | Mapping[str, Any]) -> Self:
        """Add the columns of a schema that the table lacks, as optional ones; promote types, make columns optional and
        take over docs as the schema has them. Names decide, ids do not count; a column that is narrower in the schema
        stays as it is. Other than an `add_column`, this also succeeds after another writer added the same columns."""
        other = self._checked(to_schema, schema)
        return self._add(lambda draft: union_by_name(draft, other))
