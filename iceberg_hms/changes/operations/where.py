"""A filter of rows as an operation has it: bound anew to each state of the table on which the operation is staged.

A filter names columns. If another writer renamed one and gave its name to another column, the filter would be about
other rows than its caller meant; so each column must still be the one that the caller saw.
"""

from __future__ import annotations

from iceberg_hms.changes.operations.file_scope import MatchingRows
from iceberg_hms.changes.operations.seen_columns import SeenColumn, find_column
from iceberg_hms.expressions.binding import bind
from iceberg_hms.expressions.expression import Expression, column_names
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema


class Where:
    """A filter of rows. text: the filter, for messages.

    seen: the schema that the caller saw. last_id: of its columns, without those that earlier steps of the same
    transaction added (`SeenColumn`); None: there are none. case_sensitive: whether it names columns as they are
    written (`expressions.binding.bind`).
    Raises InvalidInput for a filter that does not fit that schema.
    """

    def __init__(
        self, expression: Expression, seen: Schema, last_id: int | None = None, *, case_sensitive: bool = True
    ) -> None:
        self.text = str(expression)
        self._expression = expression
        self._case_sensitive = case_sensitive
        bind(expression, seen, case_sensitive=case_sensitive)
        self._columns = [
            SeenColumn(name, field, any_type=True, last_id=last_id)
            for name in dict.fromkeys(column_names(expression))
            if (field := find_column(seen, name, case_sensitive=case_sensitive)) is not None
        ]
        #: For the schema and the specs of the last table: one filter judges all files of a staging.
        self._bound: tuple[tuple[str, int], FileFilter] | None = None

    def bind(self, base: TableMetadata) -> FileFilter:
        """The filter for a table's current schema and its specs. Raises RequirementFailed if a column is another one
        than the caller saw, InvalidInput if its type no longer fits the filter."""
        # A table only gains specs, or loses some that no manifest has.
        key = (base.schema.content, len(base.specs))
        if self._bound is None or self._bound[0] != key:
            for column in self._columns:
                column.check(base.schema, case_sensitive=self._case_sensitive)
            made = FileFilter(self._expression, base.schema, base.specs, case_sensitive=self._case_sensitive)
            self._bound = key, made
        return self._bound[1]

    def scope(self, base: TableMetadata) -> MatchingRows:
        """The files that may have such rows."""
        return MatchingRows(self.bind(base), self.text)
