"""A filter of rows as an operation has it: bound anew to each state of the table on which the operation is staged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iceberg_hms.changes.operations.file_scope import MatchingRows, RowFilter
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True)
class Where:
    """text: the filter, for messages. bind: the filter for a table's current schema and specs; raises InvalidInput if
    the table lacks a column."""

    text: str
    bind: Callable[[TableMetadata], RowFilter]

    def scope(self, base: TableMetadata) -> MatchingRows:
        """The files that may have such rows."""
        return MatchingRows(self.bind(base), self.text)
