"""Finds the live entries of an operation's data files in a branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.once_read import OnceRead
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile


class LiveFiles:
    """keys: of the data files (`format.locations.file_key`)."""

    def __init__(self, keys: frozenset[str]) -> None:
        self._keys = keys
        self._once: OnceRead[ManifestFile, Sequence[ManifestEntry]] = OnceRead(())

    def find(self, listed: Sequence[ManifestFile], manifests: Manifests) -> dict[str, ManifestEntry]:
        """Key -> entry, for those that a branch has. Raises MissingFile, CorruptFile or StorageError."""
        if not self._keys:
            return {}
        data = [each for each in listed if each.content == ManifestContent.DATA and each.has_live_files]
        found = self._once.of(data, lambda new: live_entries(new, self._keys, manifests))
        return {file_key(entry.data_file.file_path): entry for entries in found for entry in entries}


def live_entries(
    files: Sequence[ManifestFile], keys: frozenset[str], manifests: Manifests
) -> Iterator[tuple[ManifestFile, Sequence[ManifestEntry]]]:
    """The live entries of data files with these keys, by manifest; without those that have none. Raises MissingFile,
    CorruptFile or StorageError."""
    for file, entries in manifests.read(manifests.candidates(files, keys)):
        found = [each for each in entries if each.is_live and file_key(each.data_file.file_path) in keys]
        if found:
            yield file, found
