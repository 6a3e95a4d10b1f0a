"""Which file a local path means whose folders are symbolic links."""

from __future__ import annotations

from typing import Final

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.locations import file_key

#: How the key of a local file begins (`format.locations.file_key`).
_LOCAL: Final = "file://"


class LinkedFolders:
    """Looks at each folder once. One instance serves one call, since links may change."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._own = {_LOCAL: _LOCAL}

    def own_key(self, key: str) -> str:
        """The key of the same file by its folder's own path; the same one where no folder is a link, in other stores,
        and where a folder cannot be looked at. key: of a file (`format.locations.file_key`)."""
        if not key.startswith(_LOCAL):
            return key
        folder, _, name = key.rpartition("/")
        own = self._own.get(folder)
        return f"{self._followed(folder) if own is None else own}/{name}"

    def _followed(self, folder: str) -> str:
        """By way of its parents, which most folders of a table share: to resolve each path anew takes ten times as
        long."""
        at = own = _LOCAL
        for part in folder.removeprefix(_LOCAL).split("/")[1:]:
            at = f"{at}/{part}"
            if at not in self._own:
                self._own[at] = self._target(f"{own}/{part}")
            own = self._own[at]
        return own

    def _target(self, path: str) -> str:
        try:
            return file_key(self._files.real_path(path)) if self._files.is_link(path) else path
        except IcebergHmsError:
            return path
