"""What a snapshot that is cherry-picked changed, and whether it still may: the files that it added and replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.live_files import LiveFiles, snapshots_of
from iceberg_hms.changes.operations.snapshots.ref_change import commits_since, is_ancestor
from iceberg_hms.changes.partition_set import PartitionSet
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that a snapshot can be committed on another parent.
PICKABLE: Final = "cherry-pick-snapshot"
#: `RequirementFailed.name` of the assumption that main has none of the files that the snapshot adds.
NEW_FILES: Final = "cherry-pick-files"
#: `RequirementFailed.name` of the assumption that nobody changed the partitions that the snapshot overwrote.
PARTITIONS: Final = "cherry-pick-partitions"


@dataclass(frozen=True, slots=True)
class PickedFiles:
    """added, removed: the data files that a snapshot added and removed."""

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]

    @classmethod
    def of(cls, picked: Snapshot, manifests: Manifests) -> PickedFiles:
        """Raises RequirementFailed if the snapshot adds delete files, which only its own parent gives a meaning."""
        id_ = picked.snapshot_id
        own = [each for each in manifests.list(picked) if each.added_snapshot_id == id_]
        if any(each.content == ManifestContent.DELETES and each.added_files_count != 0 for each in own):
            raise RequirementFailed(PICKABLE, f"snapshot {id_} adds delete files, so it cannot be cherry-picked")
        entries = list(manifests.entries(own, lambda entry: _is_change(entry, id_)))
        return cls(
            tuple(each.data_file for each in entries if each.status == EntryStatus.ADDED),
            tuple(each.data_file for each in entries if each.status == EntryStatus.DELETED),
        )

    @property
    def added_keys(self) -> frozenset[str]:
        return frozenset(file_key(each.file_path) for each in self.added)

    @property
    def removed_keys(self) -> frozenset[str]:
        return frozenset(file_key(each.file_path) for each in self.removed)


class OverwrittenPartitions:
    """The partitions that a dynamic overwrite replaced, and which snapshots are known to have left them alone.

    Java looks at the partitions of added files too (CherryPickOperation.validateReplacedPartitions)."""

    def __init__(self, picked: Snapshot, files: PickedFiles) -> None:
        self._picked = picked
        self._partitions = PartitionSet(files.added)
        #: A snapshot never changes, so each is searched once over all replays.
        self._searched: set[int] = set()

    def check(self, base: TableMetadata, head: int, manifests: Manifests) -> None:
        """Raises RequirementFailed if the snapshot that was overwritten is not in the history of `head`, or if a later
        one added a file to a partition."""
        picked, parent = self._picked.snapshot_id, self._picked.parent_snapshot_id
        history = list(base.ancestors(head))
        # A history whose beginning expired does not show all that came after an empty table.
        is_based = history[-1].parent_snapshot_id is None if parent is None else is_ancestor(base, parent, head)
        if not is_based:
            raise RequirementFailed(
                PARTITIONS,
                f"snapshot {picked} overwrote partitions of snapshot {parent}, which is not in the history of main",
                expected=parent,
                found=head,
                next_step="write it again on the table as it is",
            )
        since = [each.snapshot_id for each in history] if parent is None else commits_since(base, head, parent)
        for each in history[: len(since)]:
            if each.snapshot_id not in self._searched:
                self._check_untouched(each, manifests)
                self._searched.add(each.snapshot_id)

    def _check_untouched(self, snapshot: Snapshot, manifests: Manifests) -> None:
        id_ = snapshot.snapshot_id
        own = [
            each
            for each in manifests.list(snapshot)
            if each.added_snapshot_id == id_ and each.content == ManifestContent.DATA and each.added_files_count != 0
        ]
        for entry in manifests.entries(own, lambda entry: _is_change(entry, id_)):
            if entry.status == EntryStatus.ADDED and entry.data_file in self._partitions:
                where = _shown(entry.data_file.partition)
                raise RequirementFailed(
                    PARTITIONS,
                    f"snapshot {self._picked.snapshot_id} overwrote {where}, to which snapshot {id_} has added "
                    f"{entry.data_file.file_path} since",
                    expected=f"no files added to {where} since snapshot {self._picked.parent_snapshot_id}",
                    found=entry.data_file.file_path,
                    next_step="write it again on the table as it is",
                    rests_on=frozenset({id_}),
                )


def refuse_live(files: PickedFiles, kept: Sequence[ManifestFile], manifests: Manifests) -> None:
    """Raises RequirementFailed if a file that the snapshot adds is live in manifests already: it would be there
    twice."""
    found = list(LiveFiles(files.added_keys).find(kept, manifests).values())
    if found:
        raise RequirementFailed(
            NEW_FILES,
            f"main has {len(found)} of the files that the snapshot adds, as {found[0].data_file.file_path} (snapshot "
            f"{found[0].snapshot_id}): it was published before",
            expected="none of the files",
            found=tuple(each.data_file.file_path for each in found),
            next_step="refresh the table and look; delete none of these files, the table reads them",
            rests_on=snapshots_of(*found),
        )


def refuse_gone(files: PickedFiles, missing: frozenset[str]) -> None:
    """Raises RequirementFailed if main has not all files any more that the snapshot replaces. missing: their keys."""
    gone = [each.file_path for each in files.removed if file_key(each.file_path) in missing]
    if gone:
        raise RequirementFailed(
            PARTITIONS,
            f"main has no longer {len(gone)} of the files that the snapshot replaces, as {gone[0]}",
            expected=gone[0],
            next_step="write it again on the table as it is",
        )


def _is_change(entry: ManifestEntry, snapshot_id: int) -> bool:
    is_own = entry.status != EntryStatus.EXISTING and entry.snapshot_id == snapshot_id
    return is_own and entry.data_file.content == FileContent.DATA


def _shown(partition: Mapping[str, Any]) -> str:
    return "partition " + "/".join(f"{name}={value}" for name, value in partition.items()) if partition else "the table"
