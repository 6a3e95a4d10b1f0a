"""The assumptions that no data file gets a second deletion vector, and that a new one has the positions of the position
delete files before it, which readers then leave out (spec: Deletion Vectors)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.delete_index import DeleteIndex, referenced_data_file
from iceberg_hms.changes.operations.live_files import OnceRead, snapshots_of
from iceberg_hms.changes.operations.manifest_filter import DeleteFileKey, delete_file_key
from iceberg_hms.changes.operations.new_delete_files import NewDeleteFiles
from iceberg_hms.changes.operations.snapshot_operation import BranchState
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile

#: `RequirementFailed.name` of the assumptions.
ONE_VECTOR: Final = "one-deletion-vector"
POSITIONS_MERGED: Final = "positions-merged"


class LiveVectors:
    """The live deletes by position of the data files for which an operation adds a deletion vector.

    deletes: what the operation adds. replaced: the delete files that it removes.
    """

    def __init__(self, deletes: NewDeleteFiles, replaced: frozenset[DeleteFileKey]) -> None:
        self._keys = deletes.vector_keys
        self._partitions = PartitionSet(each for each in deletes.files if each.is_deletion_vector)
        self._replaced = replaced
        self._once: OnceRead[ManifestFile, Sequence[ManifestEntry]] = OnceRead(())

    def look_ahead(self, state: BranchState, manifests: Manifests) -> None:
        """Search a branch, and refuse nothing. Raises MissingFile, CorruptFile or StorageError."""
        self._find(state, manifests)

    def refuse(self, state: BranchState, data: Mapping[str, ManifestEntry], manifests: Manifests) -> None:
        """Raises RequirementFailed if a data file has a vector, or position deletes, that the operation does not
        replace. data: the live data files, by their keys."""
        kept = [each for each in self._find(state, manifests) if delete_file_key(each.data_file) not in self._replaced]
        self._refuse_unmerged(kept, data, state)
        for entry in kept:
            if not entry.data_file.is_deletion_vector:
                continue
            path = entry.data_file.referenced_data_file
            raise RequirementFailed(
                ONE_VECTOR,
                f"{path} has a deletion vector already, of snapshot {entry.snapshot_id}: a data file has at most one",
                expected="no deletion vector, or one that the new one replaces",
                found=entry.data_file.file_path,
                next_step="put its positions into the new vector, and name it as one that is replaced",
                rests_on=snapshots_of(entry),
            )

    def _refuse_unmerged(
        self, kept: Sequence[ManifestEntry], data: Mapping[str, ManifestEntry], state: BranchState
    ) -> None:
        positions = DeleteIndex([each for each in kept if not each.data_file.is_deletion_vector], state.metadata)
        for entry in (data[key] for key in sorted(self._keys & data.keys())):
            for old in positions.applying_to(entry.data_file, entry.sequence_number or 0):
                path = entry.data_file.file_path
                raise RequirementFailed(
                    POSITIONS_MERGED,
                    f"{old.data_file.file_path} may delete rows of {path} by position, and readers leave it out where "
                    "there is a deletion vector",
                    expected="a deletion vector that replaces the position deletes before it",
                    found=old.data_file.file_path,
                    next_step="put its positions into the new vector, and name it as one that is replaced",
                    rests_on=snapshots_of(old),
                )

    def _find(self, state: BranchState, manifests: Manifests) -> Sequence[ManifestEntry]:
        if not self._keys:
            return ()
        listed = [each for each in state.manifests if each.content == ManifestContent.DELETES and each.has_live_files]

        def read(new: Sequence[ManifestFile]) -> Iterator[tuple[ManifestFile, Sequence[ManifestEntry]]]:
            suspects = [each for each in new if self._partitions.may_contain(each, state.metadata)]
            for file, entries in manifests.read(suspects):
                yield file, [each for each in entries if each.is_live and self._concerns(each.data_file)]

        return [entry for found in self._once.of(listed, read) for entry in found]

    def _concerns(self, delete_file: DataFile) -> bool:
        if delete_file.content != FileContent.POSITION_DELETES:
            return False
        path = referenced_data_file(delete_file)
        return delete_file in self._partitions if path is None else file_key(path) in self._keys
