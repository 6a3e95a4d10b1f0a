"""The Files port in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import AlreadyExists, MissingFile
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.locations import Location, contains, parse
from iceberg_hms.storage.driver import delete_each


class MemoryFiles:
    """Implements `coordinator.ports.Files`; safe to share between threads. All spellings of a location are one file.

    now_ms: the wall clock, for when a file was written.
    """

    def __init__(self, now_ms: Callable[[], int] = SYSTEM_CLOCK.now_ms) -> None:
        self._now_ms = now_ms
        self._modified: dict[Location, int] = {}
        self._files: dict[Location, tuple[str, bytes]] = {}
        self._folders: list[str] = []
        self._mutex = threading.Lock()

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        data = self._get(location)
        limit.check(location, len(data))
        return data

    def open(self, location: str) -> Any:
        """A pyarrow file for reading, as `storage.files.RoutedFiles.open` gives one."""
        return pyarrow.BufferReader(self._get(location))

    def write(self, location: str, data: bytes) -> None:
        key = parse(location)
        with self._mutex:
            if key in self._files:
                raise AlreadyExists(f"File already exists: {location}")
            self._files[key] = (location, bytes(data))
            self._modified[key] = self._now_ms()

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        written: list[str] = []
        try:
            for location, data in files:
                self.write(location, data)
                written.append(location)
        except BaseException:
            for location in written:
                self.delete(location)
            raise

    def make_folder(self, location: str) -> None:
        folder = parse(location)
        with self._mutex:
            self._folders.append(folder.path)

    def length(self, location: str) -> int:
        return len(self._get(location))

    def delete(self, location: str) -> bool:
        key = parse(location)
        with self._mutex:
            return self._files.pop(key, None) is not None

    def delete_all(self, locations: Sequence[str]) -> Deleted:
        return delete_each(self.delete, locations)

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        root = parse(folder)
        with self._mutex:
            found = [(key, len(data)) for key, (_, data) in self._files.items() if key != root and contains(root, key)]
        prefix = len(root.path.rstrip("/")) + 1
        for key, length in found:
            yield ListedFile(f"{folder.rstrip('/')}/{key.path[prefix:]}", length, self._modified[key])

    def list_links(self, folder: str) -> Iterator[str]:
        parse(folder)
        return iter(())

    def folder_exists(self, location: str) -> bool:
        """A folder that was made, or that a file is in, or was."""
        root = parse(location)
        with self._mutex:
            made = [*self._folders, *(key.path.rpartition("/")[0] for key in self._modified)]
        return any(contains(root, Location(root.scheme, root.authority, each)) for each in made)

    def real_path(self, location: str) -> str:
        parsed = parse(location)
        return f"{parsed.scheme}://{parsed.authority}{parsed.path}"

    def is_link(self, location: str) -> bool:
        parse(location)
        return False

    def replace(self, location: str, data: bytes) -> None:
        """Overwrite a file, to damage it in a test; the port cannot do that."""
        with self._mutex:
            self._files[parse(location)] = (location, bytes(data))

    def age(self, location: str, by_ms: int) -> None:
        """Make a file older than it is."""
        with self._mutex:
            self._modified[parse(location)] -= by_ms

    def locations(self) -> tuple[str, ...]:
        """The locations of all files, as their writers spelled them, in the order of writing."""
        with self._mutex:
            return tuple(location for location, _ in self._files.values())

    def folders(self) -> tuple[str, ...]:
        """The paths of the folders that `make_folder` made, in order."""
        with self._mutex:
            return tuple(self._folders)

    def _get(self, location: str) -> bytes:
        key = parse(location)
        with self._mutex:
            if key not in self._files:
                raise MissingFile(location)
            return self._files[key][1]
