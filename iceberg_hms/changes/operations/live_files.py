"""Finds the live entries of an operation's data files in a branch; a manifest never changes, so each is read once."""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_hms.changes.change import Manifests
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile


class LiveFiles:
    """keys: of the data files (`format.locations.file_key`)."""

    def __init__(self, keys: frozenset[str]) -> None:
        self._keys = keys
        #: By the list's entry, whose numbers the files inherit.
        self._known: dict[ManifestFile, Sequence[ManifestEntry]] = {}

    def find(self, listed: Sequence[ManifestFile], manifests: Manifests) -> dict[str, ManifestEntry]:
        """Key -> entry, for those that a branch has. Raises MissingFile, CorruptFile or StorageError."""
        if not self._keys:
            return {}
        data = [each for each in listed if each.content == ManifestContent.DATA and each.has_live_files]
        new = [each for each in data if each not in self._known]
        for file, entries in manifests.read(manifests.candidates(new, self._keys)):
            self._known[file] = [
                each for each in entries if each.is_live and file_key(each.data_file.file_path) in self._keys
            ]
        for each in new:
            self._known.setdefault(each, ())
        return {file_key(entry.data_file.file_path): entry for each in data for entry in self._known[each]}
