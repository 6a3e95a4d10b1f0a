"""Replace rows by new files: those that match a filter (Java: OverwriteFiles), or all of the new files' partitions
(Java: ReplacePartitions)."""

from __future__ import annotations

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.files.file_changes import FileChanges
from iceberg_hms.changes.operations.manifests.conflicts import Isolation, check_isolation
from iceberg_hms.changes.operations.manifests.file_scope import (
    EveryRow,
    FileScope,
    Partitions,
    RowFilter,
    Where,
)
from iceberg_hms.changes.operations.manifests.manifest_filter import FilteredManifests, ManifestFilter
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata


class Overwrite(FileChanges):
    """Removes the data files whose rows all match a filter, and adds new files.

    added: the new files; none makes a delete that checks for conflicts.
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
        self._new_files = added.files
        self._replaced = where or EveryRow()
        self._isolation = isolation
        operation = summaries.OVERWRITE if added.files else summaries.DELETE
        super().__init__(new, operation, ManifestFilter(new.snapshot_id), where=self._replaced, added=added)

    def _check(self, base: TableMetadata) -> None:
        super()._check(base)
        rows = self._replaced.bind(base)
        for each in self._new_files:
            if not rows.may_match(each) or not rows.must_match(each):
                raise InvalidInput(
                    f"{each.file_path} may have rows that do not match {rows.text}",
                    next_step="choose a filter that all rows of the new files match",
                )

    def _refuse_conflicts(self, state: BranchState, manifests: Manifests) -> None:
        self._conflicts.no_changes(state, self._replaced.bind(state.metadata), self._isolation, manifests)


class ReplacePartitions(FileChanges):
    """Removes all files of the partitions in which the new files are, and adds the new files.

    added: the new files, all of one partition spec. If that has no fields, they replace the whole table. Files of other
    specs are in no partition of this one, as in Java.
    isolation: "serializable": refuse if others added files to these partitions since the start, or removed files or
    rows of them. "snapshot": only the latter.

    Raises InvalidInput for no files, for files of several specs, and for another isolation.
    """

    def __init__(self, new: NewSnapshot, added: NewDataFiles, *, isolation: Isolation = "serializable") -> None:
        check_isolation(isolation)
        specs = {each.spec_id for each in added.files}
        if len(specs) != 1:
            raise InvalidInput(
                "nothing to replace partitions with"
                if not specs
                else f"the files are of several specs: {sorted(specs)}",
                next_step="give files of one partition spec",
            )
        self._spec_id = min(specs)
        self._partitions = PartitionSet(added.files)
        self._isolation = isolation
        filter_ = ManifestFilter(new.snapshot_id, partitions=self._partitions)
        super().__init__(new, summaries.OVERWRITE, filter_, added=added)

    def _rows(self, base: TableMetadata) -> RowFilter | None:
        return EveryRow() if self._replaces_all(base) else None

    def _refuse_conflicts(self, state: BranchState, manifests: Manifests) -> None:
        base = state.metadata
        scope: FileScope = EveryRow() if self._replaces_all(base) else Partitions(self._partitions, base)
        self._conflicts.no_changes(state, scope, self._isolation, manifests)

    def _metrics(self, filtered: FilteredManifests) -> dict[str, str]:
        return {summaries.REPLACE_PARTITIONS: "true", **super()._metrics(filtered)}

    def _replaces_all(self, base: TableMetadata) -> bool:
        spec = base.spec_by_id(self._spec_id)
        return spec is not None and spec.is_unpartitioned
