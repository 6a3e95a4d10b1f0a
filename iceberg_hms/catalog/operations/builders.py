"""Builders: operations of several steps, which are committed together: those of `update_schema()`, `update_spec()` and
`update_sort_order()`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar

import pyarrow as pa

from iceberg_hms.catalog.operations.submitter import Result
from iceberg_hms.catalog.schemas import SpecModel, any_transform, to_schema, to_type
from iceberg_hms.changes.change import Change
from iceberg_hms.changes.operations.schema.schema_draft import KEEP, Keep, SchemaDraft
from iceberg_hms.changes.operations.schema.schema_union import union_by_name
from iceberg_hms.changes.operations.schema.seen_columns import Path, shown_path
from iceberg_hms.changes.operations.schema.sort_order import SortOrderDraft, SortTerm
from iceberg_hms.changes.operations.schema.spec_draft import SpecDraft
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Transform
from iceberg_hms.format.schema.types import Type

logger = logging.getLogger(__name__)

Draft = TypeVar("Draft")
_Found = TypeVar("_Found")
_Given = ParamSpec("_Given")
#: What callers give as a column's type: the spec's text ("decimal(10, 2)") or JSON, ours, pyarrow's or PyIceberg's.
ColumnType: TypeAlias = Type | pa.DataType | SpecModel | Mapping[str, Any] | str
#: A transform: its text, ours or PyIceberg's.
AnyTransform: TypeAlias = Transform | SpecModel | str
#: Where nulls go: as the spec has it, or PyIceberg's NullOrder.
AnyNullOrder: TypeAlias = Literal["nulls-first", "nulls-last"] | Enum


class Builder(Generic[Draft, Result]):
    """Base of the builders. Each step is checked at once on the state that the caller saw: one that raises InvalidInput
    leaves the steps before it as they were.

    `with` commits at the end of the block, and nothing after an exception; a chain ends with `commit()`. Steps that are
    dropped without either leave a warning in the log, unless an exception told the caller.

    made_by: the call that makes the builder, for messages.
    report: what the commit returned; None before it, and in a transaction.
    new_draft: the state that the caller saw, without a step. make: the change that steps make. submit: commits a
    change, or makes it a step of a transaction.
    """

    made_by: ClassVar[str]

    def __init__(
        self,
        new_draft: Callable[[], Draft],
        make: Callable[[Sequence[Callable[[Draft], None]]], Change],
        submit: Callable[[Change], Result],
    ) -> None:
        self.report: Result | None = None
        self._new_draft = new_draft
        self._make = make
        self._submit_change = submit
        self._steps: list[Callable[[Draft], None]] = []
        self._ended = False
        #: Whether the caller heard, by an exception, that the steps were not committed.
        self._caller_knows = False
        self._draft = new_draft()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None and not self._ended:
            self.commit()
        self._caller_knows = error is not None

    def __del__(self) -> None:
        if self._steps and not self._ended and not self._caller_knows:
            logger.warning(
                "%s: %d steps were dropped, and the table has none of them; end the chain with commit(), or use `with`",
                self.made_by,
                len(self._steps),
            )

    def commit(self) -> Result:
        """Commit the steps. Returns the commit's report; None in a transaction, where they become a step of it.
        Raises InvalidInput if they are not valid together, RequirementFailed if the table changed under them."""
        self._refuse_ended()
        change = self._checked(self._make, self._steps)
        self._ended = True
        self.report = self._submit_change(change)
        return self.report

    def _add(self, step: Callable[[Draft], None]) -> Self:
        self._refuse_ended()
        try:
            self._checked(step, self._draft)
        except InvalidInput:
            # The step may have done a part of its work.
            self._draft = self._new_draft()
            for earlier in self._steps:
                earlier(self._draft)
            raise
        self._steps.append(step)
        return self

    def _checked(self, call: Callable[_Given, _Found], *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        """What a call makes of what the caller gave. Raises as it does."""
        self._caller_knows = True
        found = call(*args, **kwargs)
        self._caller_knows = False
        return found

    def _refuse_ended(self) -> None:
        if self._ended:
            raise InvalidInput("this update was committed already", next_step="begin another one")


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
        self,
        path: Path,
        field_type: ColumnType,
        doc: str | None = None,
        required: bool = False,
        default_value: Any = None,
    ) -> Self:
        """Add a column at the end of the table, or a field at the end of a struct, a list's element or a map's value.

        path: text with a dot names a field of an existing column. field_type: with field ids of its own or without; the
        table assigns new ones. default_value: what rows have that were written before, and what writers write that are
        given no value (format version 3); see `format.schema.json_values`. A required column has a default, unless
        `allow_incompatible_changes`."""
        found = self._checked(to_type, field_type, shown_path(path))
        return self._add(lambda draft: draft.add_column(path, found, doc=doc, required=required, default=default_value))

    def delete_column(self, path: Path) -> Self:
        """Delete a column with all that is nested in it. Its files keep the values, nobody reads them again: a new
        column of the same name is another one. Refused for columns of the default partition spec or sort order, and for
        identifier fields."""
        return self._add(lambda draft: draft.delete_column(path))

    def rename_column(self, path_from: Path, new_name: str) -> Self:
        """Rename a column. new_name: of the column itself, without those that contain it."""
        return self._add(lambda draft: draft.rename_column(path_from, new_name))

    def update_column(
        self,
        path: Path,
        field_type: ColumnType | Keep = KEEP,
        required: bool | None = None,
        doc: str | Keep | None = KEEP,
    ) -> Self:
        """Change a column; what is left out stays.

        field_type: int may become long, float double, a decimal one with more digits and the same scale; with format
        version 3 also date timestamp or timestamp_ns, unless a partition field would change its values, and unknown any
        type.
        Iceberg 1.11 for Java and PyIceberg fail to read a file's dates as timestamps. doc: None removes it. required:
        False for a required column; True needs `allow_incompatible_changes`."""
        found = field_type if isinstance(field_type, Keep) else self._checked(to_type, field_type, shown_path(path))
        return self._add(lambda draft: draft.update_column(path, found, doc=doc, required=required))

    def set_default_value(self, path: Path, default_value: Any) -> Self:
        """Change what writers write into rows that are given no value (format version 3); None removes it."""
        return self._add(lambda draft: draft.update_column(path, default=default_value))

    def move_first(self, path: Path) -> Self:
        """Move a column to the first place of its struct, or of the table."""
        return self._add(lambda draft: draft.move(path))

    def move_before(self, path: Path, before_path: Path) -> Self:
        """Move a column before a sibling."""
        return self._add(lambda draft: draft.move(path, before=before_path))

    def move_after(self, path: Path, after_name: Path) -> Self:
        """Move a column after a sibling."""
        return self._add(lambda draft: draft.move(path, after=after_name))

    def set_identifier_fields(self, *fields: Path) -> Self:
        """Replace the identifier fields (spec: Identifier Field IDs): required, of primitive types, not float or
        double, in required structs alone. fields: names as the steps so far have left them; none removes all."""
        return self._add(lambda draft: draft.set_identifier_fields(fields))

    def union_by_name(self, new_schema: Schema | pa.Schema | SpecModel | Mapping[str, Any]) -> Self:
        """Add the columns of a schema that the table lacks, as optional ones; promote types, make columns optional and
        take over docs as the schema has them. Names decide, ids do not count; a column that is narrower in the schema
        stays as it is. Other than an `add_column`, this also succeeds after another writer added the same columns."""
        other = self._checked(to_schema, new_schema)
        return self._add(lambda draft: union_by_name(draft, other))


class SpecBuilder(Builder[SpecDraft, Result], Generic[Result]):
    """Evolves the default partition spec in steps, all of them or none (spec: Partition Evolution). Existing files keep
    the spec that they were written with. Every step raises InvalidInput that names the field and the reason.

    A transform is its text as specs store it ("bucket[16]", "truncate[4]", "year", "month", "day", "hour", "identity"),
    as SQL has it ("bucket(16)", "days"), or a Transform, ours or PyIceberg's.
    """

    made_by = "update_spec()"

    def add_field(
        self, source_column_name: Path, transform: AnyTransform, partition_field_name: str | None = None
    ) -> Self:
        """Partition by a transform of a column.

        partition_field_name: by default that of an equal field of an older spec, whose id it gets as well, else
        Java's: "event_time_day", "id_bucket_16", the column's own for identity. Refused for a column or transform that
        is partitioned by already, and for a name of another column."""
        found = self._checked(any_transform, transform)
        return self._add(lambda draft: draft.add_field(source_column_name, found, partition_field_name))

    def add_identity(self, source_column_name: Path) -> Self:
        """Partition by a column's values."""
        return self.add_field(source_column_name, "identity")

    def remove_field(self, name: Path, transform: AnyTransform | None = None) -> Self:
        """Stop partitioning by a field: `remove_field("event_time_day")`, or `remove_field("event_time", "day")`. In a
        table of format version 1 the field stays, as a void one."""
        if transform is not None:
            found = self._checked(any_transform, transform)
            return self._add(lambda draft: draft.remove_transform(name, found))
        return self._add(lambda draft: draft.remove_field(str(name)))

    def rename_field(self, name: str, new_name: str) -> Self:
        """Give a partition field another name; it keeps its id."""
        return self._add(lambda draft: draft.rename_field(name, new_name))


class SortOrderBuilder(Builder[SortOrderDraft, Result], Generic[Result]):
    """Replaces the default sort order by the terms that it is given; without terms the table becomes unsorted. Existing
    files stay as they are."""

    made_by = "update_sort_order()"

    def asc(
        self, source_column_name: Path, transform: AnyTransform = "identity", null_order: AnyNullOrder = "nulls-first"
    ) -> Self:
        """Sort by a column, or a transform of it, ascending. null_order: nulls come first by default, as in Java."""
        return self._sort("asc", source_column_name, transform, null_order)

    def desc(
        self, source_column_name: Path, transform: AnyTransform = "identity", null_order: AnyNullOrder = "nulls-last"
    ) -> Self:
        """Sort by a column, or a transform of it, descending. null_order: nulls come last by default."""
        return self._sort("desc", source_column_name, transform, null_order)

    def _sort(self, direction: str, source: Path, transform: AnyTransform, null_order: AnyNullOrder) -> Self:
        order = str(null_order.value if isinstance(null_order, Enum) else null_order)
        term = SortTerm(source, self._checked(any_transform, transform), direction, order)
        return self._add(lambda draft: draft.add(term))
