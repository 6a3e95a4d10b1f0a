"""Replace data files by others with the same rows: compaction (Java: RewriteFiles)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.delete_index import DeleteIndex
from iceberg_hms.changes.operations.file_changes import FileChanges
from iceberg_hms.changes.operations.file_scope import WholeTable
from iceberg_hms.changes.operations.manifest_filter import FilteredManifests, ManifestFilter
from iceberg_hms.changes.operations.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent

#: `RequirementFailed.name` of the assumption that the rewritten files are those of the starting snapshot.
PLANNED_FILES: Final = "planned-files"


class Rewrite(FileChanges):
    """Replaces data files by others that have their rows.

    new: what the snapshot has from its caller. remove: locations of the data files that are replaced.
    added: the new files, with the starting snapshot's sequence number as their data sequence number: equality deletes
    that others commit meanwhile then apply to them as they do to the old files (Java: useStartingSequenceNumber, on by
    default there too). Format version 1 has no such numbers.

    Raises InvalidInput for nothing to remove, and for other numbers of rows: more rows than the replaced files have, or
    fewer where no delete file applied to them. Raises RequirementFailed if one of the files is no longer in the branch;
    if others deleted rows of it by position, which the new files still have; or if it was added after the start.
    """

    def __init__(self, new: NewSnapshot, remove: Sequence[str], added: NewDataFiles) -> None:
        if not remove:
            raise InvalidInput("nothing to rewrite", next_step="name at least one file to replace")
        keys = frozenset(map(file_key, remove))
        super().__init__(new, ManifestFilter(new.snapshot_id, keys=keys), added=added, paths=remove)
        self._new_rows = sum(each.record_count for each in added.files)

    @property
    def _operation(self) -> str:
        return summaries.REPLACE

    def _verify(self, filtered: FilteredManifests, state: BranchState, manifests: Manifests) -> None:
        since = self._conflicts.since_start(state)
        removed = [each for each in filtered.removed if each.data_file.content == FileContent.DATA]
        newer = [each for each in removed if (each.sequence_number or 0) > since.sequence_number]
        if newer:
            raise RequirementFailed(
                PLANNED_FILES,
                f"snapshot {newer[0].snapshot_id} added {newer[0].data_file.file_path} after the state on which the "
                "rewrite was planned",
                expected=f"files up to sequence number {since.sequence_number}",
                found=newer[0].sequence_number,
                next_step="reload the table; in a transaction, commit the files first",
            )
        files = [each.data_file for each in removed]
        self._conflicts.no_deletes_for(since, files, WholeTable(), manifests, equality_deletes=False)
        self._check_rows(removed, state, manifests)

    def _check_rows(self, removed: Sequence[ManifestEntry], state: BranchState, manifests: Manifests) -> None:
        rows = sum(each.data_file.record_count for each in removed)
        if self._new_rows == rows:
            return
        if self._new_rows < rows:
            deletes = [each for each in state.manifests if each.content == ManifestContent.DELETES]
            live = manifests.entries(deletes, lambda entry: entry.is_live)
            index = DeleteIndex(live, state.metadata)
            if any(True for each in removed for _ in index.applying_to(each.data_file, each.sequence_number or 0)):
                return
        raise InvalidInput(
            f"the new files have {self._new_rows} rows, and those that they replace {rows}",
            next_step="a rewrite keeps all rows that no delete file deletes; use overwrite to change them",
        )
