"""Delete files that a rewrite replaces by others which delete the same rows (Java: RewriteFiles, and its action
RewritePositionDeletes)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.delete_index import referenced_data_file
from iceberg_hms.changes.operations.live_files import LiveFiles
from iceberg_hms.changes.operations.manifest_filter import FilteredManifests, delete_file_key
from iceberg_hms.changes.operations.new_delete_files import DeleteNumbers, NewDeleteFiles
from iceberg_hms.changes.operations.partition_set import PartitionKey, partition_key
from iceberg_hms.changes.operations.snapshot_operation import BranchState
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry


class RewrittenDeletes:
    """removed: the delete files that are replaced. added: those that replace them. rewritten: keys of the data files
    that the same rewrite replaces (`format.locations.file_key`).

    Raises InvalidInput for data files among the removed ones, and for added ones if none is removed.
    """

    def __init__(self, removed: Sequence[DataFile], added: NewDeleteFiles, rewritten: frozenset[str]) -> None:
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
        self._uncovered = _uncovered(removed, added.files, rewritten)
        self._live = LiveFiles(frozenset(self._uncovered))

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

    def refuse_revived(self, state: BranchState, manifests: Manifests) -> None:
        """Raises InvalidInput if a data file stays whose deletes are removed, and no new file may have them. Java does
        not look. StorageError, CorruptFile or MissingFile if a manifest cannot be read."""
        for key, entry in self._live.find(state.manifests, manifests).items():
            raise InvalidInput(
                f"{entry.data_file.file_path} stays, and its deletes are removed: {self._uncovered[key]}",
                next_step="add a delete file with its positions",
            )

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


def _uncovered(removed: Sequence[DataFile], added: Sequence[DataFile], rewritten: frozenset[str]) -> dict[str, str]:
    """Key of a data file -> the removed delete file that has positions of it, if no added one may have them."""
    named = {file_key(path) for each in added if (path := referenced_data_file(each)) is not None}
    partitions = {partition_key(each) for each in added if referenced_data_file(each) is None}
    found: dict[str, str] = {}
    for each in removed:
        path = referenced_data_file(each)
        if path is not None and each.record_count and partition_key(each) not in partitions:
            found[file_key(path)] = each.file_path
    return {key: path for key, path in found.items() if key not in named | rewritten}
