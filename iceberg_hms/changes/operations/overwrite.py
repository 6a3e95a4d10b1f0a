"""Replace the rows that match a filter by new files (Java: OverwriteFiles)."""

from __future__ import annotations

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.file_changes import FileChanges
from iceberg_hms.changes.operations.file_scope import EveryRow, FileScope, RowFilter, WholeTable
from iceberg_hms.changes.operations.isolation import Isolation, check_isolation
from iceberg_hms.changes.operations.manifest_filter import ManifestFilter
from iceberg_hms.changes.operations.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.changes.operations.where import Where
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata


class Overwrite(FileChanges):
    """Removes the data files whose rows all match a filter, and adds new files.

    new: what the snapshot has from its caller. added: the new files; none makes a delete that checks for conflicts.
    where: the filter; None: all rows. isolation: "serializable": refuse if others added files since the start in which
    rows may match, or removed such files or rows. "snapshot": only the latter.

    Raises InvalidInput for a new file with rows that may not match: the same overwrite, made again, would not remove
    them. Raises RequirementFailed as `DeleteRows`, and for what others committed.
    """

    def __init__(
        self,
        new: NewSnapshot,
        added: NewDataFiles,
        where: Where | None = None,
        *,
        isolation: Isolation = "serializable",
    ) -> None:
        check_isolation(isolation)
        super().__init__(new, ManifestFilter(new.snapshot_id), added=added)
        self._new_files = added.files
        self._where = where
        self._isolation = isolation

    @property
    def _operation(self) -> str:
        return summaries.OVERWRITE if self._new_files else summaries.DELETE

    def _check(self, base: TableMetadata) -> None:
        super()._check(base)
        rows = self._rows(base)
        for each in self._new_files:
            if not rows.may_match(each) or not rows.must_match(each):
                raise InvalidInput(
                    f"{each.file_path} may have rows that do not match {self._rows_text}",
                    next_step="choose a filter that all rows of the new files match",
                )

    def _rows(self, base: TableMetadata) -> RowFilter:
        return EveryRow() if self._where is None else self._where.bind(base)

    @property
    def _rows_text(self) -> str:
        return "all rows" if self._where is None else self._where.text

    def _refuse_conflicts(self, state: BranchState, manifests: Manifests) -> None:
        scope: FileScope = WholeTable() if self._where is None else self._where.scope(state.metadata)
        since = self._conflicts.since_start(state)
        if self._isolation == "serializable":
            self._conflicts.no_new_data(since, scope, manifests)
        self._conflicts.no_removed_data(since, scope, manifests)
        self._conflicts.no_new_deletes(since, scope, manifests)
