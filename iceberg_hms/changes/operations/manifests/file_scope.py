"""Which files of a table an operation is about: all, those of some partitions, or those that may match a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iceberg_hms.changes.operations.manifests.delete_index import applies_everywhere
from iceberg_hms.changes.operations.schema.seen_columns import SeenColumn, find_column
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.expressions.binding import bind
from iceberg_hms.expressions.expression import Expression, column_names
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema


class FileScope(Protocol):
    """The part of a table in which changes by others conflict with an operation. As text: for messages."""

    def may_match_manifest(self, manifest: ManifestFile) -> bool:
        """Whether a manifest may have a file of this part."""
        ...

    def may_match(self, data_file: DataFile) -> bool:
        """Whether rows of a file may be of this part; of a delete file: whether it may delete such a row."""
        ...


class RowFilter(FileScope, Protocol):
    """A filter of rows, bound to a table's schema and partition specs; it judges files by partition values, bounds and
    counts."""

    @property
    def text(self) -> str:
        """The filter, for messages."""
        ...

    def must_match(self, data_file: DataFile) -> bool:
        """Whether every row of a file matches; of a delete file: whether it deletes no row that does not match."""
        ...


class EveryRow:
    """A `RowFilter` that every row of any table matches."""

    text = "all rows"

    def __str__(self) -> str:
        return "the table"

    def bind(self, base: TableMetadata) -> EveryRow:  # noqa: ARG002 - for every table
        """As `Where.bind`."""
        return self

    def may_match_manifest(self, manifest: ManifestFile) -> bool:  # noqa: ARG002 - every one
        return True

    def may_match(self, data_file: DataFile) -> bool:  # noqa: ARG002 - every one
        return True

    def must_match(self, data_file: DataFile) -> bool:  # noqa: ARG002 - every one
        return True


@dataclass(frozen=True)
class Partitions:
    """The files of some partitions, and equality deletes without a partition, which apply to all (spec: Scan Planning).
    Java does not count the latter."""

    partitions: PartitionSet
    base: TableMetadata

    def may_match_manifest(self, manifest: ManifestFile) -> bool:
        spec = self.base.spec_by_id(manifest.partition_spec_id)
        return spec is None or spec.is_unpartitioned or self.partitions.may_contain(manifest, self.base)

    def may_match(self, data_file: DataFile) -> bool:
        return applies_everywhere(data_file, self.base) or data_file in self.partitions

    def __str__(self) -> str:
        return "one partition" if len(self.partitions) == 1 else f"{len(self.partitions)} partitions"


class Where:
    """A filter of rows as an operation has it: bound anew to each state of the table on which the operation is staged.
    It names columns. If another writer renamed one and gave its name to another column, the filter would be about other
    rows than its caller meant; so each column must still be the one that the caller saw.

    text: the filter, for messages.

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
            bound = bind(self._expression, base.schema, case_sensitive=self._case_sensitive)
            self._bound = key, FileFilter(bound, base.specs_by_id, self.text)
        return self._bound[1]
