"""What keeps deleted rows deleted where an operation replaces delete files or adds deletion vectors.

- No row comes back: a delete file that is replaced had deletes of data files that stay, so the new ones must have them.
  Java does not look. The records of delete files alone say to which data files they apply (`DeleteIndex`). One that
  applies may delete no row of a data file; the caller knows that, and names the data file.
- No data file gets a second deletion vector, and a new one has the positions of the position delete files before it,
  which readers then leave out (spec: Deletion Vectors).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.delete_index import DeleteIndex, applies_everywhere, referenced_data_file
from iceberg_hms.changes.operations.manifests.live_files import OnceRead, snapshots_of
from iceberg_hms.changes.operations.manifests.manifest_filter import DeleteFileKey, FilteredManifests, delete_file_key
from iceberg_hms.changes.operations.manifests.new_delete_files import NewDeleteFiles
from iceberg_hms.changes.operations.snapshot_operation import BranchState
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile

#: `RequirementFailed.name` of the assumptions.
DELETES_KEPT: Final = "deletes-kept"
ONE_VECTOR: Final = "one-deletion-vector"
POSITIONS_MERGED: Final = "positions-merged"


class DeleteCoverage:
    """replaced: keys of the delete files that an operation removes. apart: keys (`format.locations.file_key`) of the
    data files that it removes, too, and of those for whose deletes its caller answers."""

    def __init__(self, replaced: frozenset[DeleteFileKey], apart: frozenset[str]) -> None:
        self._replaced = replaced
        self._apart = apart

    def refuse_lost(
        self,
        filtered: FilteredManifests,
        added: Sequence[ManifestEntry],
        state: BranchState,
        manifests: Manifests,
    ) -> None:
        """Raises RequirementFailed that names a data file of which a replaced delete file may delete rows, if none of
        the new ones may. added: the new delete files, with their numbers."""
        gone = [entry for entry in filtered.removed if delete_file_key(entry.data_file) in self._replaced]
        if not gone:
            return
        base = state.metadata
        old, new = DeleteIndex(gone, base), DeleteIndex(added, base)
        vectors = self._kept_vectors(gone, state, manifests)
        for entry in manifests.entries(_suspects(gone, state, manifests), lambda each: each.is_live):
            path, number = entry.data_file.file_path, entry.sequence_number or 0
            if file_key(path) in self._apart:
                continue
            for lost in old.applying_to(entry.data_file, number):
                if lost.data_file.content == FileContent.POSITION_DELETES and file_key(path) in vectors:
                    continue
                if not any(
                    _may_have(each.data_file, lost.data_file) for each in new.applying_to(entry.data_file, number)
                ):
                    raise _lost(entry, lost)

    def _kept_vectors(self, gone: Sequence[ManifestEntry], state: BranchState, manifests: Manifests) -> frozenset[str]:
        """The data files whose deletion vectors stay: each has the positions of all older delete files (spec: Deletion
        Vectors)."""
        if all(each.data_file.is_deletion_vector for each in gone) or state.metadata.format_version < 3:
            return frozenset()
        deletes = [each for each in state.manifests if each.content == ManifestContent.DELETES]
        kept = manifests.entries(
            deletes,
            lambda each: (
                each.is_live
                and each.data_file.is_deletion_vector
                and delete_file_key(each.data_file) not in self._replaced
            ),
        )
        return frozenset(file_key(each.data_file.referenced_data_file or "/") for each in kept)


class LiveVectors:
    """The live deletes by position of the data files for which an operation adds a deletion vector.

    deletes: what the operation adds. replaced: the delete files that it removes.
    """

    def __init__(self, deletes: NewDeleteFiles, replaced: frozenset[DeleteFileKey]) -> None:
        self._keys = deletes.vector_keys
        self._partitions = PartitionSet(each for each in deletes.files if each.is_deletion_vector)
        self._replaced = replaced
        self._once: OnceRead[ManifestFile, Sequence[ManifestEntry]] = OnceRead(())

    def refuse(self, state: BranchState, data: Mapping[str, ManifestEntry], manifests: Manifests) -> None:
        """Raises RequirementFailed if a data file has a vector, or position deletes, that the operation does not
        replace. data: the live data files, by their keys."""
        kept = [each for each in self.find(state, manifests) if delete_file_key(each.data_file) not in self._replaced]
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

    def find(self, state: BranchState, manifests: Manifests) -> Sequence[ManifestEntry]:
        """The deletes in a branch."""
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


def _suspects(gone: Sequence[ManifestEntry], state: BranchState, manifests: Manifests) -> Sequence[ManifestFile]:
    """The data manifests that may list a file to which one of the delete files applies."""
    files, base = [each.data_file for each in gone], state.metadata
    data = [each for each in state.manifests if each.content == ManifestContent.DATA and each.has_live_files]
    if any(applies_everywhere(each, base) for each in files):
        return data
    partitions = PartitionSet(files)
    suspects = [each for each in data if partitions.may_contain(each, base)]
    named = {referenced_data_file(each) for each in files}
    if None in named:
        return suspects
    return manifests.candidates(suspects, frozenset(file_key(path) for path in named if path))


def _may_have(new: DataFile, lost: DataFile) -> bool:
    """Whether a new delete file, which applies to the same data file, may delete the same rows."""
    if new.content == FileContent.POSITION_DELETES:
        return True
    return lost.content == new.content and set(new.equality_ids or ()) == set(lost.equality_ids or ())


def _lost(data: ManifestEntry, lost: ManifestEntry) -> RequirementFailed:
    path, deletes = data.data_file.file_path, lost.data_file.file_path
    return RequirementFailed(
        DELETES_KEPT,
        f"{path} stays, and its deletes are removed: {deletes}",
        expected="new deletes for each data file that keeps rows which a replaced delete file may delete",
        found=path,
        next_step="add a delete file with its positions; if no row of it is deleted, name it in referenced_files",
        rests_on=snapshots_of(data, lost),
    )
