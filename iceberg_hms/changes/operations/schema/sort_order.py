"""Replacing a table's default sort order, as a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.metadata_operation import MetadataOperation
from iceberg_hms.changes.operations.schema.seen_columns import Path, SeenColumn, find_column, shown_path
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.sort_order import SortField, SortOrder
from iceberg_hms.format.schema.transforms import Transform
from iceberg_hms.format.schema.types import NestedField


@dataclass(frozen=True, slots=True)
class SortTerm:
    """One term of an order. null_order: "nulls-first" or "nulls-last"."""

    source: Path
    transform: Transform
    direction: str
    null_order: str

    def bind(self, base: TableMetadata, *, case_sensitive: bool) -> SortField:
        """The field for a state of the table. Raises InvalidInput that names the column."""
        column = self.column(base, case_sensitive=case_sensitive)
        try:
            self.transform.result_type(column.type)
        except InvalidInput as error:
            what = f"Cannot sort by {self.transform} of {shown_path(self.source)}"
            raise InvalidInput(f"{what}: {error.message}") from error
        if self.null_order not in ("nulls-first", "nulls-last"):
            raise InvalidInput(f'null_order must be "nulls-first" or "nulls-last", but is {self.null_order!r}')
        return SortField(column.id, self.transform, self.direction, self.null_order)

    def column(self, base: TableMetadata, *, case_sensitive: bool) -> NestedField:
        """The column. Raises InvalidInput if the table lacks it."""
        column = find_column(base.schema, self.source, case_sensitive=case_sensitive)
        if column is None:
            raise InvalidInput(f"Cannot sort by missing column: {shown_path(self.source)}")
        return column


class SortOrderDraft:
    """A sort order while the steps of one update add terms, on one state of a table."""

    def __init__(self, base: TableMetadata, *, case_sensitive: bool = True) -> None:
        self.terms: list[SortTerm] = []
        self._base = base
        self._case_sensitive = case_sensitive

    def add(self, term: SortTerm) -> None:
        """Sort by a term after those before it. Raises InvalidInput that names the column."""
        term.bind(self._base, case_sensitive=self._case_sensitive)
        self.terms.append(term)


class ReplaceSortOrder(MetadataOperation):
    """Makes a list of terms the default sort order; without terms the table becomes unsorted. Existing files stay.

    It assumes that each column has the name, the field id and the type that its caller saw, and that the default order
    is the one that it replaces, as Java does over REST (assert-default-sort-order-id).

    case_sensitive: whether terms name columns as they are written.
    Raises InvalidInput for a missing column, and for a transform that does not take the column's type.
    """

    name: ClassVar[str] = "replace-sort-order"

    def __init__(
        self,
        seen: TableMetadata,
        terms: Sequence[SortTerm],
        *,
        case_sensitive: bool = True,
        start: TableMetadata | None = None,
        caller: str = "",
    ) -> None:
        super().__init__(seen, start=start, caller=caller)
        self._terms = tuple(terms)
        self._case_sensitive = case_sensitive
        self._columns = tuple(
            SeenColumn(
                term.source, term.column(seen, case_sensitive=case_sensitive), last_id=self._start.last_column_id
            )
            for term in self._terms
        )
        self.validate()

    def check_seen(self, base: TableMetadata) -> None:
        for column in self._columns:
            column.check(base.schema, case_sensitive=self._case_sensitive)
        was, now = self._seen.sort_order, base.sort_order
        if now.content not in (was.content, self._order(base).content):
            raise RequirementFailed(
                "seen-sort-order",
                f"since the caller looked, another writer replaced the sort order: it was {was} and is {now} now",
                expected=str(was),
                found=str(now),
            )

    def updates(self, base: TableMetadata) -> Sequence[Update]:
        order = self._order(base)
        if order.content == base.sort_order.content:
            return []
        raw = dict(order.raw)
        if not order.is_unsorted:
            # The table chooses the id.
            del raw["order-id"]
        return [
            {"action": "add-sort-order", "sort-order": raw},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]

    def _order(self, base: TableMetadata) -> SortOrder:
        return SortOrder.of(term.bind(base, case_sensitive=self._case_sensitive) for term in self._terms)
