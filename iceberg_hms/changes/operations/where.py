"""A filter of rows as an operation has it: bound anew to each state of the table on which the operation is staged."""

from __future__ import annotations

from iceberg_hms.changes.operations.file_scope import MatchingRows
from iceberg_hms.expressions.expression import Expression
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.format.metadata.table_metadata import TableMetadata


class Where:
    """A filter of rows. text: the filter, for messages."""

    def __init__(self, expression: Expression) -> None:
        self.text = str(expression)
        self._expression = expression
        #: For the schema and the specs of the last table: one filter judges all files of a staging.
        self._bound: tuple[tuple[str, int], FileFilter] | None = None

    def bind(self, base: TableMetadata) -> FileFilter:
        """The filter for a table's current schema and its specs. Raises InvalidInput if the table lacks a column."""
        # A table only gains specs, or loses some that no manifest has.
        key = (base.schema.content, len(base.specs))
        if self._bound is None or self._bound[0] != key:
            self._bound = key, FileFilter(self._expression, base.schema, base.specs)
        return self._bound[1]

    def scope(self, base: TableMetadata) -> MatchingRows:
        """The files that may have such rows."""
        return MatchingRows(self.bind(base), self.text)
