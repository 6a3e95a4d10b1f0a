"""The files of one kind of remote store: the driver's single attempts, retried, and in parallel."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from iceberg_hms import work
from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import (
    CorruptFile,
    FileAlreadyExists,
    IcebergHmsError,
    InvalidInput,
    ResourceExhausted,
    StorageRefused,
)
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.storage.driver import BatchDriver, Driver, File, together
from iceberg_hms.storage.gather import Gather, run_sequentially
from iceberg_hms.storage.ranged_file import TAIL_BYTES, RangedFile
from iceberg_hms.storage.retries import Retries

logger = logging.getLogger(__name__)

#: Of a batch that the store refused: how many files are tried alone before the others count as refused too.
_TRIED_FIRST: Final = 8
#: How many files in a row the store may fail to delete, after all retries, before it is asked for no more of them.
_FAILED_MAX: Final = 3
#: What concerns one file alone.
_OF_ONE_FILE: Final = (CorruptFile, InvalidInput, ResourceExhausted, StorageRefused)


class RemoteFiles:
    """Implements `storage.files.Store`. Safe to share between threads.

    gather: runs functions in parallel, as `Runtime.gather` does, `io_threads` at a time.
    """

    def __init__(
        self, driver: Driver, retries: Retries, *, gather: Gather = run_sequentially, io_threads: int = 1
    ) -> None:
        self._driver = driver
        #: Whether the store deletes files, but not many in one request.
        self._refuses_batches = False
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
        """In batches where the store can, and one by one what it does not delete so."""
        if not isinstance(self._driver, BatchDriver):
            return self._delete_alone(_DeletionsAlone(self.delete), locations)
        parts: list[Deleted] = []
        at_a_time = self._io_threads * self._driver.deleted_together
        for start in range(0, len(locations), at_a_time):
            some = locations[start : start + at_a_time]
            alone = _DeletionsAlone(partial(self._remove, self._driver))
            left = some if self._refuses_batches else self._remove_together(self._driver, some, alone, parts)
            parts.append(self._delete_alone(alone, left))
        return together(parts)

    def _remove(self, driver: BatchDriver, location: str) -> bool:
        self._retries.call(partial(driver.remove, location))
        return True

    def _remove_together(
        self, driver: BatchDriver, locations: Sequence[str], alone: _DeletionsAlone, parts: list[Deleted]
    ) -> Sequence[str]:
        """Adds to `parts` what became of the files. Returns those that are to be deleted alone. If the store refused a
        batch, the first ones have been, to see whether it deletes files at all."""
        count = driver.deleted_together
        refused: list[IcebergHmsError] = []
        left: list[str] = []

        def remove(batch: Sequence[str]) -> None:
            try:
                found = self._retries.call(partial(driver.remove_all, batch))
            except IcebergHmsError as error:
                refused.append(error)
                left.extend(batch)
                return
            parts.append(found)
            settled = {*found.locations, *found.failed}
            left.extend(each for each in batch if each not in settled)

        batches = [locations[start : start + count] for start in range(0, len(locations), count)]
        self._gather([partial(remove, each) for each in batches])
        if not refused:
            return left
        tried = 0
        while tried < min(_TRIED_FIRST, len(left)) and not alone.is_answered:
            alone.delete([left[tried]])
            tried += 1
        if not alone.is_answered:
            alone.give_up()
        elif isinstance(refused[0], StorageRefused):
            self._refuses_batches = True
            logger.warning("files are deleted one by one from now on; the store refused to delete many: %s", refused[0])
        return left[tried:]

    def _delete_alone(self, alone: _DeletionsAlone, locations: Sequence[str]) -> Deleted:
        threads = min(self._io_threads, len(locations))
        self._gather([partial(alone.delete, locations[first::threads]) for first in range(threads)])
        return alone.result()

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        token = None
        while True:
            files, token = self._retries.call(partial(self._driver.list_page, folder, token))
            yield from files
            if token is None:
                return

    def folder_exists(self, location: str) -> bool | None:
        return self._retries.call(partial(self._driver.folder_exists, location))


class _DeletionsAlone:
    """Deletions of one file each. Several threads may call `delete` at once. delete_one: as `Driver.delete`, retried.

    is_answered: whether the store deleted a file, or said that it was missing.
    """

    def __init__(self, delete_one: Callable[[str], bool]) -> None:
        self._delete_one = delete_one
        self._deleted: list[str] = []
        self._failed: dict[str, IcebergHmsError] = {}
        self._failed_in_a_row = 0
        self._given_up: IcebergHmsError | None = None
        self.is_answered = False

    def delete(self, locations: Sequence[str]) -> None:
        for location in locations:
            if self._given_up is not None:
                self._failed[location] = self._given_up
                continue
            try:
                if self._delete_one(location):
                    self._deleted.append(location)
            except IcebergHmsError as error:
                self._failed[location] = error
                self._failed_in_a_row += not isinstance(error, _OF_ONE_FILE)
                if self._failed_in_a_row >= _FAILED_MAX:
                    self.give_up()
            else:
                self._failed_in_a_row = 0
                self.is_answered = True

    def give_up(self) -> None:
        """Ask for no more files: each may still be there for the reason of the last one that failed."""
        self._given_up = next(reversed(self._failed.values()), None)

    def result(self) -> Deleted:
        return Deleted(self._deleted, self._failed)
