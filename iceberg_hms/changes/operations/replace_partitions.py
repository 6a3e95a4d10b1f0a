"""Replace the partitions of new files: dynamic overwrite (Java: ReplacePartitions)."""

from __future__ import annotations

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.file_changes import FileChanges
from iceberg_hms.changes.operations.file_scope import EveryRow, FileScope, Partitions, RowFilter, WholeTable
from iceberg_hms.changes.operations.isolation import Isolation, check_isolation
from iceberg_hms.changes.operations.manifest_filter import FilteredManifests, ManifestFilter
from iceberg_hms.changes.operations.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata


class ReplacePartitions(FileChanges):
    """Removes all files of the partitions in which the new files are, and adds the new files.

    new: what the snapshot has from its caller. added: the new files, all of one partition spec. If that has no fields,
    they replace the whole table. Files of other specs are in no partition of this one, as in Java.
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
        super().__init__(new, ManifestFilter(new.snapshot_id, partitions=self._partitions), added=added)

    @property
    def _operation(self) -> str:
        return summaries.OVERWRITE

    def _rows(self, base: TableMetadata) -> RowFilter | None:
        return EveryRow() if self._replaces_all(base) else None

    def _refuse_conflicts(self, state: BranchState, manifests: Manifests) -> None:
        base = state.metadata
        scope: FileScope = WholeTable() if self._replaces_all(base) else Partitions(self._partitions, base)
        since = self._conflicts.since_start(state)
        if self._isolation == "serializable":
            self._conflicts.no_new_data(since, scope, manifests)
        self._conflicts.no_removed_data(since, scope, manifests)
        self._conflicts.no_new_deletes(since, scope, manifests)

    def _metrics(self, filtered: FilteredManifests) -> dict[str, str]:
        return {summaries.REPLACE_PARTITIONS: "true", **super()._metrics(filtered)}

    def _replaces_all(self, base: TableMetadata) -> bool:
        spec = base.spec_by_id(self._spec_id)
        return spec is not None and spec.is_unpartitioned
