"""What a driver does for one kind of remote store: single attempts. `RemoteFiles` retries and parallelizes them.

A driver follows no links, and is safe to share between threads. Each call is bounded in time. Locations are byte for
byte; a driver parses them with `format.locations.parse`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.format.locations import Location

#: A location and the content to write there.
File = tuple[str, bytes]
#: What S3 takes in one request.
DELETED_TOGETHER: Final = 1_000
#: A host with a port, or a bucket. More would reach the store's client as options: another user, his ticket, any key of
#: its configuration.
_AUTHORITY: Final = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])?(?::[0-9]{1,5})?", re.ASCII)


class Driver(Protocol):
    """Each method raises StorageError for a store that fails, StorageRefused if trying again does not help, and
    InvalidInput for a location that the store cannot have."""

    def read(self, location: str, limit: Limit) -> bytes:
        """The whole file. Calls `limit.check` with its length before it reads on. Raises MissingFile; CorruptFile for
        what is no file, or is longer than the limit."""
        ...

    def read_range(self, location: str, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, which is not beyond the file's. Raises MissingFile."""
        ...

    def read_tail(self, location: str, count: int) -> tuple[int, bytes]:
        """The length of a file, and its last `count` bytes, or all if it has fewer; in one request where the store can.
        Raises MissingFile."""
        ...

    def create(self, location: str, data: bytes) -> None:
        """Create a file, whole or not at all as far as the store can, with its folders. Raises FileAlreadyExists, which
        says that the name was taken before this attempt. After a StorageError the file may be there."""
        ...

    def length(self, location: str) -> int:
        """Bytes. Raises MissingFile."""
        ...

    def delete(self, location: str) -> bool:
        """Remove a file, never a folder; False if there was none."""
        ...

    def delete_all(self, locations: Sequence[str]) -> Mapping[str, IcebergHmsError]:
        """Remove at most DELETED_TOGETHER files, in few requests where the store can. Returns why one may still be
        there, by its location; one that was not there is no failure."""
        ...

    def list_page(self, folder: str, token: Any) -> tuple[Sequence[ListedFile], Any]:
        """Some of the files below a folder, at any depth, and the token for the next page; None for both means the
        first page, and that there is none after it. Raises no MissingFile."""
        ...


def delete_each(delete: Callable[[str], bool], locations: Sequence[str]) -> dict[str, IcebergHmsError]:
    """`delete_all` for a store that deletes one file at a time."""
    failed: dict[str, IcebergHmsError] = {}
    for location in locations:
        try:
            delete(location)
        except IcebergHmsError as error:
            failed[location] = error
    return failed


def check_authority(location: Location) -> None:
    """Raises InvalidInput unless the authority is just a host, a port or a bucket."""
    if not _AUTHORITY.fullmatch(location.authority):
        raise InvalidInput(
            f"The authority of a {location.scheme} location must be a plain host and port, or a bucket",
            next_step="configure users, tickets and endpoints where the server runs, not in a location",
        )
