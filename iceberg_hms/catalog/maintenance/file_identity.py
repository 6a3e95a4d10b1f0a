"""Whether two locations may mean one file, for code that deletes one of them.

A table's metadata may spell one file in several ways, and each location is compared byte for byte everywhere else. Here
an unequal spelling would cost the file. So everything that could be another spelling of a path counts as the same:
scheme, authority, double slashes, and symbolic links of folders on a local disk. Taking two files for one keeps a file
too many, which does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import parse

_SLASHES: Final = re.compile("/{2,}")


class FileIdentity:
    """Keys of locations; equal ones may mean the same file.

    real_path, is_link: those of `Files`. The first is called once for each folder, not for each file.
    """

    def __init__(self, real_path: Callable[[str], str], is_link: Callable[[str], bool]) -> None:
        self._real_path = real_path
        self._is_link = is_link
        self._folders: dict[str, str] = {}

    def key(self, location: str) -> str:
        """The path without scheme and authority. A location that cannot be parsed or resolved is its own key."""
        folder, slash, name = location.rpartition("/")
        if not slash or not folder or name in (".", ".."):
            return location
        found = self._folders.get(folder)
        if found is None:
            found = self._folders[folder] = self._resolved(folder)
        return f"{found}/{name}"

    def keys(self, location: str) -> tuple[str, ...]:
        """The key of a location, and if it names a symbolic link that of the file behind. Looks at the file. Raises
        StorageError if nobody can say whether it is a link."""
        key = self.key(location)
        try:
            if self._is_link(location):
                return key, self.key(self._real_path(location))
        except InvalidInput:
            # No file has such a location.
            pass
        return (key,)

    def _resolved(self, folder: str) -> str:
        try:
            path = parse(self._real_path(folder)).path
        except InvalidInput:
            return folder
        except IcebergHmsError:
            # A loop of links, or a folder that may not be read: nothing is deleted there, since nothing resolves it for
            # `OwnFiles` either.
            return folder
        return _SLASHES.sub("/", path).rstrip("/")
