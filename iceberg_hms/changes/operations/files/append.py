"""Append data files: the operation that conflicts with no other one.

The new snapshot's list is the append's own manifests, then all of its parent's, merged where there are many small ones
(Java's MergeAppend, and its FastAppend if merging is off). A replay computes only the list, the numbers and the totals
again.

An append conflicts only with itself: adding a file that the branch already has would double its rows, so such an
append is refused.
"""

from __future__ import annotations

from typing import ClassVar

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.live_files import DuplicateFiles
from iceberg_hms.changes.operations.manifests.manifest_merge import ManifestMerge
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.manifests.row_lineage import refuse_values_of_new_rows
from iceberg_hms.changes.operations.snapshot_operation import (
    BranchState,
    NewSnapshot,
    SnapshotContent,
    SnapshotOperation,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata


class Append(SnapshotOperation):
    """Adds data files to a branch.

    added: the files to add; no files make an empty snapshot.
    check_duplicates: whether to refuse files that are live in the branch, in any partition and under any spelling of
    their location (`format.locations.file_key`). The specification leaves that to writers (spec: manifests).

    Raises InvalidInput for files that carry row ids, since their rows are new.
    """

    _creates_branch: ClassVar[bool] = True

    def __init__(self, new: NewSnapshot, added: NewDataFiles, *, check_duplicates: bool = True) -> None:
        for each in added.files:
            refuse_values_of_new_rows(each, added.lineage(each))
        super().__init__(new)
        self._added = added
        self._duplicates = DuplicateFiles(added if check_duplicates else None, new.snapshot_id)
        self._merge = ManifestMerge(new.snapshot_id)

    def _look_ahead(self, state: BranchState, manifests: Manifests) -> None:
        self._duplicates.find(state.manifests, manifests)

    def _check(self, base: TableMetadata) -> None:
        self._added.check(base)

    def _content(self, state: BranchState, manifests: Manifests) -> SnapshotContent:
        self._duplicates.refuse(self._new.branch, state.manifests, manifests)
        own = self._added.manifests(state.metadata, manifests)
        return self._merge.apply(
            state.metadata,
            own,
            state.manifests,
            manifests,
            operation=summaries.APPEND,
            metrics=summaries.file_metrics(self._added.files),
            updates=self._added.name_mapping_update(state.metadata),
        )
