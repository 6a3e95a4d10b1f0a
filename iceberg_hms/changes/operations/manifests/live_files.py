"""Finds an operation's data files in a branch. A manifest never changes, so each is read once, however often the
operation is staged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.errors import CommitStateUnknown, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile

#: `RequirementFailed.name` of the assumption that a branch has none of the files that an operation adds.
NEW_FILES: Final = "new-files"
#: How many files an error names.
_NAMED_MAX: Final = 5

#: What tells one read from all others: a manifest's path, if only its own content matters; its entry in a list, where
#: its files inherit numbers from it; and whatever else decides what is found.
Key = TypeVar("Key", bound=Hashable)
#: What is found there.
Found = TypeVar("Found")


def listed_names(names: Sequence[str]) -> str:
    """Files, for a message; of many the first ones."""
    more = [f"and {len(names) - _NAMED_MAX} more"] if len(names) > _NAMED_MAX else []
    return ", ".join([*names[:_NAMED_MAX], *more])


def snapshots_of(*entries: ManifestEntry) -> frozenset[int]:
    """The snapshots of entries, as far as they are known: what an error about the files rests on."""
    return frozenset(each.snapshot_id for each in entries if each.snapshot_id is not None)


class OnceRead(Generic[Key, Found]):
    """Remembers what was found. nothing: what is found where `read` finds nothing."""

    def __init__(self, nothing: Found) -> None:
        self._nothing = nothing
        self._found: dict[Key, Found] = {}

    def of(self, keys: Sequence[Key], read: Callable[[Sequence[Key]], Iterable[tuple[Key, Found]]]) -> list[Found]:
        """What is found for each key, in their order.

        read: what is found for keys that are new; it may leave out those for which nothing is. If it raises, those that
        it has not given yet stay new."""
        new = [each for each in dict.fromkeys(keys) if each not in self._found]
        for key, found in read(new) if new else ():
            self._found[key] = found
        for key in new:
            self._found.setdefault(key, self._nothing)
        return [self._found[each] for each in keys]


class LiveFiles:
    """keys: of the data files (`format.locations.file_key`)."""

    def __init__(self, keys: frozenset[str]) -> None:
        self._keys = keys
        self._once: OnceRead[ManifestFile, Sequence[ManifestEntry]] = OnceRead(())

    def find(self, listed: Sequence[ManifestFile], manifests: Manifests) -> dict[str, ManifestEntry]:
        """Key -> entry, for those that a branch has."""
        if not self._keys:
            return {}
        data = [each for each in listed if each.content == ManifestContent.DATA and each.has_live_files]
        found = self._once.of(data, lambda new: live_entries(new, self._keys, manifests))
        return {file_key(entry.data_file.file_path): entry for entries in found for entry in entries}


def live_entries(
    files: Sequence[ManifestFile], keys: frozenset[str], manifests: Manifests
) -> Iterator[tuple[ManifestFile, Sequence[ManifestEntry]]]:
    """The live entries of data files with these keys, by manifest; without those that have none."""
    for file, entries in manifests.read(manifests.candidates(files, keys)):
        found = [each for each in entries if each.is_live and file_key(each.data_file.file_path) in keys]
        if found:
            yield file, found


class DuplicateFiles:
    """The assumption that a branch has none of the files that an operation adds: it would have their rows twice.

    added: the files; None: it looks for none. snapshot_id: of the operation's snapshot.
    """

    def __init__(self, added: NewDataFiles | None, snapshot_id: int) -> None:
        self._keys = frozenset[str]() if added is None else added.known_keys
        self._files = () if added is None else added.files
        self._snapshot_id = snapshot_id
        #: By the manifests' paths, which are compared quickly: a branch may have many thousand manifests.
        self._once: OnceRead[str, Sequence[ManifestEntry]] = OnceRead(())

    def refuse(self, branch: str, kept: Sequence[ManifestFile], manifests: Manifests) -> None:
        """Raises RequirementFailed if one of the branch's manifests has one of the files; CommitStateUnknown if it has
        them under the operation's own snapshot id: that was committed and has expired since."""
        found = self.find(kept, manifests)
        if not found:
            return
        if any(entry.snapshot_id == self._snapshot_id for entry in found):
            raise CommitStateUnknown(
                f"snapshot {self._snapshot_id} was committed to {branch} and has expired: its files are there",
                next_step="look at the table; delete none of the files",
            )
        there = {file_key(entry.data_file.file_path): entry for entry in found}
        keys = [file_key(each.file_path) for each in self._files]
        entries = [there.pop(key) for key in keys if key in there]
        # What the caller names through a linked folder is there under its own path.
        entries += there.values()
        named = [f"{each.data_file.file_path} (snapshot {each.snapshot_id})" for each in entries]
        raise RequirementFailed(
            NEW_FILES,
            f"{branch} has {len(entries)} of the files already: {listed_names(named)}",
            expected="none of the files",
            found=tuple(each.data_file.file_path for each in entries),
            next_step="delete none of these files, the table reads them; append the others alone, or pass "
            "check_duplicates=False if the table should have their rows twice",
            rests_on=snapshots_of(*entries),
        )

    def find(self, kept: Sequence[ManifestFile], manifests: Manifests) -> Sequence[ManifestEntry]:
        """The entries of the manifests that name one of the files."""
        if not self._keys:
            return ()
        by_path = {each.manifest_path: each for each in kept}

        def read(new: Sequence[str]) -> Iterator[tuple[str, Sequence[ManifestEntry]]]:
            for file, entries in live_entries([by_path[path] for path in new], self._keys, manifests):
                yield file.manifest_path, entries

        return [entry for found in self._once.of([*by_path], read) for entry in found]
