"""The assumption that no data file gets a second deletion vector (spec: Deletion Vectors)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifest_filter import DeleteFileKey, delete_file_key, is_deletion_vector
from iceberg_hms.changes.operations.new_delete_files import NewDeleteFiles
from iceberg_hms.changes.operations.partition_set import PartitionSet
from iceberg_hms.changes.operations.snapshot_operation import BranchState
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile

#: `RequirementFailed.name` of the assumption.
ONE_VECTOR: Final = "one-deletion-vector"


class LiveVectors:
    """The live deletion vectors of the data files for which an operation adds one. A manifest never changes, so each is
    read once over all replays.

    deletes: what the operation adds. replaced: the delete files that it removes.
    """

    def __init__(self, deletes: NewDeleteFiles, replaced: frozenset[DeleteFileKey]) -> None:
        self._keys = deletes.vector_keys
        self._partitions = PartitionSet(each for each in deletes.files if is_deletion_vector(each))
        self._replaced = replaced
        #: By the list's entry, whose numbers the files inherit.
        self._known: dict[ManifestFile, Sequence[ManifestEntry]] = {}

    def look_ahead(self, state: BranchState, manifests: Manifests) -> None:
        """Search a branch, and refuse nothing. Raises MissingFile, CorruptFile or StorageError."""
        self._find(state, manifests)

    def refuse(self, state: BranchState, manifests: Manifests) -> None:
        """Raises RequirementFailed if a data file has a vector that the operation does not replace."""
        for entry in self._find(state, manifests):
            if delete_file_key(entry.data_file) in self._replaced:
                continue
            path = entry.data_file.referenced_data_file
            raise RequirementFailed(
                ONE_VECTOR,
                f"{path} has a deletion vector already, of snapshot {entry.snapshot_id}: a data file has at most one",
                expected="no deletion vector, or one that the new one replaces",
                found=entry.data_file.file_path,
                next_step="put its positions into the new vector, and name it as one that is replaced",
                rests_on=frozenset() if entry.snapshot_id is None else frozenset({entry.snapshot_id}),
            )

    def _find(self, state: BranchState, manifests: Manifests) -> Sequence[ManifestEntry]:
        if not self._keys:
            return ()
        listed = [each for each in state.manifests if each.content == ManifestContent.DELETES and each.has_live_files]
        new = [each for each in listed if each not in self._known]
        for file, entries in manifests.read(
            [each for each in new if self._partitions.may_contain(each, state.metadata)]
        ):
            self._known[file] = [
                each
                for each in entries
                if each.is_live
                and is_deletion_vector(each.data_file)
                and file_key(each.data_file.referenced_data_file or "/") in self._keys
            ]
        for each in new:
            self._known.setdefault(each, ())
        return [entry for each in listed for entry in self._known[each]]
