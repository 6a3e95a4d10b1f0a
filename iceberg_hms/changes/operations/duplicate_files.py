"""The assumption that a branch has none of the files that an operation adds: adding one again would double its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.live_files import live_entries
from iceberg_hms.changes.operations.once_read import OnceRead
from iceberg_hms.errors import CommitStateUnknown, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile

#: `RequirementFailed.name` of the assumption.
NEW_FILES: Final = "new-files"
#: How many files an error names.
_NAMED_MAX: Final = 5


class DuplicateFiles:
    """Looks for an operation's files in a branch.

    keys: of the files (`format.locations.file_key`); empty: it looks for none. paths: the same files in the
    caller's order and spelling. snapshot_id: of the operation's snapshot.
    """

    def __init__(self, keys: frozenset[str], paths: Sequence[str], snapshot_id: int) -> None:
        self._keys = keys
        self._paths = paths
        self._snapshot_id = snapshot_id
        #: By the manifests' paths, which are compared quickly: a branch may have many thousand manifests.
        self._once: OnceRead[str, Sequence[ManifestEntry]] = OnceRead(())

    def look_ahead(self, kept: Sequence[ManifestFile], manifests: Manifests) -> None:
        """Search these manifests, and refuse nothing: `refuse` then searches only others. Raises MissingFile,
        CorruptFile or StorageError."""
        self._find(kept, manifests)

    def refuse(self, branch: str, kept: Sequence[ManifestFile], manifests: Manifests) -> None:
        """Raises RequirementFailed if one of the branch's manifests has one of the files; CommitStateUnknown if it has
        them under the operation's own snapshot id: that was committed and has expired since."""
        found = self._find(kept, manifests)
        if not found:
            return
        if any(entry.snapshot_id == self._snapshot_id for entry in found):
            raise CommitStateUnknown(
                f"snapshot {self._snapshot_id} was committed to {branch} and has expired: its files are there",
                next_step="look at the table; delete none of the files",
            )
        there = {file_key(entry.data_file.file_path): entry for entry in found}
        entries = [there.pop(key) for key in map(file_key, self._paths) if key in there]
        # What the caller names through a linked folder is there under its own path.
        entries += there.values()
        named = [f"{each.data_file.file_path} (snapshot {each.snapshot_id})" for each in entries[:_NAMED_MAX]]
        more = [f"and {len(entries) - _NAMED_MAX} more"] if len(entries) > _NAMED_MAX else []
        raise RequirementFailed(
            NEW_FILES,
            f"{branch} has {len(entries)} of the files already: {', '.join([*named, *more])}",
            expected="none of the files",
            found=tuple(each.data_file.file_path for each in entries),
            next_step="delete none of these files, the table reads them; append the others alone, or pass "
            "check_duplicates=False if the table should have their rows twice",
            rests_on=frozenset(each.snapshot_id for each in entries if each.snapshot_id is not None),
        )

    def _find(self, kept: Sequence[ManifestFile], manifests: Manifests) -> Sequence[ManifestEntry]:
        """The entries of the manifests that name one of the files."""
        if not self._keys:
            return ()
        by_path = {each.manifest_path: each for each in kept}

        def read(new: Sequence[str]) -> Iterator[tuple[str, Sequence[ManifestEntry]]]:
            for file, entries in live_entries([by_path[path] for path in new], self._keys, manifests):
                yield file.manifest_path, entries

        return [entry for found in self._once.of([*by_path], read) for entry in found]
