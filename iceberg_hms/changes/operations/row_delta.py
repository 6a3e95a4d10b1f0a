"""Delete rows by delete files, and add others: merge-on-read (Java: RowDelta)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.delete_index import referenced_data_file
from iceberg_hms.changes.operations.file_changes import FileChanges
from iceberg_hms.changes.operations.file_scope import FileScope, WholeTable
from iceberg_hms.changes.operations.isolation import Isolation, check_isolation
from iceberg_hms.changes.operations.live_files import LiveFiles
from iceberg_hms.changes.operations.manifest_filter import (
    ManifestFilter,
    delete_file_key,
    is_deletion_vector,
)
from iceberg_hms.changes.operations.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.new_delete_files import NewDeleteFiles
from iceberg_hms.changes.operations.partition_set import PartitionSet, partition_key
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.changes.operations.where import Where
from iceberg_hms.errors import IcebergHmsError, InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that no data file gets a second deletion vector.
ONE_VECTOR: Final = "one-deletion-vector"


class RowDelta(FileChanges):
    """Adds delete files that others wrote, and data files.

    new: what the snapshot has from its caller. added: the new data files; None: none. deletes: the new delete files.
    replaced_deletes: delete files that the new ones replace: a deletion vector has the positions of the one before it.
    referenced: locations of data files that the deletes were made for, besides those that the deletes name.
    where: the rows that the caller read to find out what to delete; None: all.
    isolation: "serializable": refuse if others added such rows since the start. With either level an update, which adds
    data files too, is refused if others deleted such rows.

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
        self._deletes = deletes
        self._isolation = isolation
        self._where = where
        removed = frozenset(map(delete_file_key, replaced_deletes))
        named = [path for each in deletes.files if (path := referenced_data_file(each)) is not None]
        paths = (*named, *referenced)
        super().__init__(
            new, ManifestFilter(new.snapshot_id, deletes=removed), added=added, added_deletes=deletes, paths=paths
        )
        self._referenced = LiveFiles(frozenset(self._paths))
        self._replaced = removed
        #: By the list's entry, whose numbers the files inherit.
        self._known_vectors: dict[ManifestFile, Sequence[ManifestEntry]] = {}

    @property
    def _operation(self) -> str:
        if not self._deletes.files:
            return summaries.APPEND
        return summaries.OVERWRITE if self._adds_data else summaries.DELETE

    def look_ahead(self, base: TableMetadata, manifests: Manifests) -> None:
        """Search for the data files and vectors, besides what all operations do."""
        super().look_ahead(base, manifests)
        with contextlib.suppress(IcebergHmsError):
            state = BranchState.read(base, self._new.branch, manifests)
            self._referenced.find(state.manifests, manifests)
            self._vectors(state, manifests)

    def _refuse_conflicts(self, state: BranchState, manifests: Manifests) -> None:
        scope: FileScope = WholeTable() if self._where is None else self._where.scope(state.metadata)
        since = self._conflicts.since_start(state)
        self._refuse_missing_data(state, manifests)
        if self._isolation == "serializable":
            self._conflicts.no_new_data(since, scope, manifests)
        if self._adds_data and self._deletes.files:
            self._conflicts.no_new_deletes(since, scope, manifests)
        self._conflicts.no_new_vectors(since, self._deletes.vector_keys, WholeTable(), manifests)
        self._refuse_second_vectors(state, manifests)

    def _refuse_missing_data(self, state: BranchState, manifests: Manifests) -> None:
        found = self._referenced.find(state.manifests, manifests)
        gone = sorted(self._paths.keys() - found.keys())
        if gone:
            self._refuse_gone(gone, state, manifests)
        for each in self._deletes.files:
            path = referenced_data_file(each)
            if path is not None and partition_key(found[file_key(path)].data_file) != partition_key(each):
                raise InvalidInput(
                    f"{each.file_path} is of another partition or spec than {path}, whose rows it deletes"
                )

    def _refuse_second_vectors(self, state: BranchState, manifests: Manifests) -> None:
        for entry in self._vectors(state, manifests):
            if delete_file_key(entry.data_file) in self._replaced:
                continue
            path = entry.data_file.referenced_data_file
            raise RequirementFailed(
                ONE_VECTOR,
                f"{path} has a deletion vector already, of snapshot {entry.snapshot_id}: a data file has at most one",
                expected="no deletion vector, or one that the new one replaces",
                found=entry.data_file.file_path,
                next_step="put its positions into the new vector, and name it in replaced_deletes",
                rests_on=frozenset() if entry.snapshot_id is None else frozenset({entry.snapshot_id}),
            )

    def _vectors(self, state: BranchState, manifests: Manifests) -> Sequence[ManifestEntry]:
        """The live deletion vectors of the data files for which there is a new one."""
        keys = self._deletes.vector_keys
        if not keys:
            return ()
        listed = [each for each in state.manifests if each.content == ManifestContent.DELETES and each.has_live_files]
        partitions = PartitionSet(each for each in self._deletes.files if is_deletion_vector(each))
        new = [each for each in listed if each not in self._known_vectors]
        for file, entries in manifests.read([each for each in new if partitions.may_contain(each, state.metadata)]):
            self._known_vectors[file] = [
                each
                for each in entries
                if each.is_live
                and is_deletion_vector(each.data_file)
                and file_key(each.data_file.referenced_data_file or "/") in keys
            ]
        for each in new:
            self._known_vectors.setdefault(each, ())
        return [entry for each in listed for entry in self._known_vectors[each]]
