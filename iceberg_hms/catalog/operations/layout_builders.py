"""The builders of `update_spec()` and `replace_sort_order()`."""

from __future__ import annotations

from typing import Generic, Literal, Self

from iceberg_hms.catalog.operations.builder import Builder
from iceberg_hms.catalog.operations.submitter import Result
from iceberg_hms.changes.operations.seen_columns import Path
from iceberg_hms.changes.operations.sort_order import SortOrderDraft, SortTerm
from iceberg_hms.changes.operations.spec_draft import SpecDraft
from iceberg_hms.changes.operations.update_spec import to_transform
from iceberg_hms.format.schema.transforms import Transform


class SpecBuilder(Builder[SpecDraft, Result], Generic[Result]):
    """Evolves the default partition spec in steps, all of them or none (spec: Partition Evolution). Existing files keep
    the spec that they were written with. Every step raises InvalidInput that names the field and the reason.

    A transform is its text as specs store it ("bucket[16]", "truncate[4]", "year", "month", "day", "hour", "identity"),
    as SQL has it ("bucket(16)", "days"), or a Transform.
    """

    made_by = "update_spec()"

    def add_field(self, source: Path, transform: Transform | str, name: str | None = None) -> Self:
        """Partition by a transform of a column.

        name: of the partition field; by default that of an equal field of an older spec, whose id it gets as well, else
        Java's: "event_time_day", "id_bucket_16", the column's own for identity. Refused for a column or transform that
        is partitioned by already, and for a name of another column."""
        found = self._checked(to_transform, transform)
        return self._add(lambda draft: draft.add_field(source, found, name))

    def add_identity(self, source: Path) -> Self:
        """Partition by a column's values."""
        return self.add_field(source, "identity")

    def remove_field(self, name: Path, transform: Transform | str | None = None) -> Self:
        """Stop partitioning by a field: `remove_field("event_time_day")`, or `remove_field("event_time", "day")`. In a
        table of format version 1 the field stays, as a void one."""
        if transform is not None:
            found = self._checked(to_transform, transform)
            return self._add(lambda draft: draft.remove_transform(name, found))
        return self._add(lambda draft: draft.remove_field(str(name)))

    def rename_field(self, name: str, new_name: str) -> Self:
        """Give a partition field another name; it keeps its id."""
        return self._add(lambda draft: draft.rename_field(name, new_name))


class SortOrderBuilder(Builder[SortOrderDraft, Result], Generic[Result]):
    """Replaces the default sort order by the terms that it is given; without terms the table becomes unsorted. Existing
    files stay as they are."""

    made_by = "replace_sort_order()"

    def asc(
        self, source: Path, *, transform: Transform | str = "identity", nulls: Literal["first", "last"] = "first"
    ) -> Self:
        """Sort by a column, or a transform of it, ascending. nulls: where they go, first by default."""
        term = SortTerm(source, self._checked(to_transform, transform), "asc", nulls)
        return self._add(lambda draft: draft.add(term))

    def desc(
        self, source: Path, *, transform: Transform | str = "identity", nulls: Literal["first", "last"] = "last"
    ) -> Self:
        """Sort by a column, or a transform of it, descending. nulls: where they go, last by default."""
        term = SortTerm(source, self._checked(to_transform, transform), "desc", nulls)
        return self._add(lambda draft: draft.add(term))
