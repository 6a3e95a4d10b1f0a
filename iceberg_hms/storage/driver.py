"""What a driver does for one kind of remote store: single attempts. `RemoteFiles` retries and parallelizes them.

A driver follows no links, and is safe to share between threads. Each call is bounded in time. Locations are byte for
byte; a driver parses them with `format.locations.parse`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.file_bounds import Limit

#: A location and the content to write there.
File = tuple[str, bytes]
#: Of a folder's files and folders: the name, whether it is a folder, bytes, and when it was written, in milliseconds.
Entry = tuple[str, bool, int, int]


class Driver(Protocol):
    """Each method raises StorageError for a store that fails, StorageRefused if trying again does not help, and
    InvalidInput for a location that the store cannot have.
    """

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

    def list_page(self, folder: str, token: Any) -> tuple[Sequence[ListedFile], Any]:
        """Some of the files below a folder, at any depth, and the token for the next page; None for both means the
        first page, and that there is none after it. Raises no MissingFile."""
        ...

    def folder_exists(self, location: str) -> bool | None:
        """Whether there is a folder; None if the store has none. Raises no MissingFile."""
        ...


@runtime_checkable
class BatchDriver(Driver, Protocol):
    """A driver of a store that deletes without looking: it does not say which files were there.

    deleted_together: how many files one call of `remove_all` may get.
    """

    deleted_together: int

    def remove(self, location: str) -> None:
        """Remove a file, or find that there is none."""
        ...

    def remove_all(self, locations: Sequence[str]) -> Deleted:
        """Remove files, in as few requests as there are buckets. A file of which the store says nothing, or which it
        may remove when it is asked for that file alone, is neither in `locations` nor in `failed`. Raises
        StorageRefused if the store does not do this; it may remove single files all the same."""
        ...


def delete_each(delete: Callable[[str], bool], locations: Sequence[str]) -> Deleted:
    """`delete_all` for a store that deletes one file at a time."""
    deleted: list[str] = []
    failed: dict[str, IcebergHmsError] = {}
    for location in locations:
        try:
            if delete(location):
                deleted.append(location)
        except IcebergHmsError as error:
            failed[location] = error
    return Deleted(deleted, failed)


def list_folder(folder: str, token: Any, read: Callable[[str], Iterable[Entry]]) -> tuple[Sequence[ListedFile], Any]:
    """`list_page` for a store of folders: a page is one of them. read: what is in a folder, given by its path from the
    listed one, which ends in a slash or is empty."""
    left: list[str] = list(token or ("",))
    inner, files = left.pop(), list[ListedFile]()
    for name, is_folder, length, modified_ms in read(inner):
        if is_folder:
            left.append(f"{inner}{name}/")
        else:
            files.append(ListedFile(f"{folder.rstrip('/')}/{inner}{name}", length, modified_ms))
    return files, tuple(left) or None


def together(parts: Sequence[Deleted]) -> Deleted:
    """What became of all files."""
    failed = {location: error for part in parts for location, error in part.failed.items()}
    return Deleted([location for part in parts for location in part.locations], failed)
