"""Delete files that a rewrite replaces by others which delete the same rows (Java: RewriteFiles, and its action
RewritePositionDeletes)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iceberg_hms.changes.operations.manifest_filter import FilteredManifests, delete_file_key
from iceberg_hms.changes.operations.new_delete_files import DeleteNumbers, NewDeleteFiles
from iceberg_hms.changes.partition_set import PartitionKey, partition_key
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry


class RewrittenDeletes:
    """removed: the delete files that are replaced. added: those that replace them.

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
