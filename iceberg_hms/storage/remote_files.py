"""The files of one kind of remote store: the driver's single attempts, retried, and in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from iceberg_hms import work
from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import FileAlreadyExists, IcebergHmsError
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.storage.driver import Driver, File, together
from iceberg_hms.storage.gather import Gather, run_sequentially
from iceberg_hms.storage.ranged_file import TAIL_BYTES, RangedFile
from iceberg_hms.storage.retries import Retries


class RemoteFiles:
    """Implements `storage.files.Store`. Safe to share between threads.

    gather: runs functions in parallel, as `Runtime.gather` does, `io_threads` at a time.
    """

    def __init__(
        self, driver: Driver, retries: Retries, *, gather: Gather = run_sequentially, io_threads: int = 1
    ) -> None:
        self._driver = driver
        self._retries = retries
        self._gather = gather
        self._io_threads = io_threads

    def read(self, location: str, limit: Limit) -> bytes:
        return self._retries.call(partial(self._driver.read, location, limit))

    def open(self, location: str) -> RangedFile:
        size, tail = self._retries.call(partial(self._driver.read_tail, location, TAIL_BYTES))
        return RangedFile(size, tail, partial(self._read_range, location))

    def _read_range(self, location: str, start: int, end: int) -> bytes:
        return self._retries.call(partial(self._driver.read_range, location, start, end))

    def create(self, files: Sequence[File], made: list[str]) -> None:
        for start in range(0, len(files), self._io_threads):
            self._gather([partial(self._create, *file, made) for file in files[start : start + self._io_threads]])

    def _create(self, location: str, data: bytes, made: list[str]) -> None:
        """Create a file, and add its location to `made`."""
        tried = False

        def attempt() -> None:
            nonlocal tried
            again, tried = tried, True
            try:
                self._driver.create(location, data)
            except FileAlreadyExists:
                # The answer to an earlier attempt may have been lost: then the file is that attempt's.
                if not again or not self._has(location, data):
                    raise

        self._retries.call(attempt)
        made.append(location)
        work.wrote(len(data))

    def _has(self, location: str, data: bytes) -> bool:
        """Whether a file has this content. Raises as `Driver.length`."""
        if self._driver.length(location) != len(data):
            return False
        return self._driver.read_range(location, 0, len(data)) == data if data else True

    def length(self, location: str) -> int:
        return self._retries.call(partial(self._driver.length, location))

    def delete(self, location: str) -> bool:
        return self._retries.call(partial(self._driver.delete, location))

    def delete_all(self, locations: Sequence[str]) -> Deleted:
        count = self._driver.deleted_together
        batches = [locations[start : start + count] for start in range(0, len(locations), count)]
        found: list[Deleted] = []
        for start in range(0, len(batches), self._io_threads):
            self._gather([partial(self._delete, each, found) for each in batches[start : start + self._io_threads]])
        return together(found)

    def _delete(self, batch: Sequence[str], found: list[Deleted]) -> None:
        """Delete a batch, and add to `found` what became of it."""
        try:
            found.append(self._retries.call(partial(self._driver.delete_all, batch)))
        except IcebergHmsError as error:
            found.append(Deleted((), dict.fromkeys(batch, error)))

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        token = None
        while True:
            files, token = self._retries.call(partial(self._driver.list_page, folder, token))
            yield from files
            if token is None:
                return

    def folder_exists(self, location: str) -> bool | None:
        return self._retries.call(partial(self._driver.folder_exists, location))
