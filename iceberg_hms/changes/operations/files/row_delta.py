"""Delete rows by delete files, and add others: merge-on-read (Java: RowDelta)."""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.files.file_changes import FileChanges
from iceberg_hms.changes.operations.manifests.conflicts import Isolation, check_isolation
from iceberg_hms.changes.operations.manifests.delete_index import referenced_data_file
from iceberg_hms.changes.operations.manifests.file_scope import EveryRow, Partitions, Where
from iceberg_hms.changes.operations.manifests.kept_deletes import DeleteCoverage, LiveVectors
from iceberg_hms.changes.operations.manifests.live_files import LiveFiles
from iceberg_hms.changes.operations.manifests.manifest_filter import FilteredManifests, ManifestFilter, delete_file_key
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.manifests.new_delete_files import NewDeleteFiles
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.changes.partition_set import PartitionSet, partition_key
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry


class RowDelta(FileChanges):
    """Adds delete files that others wrote, and data files.

    added: the new data files; None: none. deletes: the new delete files.
    replaced_deletes: delete files that the new ones replace: a deletion vector has the positions of the one before it.
    referenced: locations of data files that the deletes were made for, besides those that the deletes name.
    where: the rows that the caller read to find out what to delete; None: all.
    isolation: "serializable": refuse if others added such rows since the start. With either level an update, which adds
    data files too, is refused if others deleted such rows.

    Where position deletes do not say of which data file they are, and `referenced` does not either, the operation is
    refused if others removed a data file of their partition since the start.
    A data file that the deletes name must be in the branch. Java lets a commit pass whose data files another one
    deleted, unless it asks; here it is refused, since its caller counted on rows that are gone.
    """

    def __init__(
        self,
        new: NewSnapshot,
        added: NewDataFiles | None,
        deletes: NewDeleteFiles,
        *,
        replaced_deletes: Sequence[DataFile] = (),
        referenced: Sequence[str] = (),
        where: Where | None = None,
        isolation: Isolation = "serializable",
    ) -> None:
        check_isolation(isolation)
        if not deletes.files and (added is None or not added.files):
            raise InvalidInput("nothing to add", next_step="give at least one data file or delete file")
        self._adds_data = added is not None and bool(added.files)
        self._isolation = isolation
        self._read = where or EveryRow()
        removed = frozenset(map(delete_file_key, replaced_deletes))
        paths = (*deletes.referenced, *referenced)
        operation = summaries.OVERWRITE if self._adds_data else summaries.DELETE
        super().__init__(
            new,
            operation if deletes.files else summaries.APPEND,
            ManifestFilter(new.snapshot_id, deletes=removed),
            added=added,
            added_deletes=deletes,
            paths=paths,
        )
        unnamed = [each for each in deletes.files if not referenced and _names_no_data_file(each)]
        self._of_unnamed_files = PartitionSet(unnamed)
        self._referenced = LiveFiles(frozenset(self._paths))
        self._vectors = LiveVectors(deletes, removed)
        self._coverage = DeleteCoverage(removed, frozenset(map(file_key, referenced)))

    def _look_ahead(self, state: BranchState, manifests: Manifests) -> None:
        super()._look_ahead(state, manifests)
        self._referenced.find(state.manifests, manifests)
        self._vectors.find(state, manifests)

    def _refuse_conflicts(self, state: BranchState, manifests: Manifests) -> None:
        scope = self._read.bind(state.metadata)
        since = self._conflicts.since_start(state)
        named = self._named_data(state, manifests)
        if self._isolation == "serializable":
            self._conflicts.no_new_data(since, scope, manifests)
        if self._adds_data and self._deletes.files:
            self._conflicts.no_new_deletes(since, scope, manifests)
        self._conflicts.no_new_vectors(since, self._deletes.vector_keys, manifests)
        self._vectors.refuse(state, named, manifests)
        if self._of_unnamed_files:
            # Others may have moved the rows of which they have positions.
            self._conflicts.no_removed_data(since, Partitions(self._of_unnamed_files, state.metadata), manifests)

    def _verify(self, filtered: FilteredManifests, state: BranchState, manifests: Manifests) -> None:
        added = self._deletes.entries({}, state.metadata.next_sequence_number)
        self._coverage.refuse_lost(filtered, added, state, manifests)

    def _named_data(self, state: BranchState, manifests: Manifests) -> dict[str, ManifestEntry]:
        """The data files that the deletes are of, by their keys. Raises RequirementFailed if one is not live,
        InvalidInput for deletes of another partition or in another spelling."""
        found = self._referenced.find(state.manifests, manifests)
        gone = sorted(self._paths.keys() - found.keys())
        if gone:
            self._refuse_gone(gone, state, manifests)
        self._deletes.check_spelling(found)
        for each in self._deletes.files:
            path = referenced_data_file(each)
            if path is not None and partition_key(found[file_key(path)].data_file) != partition_key(each):
                raise InvalidInput(
                    f"{each.file_path} is of another partition or spec than {path}, whose rows it deletes"
                )
        return found


def _names_no_data_file(delete_file: DataFile) -> bool:
    """Whether its record does not say of which data file it has positions."""
    return delete_file.content == FileContent.POSITION_DELETES and referenced_data_file(delete_file) is None
