"""Replace data files by others with the same rows, and delete files by others with the same deletes: compaction (Java:
RewriteFiles)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.files.file_changes import FileChanges
from iceberg_hms.changes.operations.manifests.delete_index import DeleteIndex
from iceberg_hms.changes.operations.manifests.kept_deletes import DeleteCoverage, LiveVectors
from iceberg_hms.changes.operations.manifests.live_files import LiveFiles
from iceberg_hms.changes.operations.manifests.manifest_filter import FilteredManifests, ManifestFilter, delete_file_key
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.manifests.new_delete_files import DeleteNumbers, NewDeleteFiles
from iceberg_hms.changes.operations.manifests.row_lineage import refuse_lost_row_ids
from iceberg_hms.changes.operations.snapshot_operation import BranchState, NewSnapshot
from iceberg_hms.changes.partition_set import PartitionKey, partition_key
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent

#: `RequirementFailed.name` of the assumption that the rewritten files are those of the starting snapshot.
PLANNED_FILES: Final = "planned-files"


class Rewrite(FileChanges):
    """Replaces data files by others that have their rows, and delete files by others that delete the same rows.

    remove: locations of the data files that are replaced.
    added: the new files, with the starting snapshot's sequence number as their data sequence number: equality deletes
    that others commit meanwhile then apply to them as they do to the old files (Java: useStartingSequenceNumber, on by
    default there too). Format version 1 has no such numbers.
    remove_deletes, deletes: the delete files that are replaced, and the new ones, with the numbers that
    `RewrittenDeletes` says. Deletion vectors of replaced data files go by themselves. referenced: locations of data
    files for whose deletes the caller answers (`DeleteCoverage`).

    Raises InvalidInput for nothing to remove, for new files without a file of their kind that they replace, and for
    other numbers of rows: more rows than the replaced files have, or fewer where no delete file applied to them. Raises
    RequirementFailed if one of the files is no longer in the branch; if others deleted rows of a data file by position,
    which the new files still have; if it was added after the start; if others gave a data file a deletion vector; if
    the branch never had a data file of which there are new deletes; if a data file that stays would lose deletes; or if
    rows would lose their ids, or the numbers of their last updates (`row_lineage.refuse_lost_row_ids`).
    """

    def __init__(
        self,
        new: NewSnapshot,
        remove: Sequence[str],
        added: NewDataFiles,
        *,
        remove_deletes: Sequence[DataFile] = (),
        deletes: NewDeleteFiles | None = None,
        referenced: Sequence[str] = (),
    ) -> None:
        if not remove and (added.files or not remove_deletes):
            raise InvalidInput("nothing to rewrite", next_step="name at least one file to replace")
        keys = frozenset(map(file_key, remove))
        deletes = deletes or NewDeleteFiles((), snapshot_id=new.snapshot_id)
        self._rewritten_deletes = RewrittenDeletes(remove_deletes, deletes)
        self._coverage = DeleteCoverage(self._rewritten_deletes.keys, keys | set(map(file_key, referenced)))
        named = (*deletes.referenced, *referenced)
        self._removed, self._named = keys, frozenset(map(file_key, named))
        self._live = LiveFiles(self._named)
        removes = ManifestFilter(new.snapshot_id, keys=keys, deletes=self._rewritten_deletes.keys)
        paths = (*remove, *named)
        super().__init__(new, summaries.REPLACE, removes, added=added, added_deletes=deletes, paths=paths)
        self._vectors = LiveVectors(deletes, self._rewritten_deletes.keys)
        self._new_files = added
        self._new_rows = sum(each.record_count for each in added.files)

    def _look_ahead(self, state: BranchState, manifests: Manifests) -> None:
        super()._look_ahead(state, manifests)
        self._vectors.find(state, manifests)

    def _delete_numbers(self, filtered: FilteredManifests) -> DeleteNumbers:
        return self._rewritten_deletes.numbers(filtered)

    def _verify(self, filtered: FilteredManifests, state: BranchState, manifests: Manifests) -> None:
        live = self._named_data(state, manifests)
        numbers = self._rewritten_deletes.numbers(filtered)
        self._coverage.refuse_lost(filtered, self._deletes.entries(numbers), state, manifests)
        self._vectors.refuse(state, live, manifests)
        if self._removed:
            self._verify_data(filtered, state, manifests)

    def _named_data(self, state: BranchState, manifests: Manifests) -> dict[str, ManifestEntry]:
        """The live data files that are named, by their keys. Raises RequirementFailed for new deletes of a data file
        that the branch never had, InvalidInput for those of one that the rewrite removes, or in another spelling. Where
        others removed the data file since the start, nothing needs its deletes."""
        live = self._live.find(state.manifests, manifests)
        self._deletes.check_spelling(live)
        gone = sorted(self._named - live.keys())
        since = self._conflicts.since_start(state) if gone else None
        if unknown := [key for key in gone if since and self._conflicts.remover_of(since, key, manifests) is None]:
            self._refuse_gone(unknown, state, manifests)
        if going := sorted(self._named & self._removed):
            raise InvalidInput(
                f"{self._paths[going[0]]} is replaced, and there are new deletes for it",
                next_step="leave its deleted rows out of the new data file",
            )
        return live

    def _verify_data(self, filtered: FilteredManifests, state: BranchState, manifests: Manifests) -> None:
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
        self._conflicts.no_positions_for(since, files, manifests)
        self._check_rows(removed, state, manifests)
        refuse_lost_row_ids(files, self._new_files.files, self._new_files.lineage)

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


class RewrittenDeletes:
    """Delete files that a rewrite replaces by others which delete the same rows (Java: RewritePositionDeletes).

    removed: the delete files that are replaced. added: those that replace them.

    Raises InvalidInput for data files among the removed ones, and for added ones if none is removed.
    """

    def __init__(self, removed: Sequence[DataFile], added: NewDeleteFiles) -> None:
        for each in removed:
            if each.content == FileContent.DATA:
                raise InvalidInput(f"Not a delete file: {each.file_path}")
        if added.files and not removed:
            raise InvalidInput(
                "there are delete files to add, and none that they replace",
                next_step="name those in remove_deletes, or delete rows by row_delta",
            )
        #: The keys of the removed files.
        self.keys = frozenset(map(delete_file_key, removed))
        self._added = added

    def numbers(self, filtered: FilteredManifests) -> DeleteNumbers:
        """The data sequence numbers of the new files.

        Position deletes name their data files, so they take the highest number of what they replace in their partition
        (Java: RewritePositionDeletesGroup.maxRewrittenDataSequenceNumber). Equality deletes apply to all older rows, so
        their number must stay what it was.
        Raises InvalidInput for a new file that replaces nothing in its partition, for equality deletes that replace
        some with several numbers, and for more deletes than there were."""
        removed = [each for each in filtered.removed if delete_file_key(each.data_file) in self.keys]
        self._refuse_more(removed)
        numbers: dict[tuple[int, PartitionKey], set[int]] = {}
        for entry in removed:
            partition, number = partition_key(entry.data_file), entry.sequence_number or 0
            # Positions may be those of rows that equality deletes deleted, never the reverse.
            for content in {FileContent.POSITION_DELETES, FileContent(entry.data_file.content)}:
                numbers.setdefault((content, partition), set()).add(number)
        for each in self._added.files:
            found = numbers.get((each.content, partition_key(each)), set())
            if not found:
                raise InvalidInput(
                    f"{each.file_path} replaces no delete file of its partition",
                    next_step="give it the partition and the kind of the delete files that it replaces",
                )
            if each.content == FileContent.EQUALITY_DELETES and len(found) > 1:
                raise InvalidInput(
                    f"{each.file_path} replaces equality deletes of the sequence numbers {sorted(found)}, each of "
                    "which deletes other rows",
                    next_step="rewrite those of one sequence number at a time",
                )
        return {key: max(found) for key, found in numbers.items()}

    def _refuse_more(self, removed: Sequence[ManifestEntry]) -> None:
        had, has = _counts(each.data_file for each in removed), _counts(self._added.files)
        # Each equality delete may delete many rows, whose positions may replace it.
        if has[1] > had[1] or (has[0] > had[0] and not had[1]):
            raise InvalidInput(
                f"the new delete files have {sum(has)} deletes, and those that they replace {sum(had)}",
                next_step="a rewrite deletes no rows; use row_delta",
            )


def _counts(files: Iterable[DataFile]) -> tuple[int, int]:
    """How many deletes by position there are, and how many by equality."""
    positions = equalities = 0
    for each in files:
        if each.content == FileContent.EQUALITY_DELETES:
            equalities += each.record_count
        else:
            positions += each.record_count
    return positions, equalities
