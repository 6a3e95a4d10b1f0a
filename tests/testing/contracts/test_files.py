"""The suite finds implementations that break the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import AlreadyExists, MissingFile
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.testing.contracts import files as suite
from iceberg_hms.testing.memory_files import MemoryFiles


class Overwrites(MemoryFiles):
    def write(self, location: str, data: bytes) -> None:
        self.delete(location)
        super().write(location, data)


class Truncates(MemoryFiles):
    def write(self, location: str, data: bytes) -> None:
        super().write(location, data[:1_000])


class DecodesNames(MemoryFiles):
    def write(self, location: str, data: bytes) -> None:
        super().write(location.replace("%20", " "), data)


class ForgetsThatItDeleted(MemoryFiles):
    def delete(self, location: str) -> bool:
        super().delete(location)
        return True


class TellsEveryWriterThatItWon(MemoryFiles):
    def write(self, location: str, data: bytes) -> None:
        try:
            super().write(location, data)
        except AlreadyExists:
            if not location.endswith("race"):
                raise


class ReadsNothingAsEmpty(MemoryFiles):
    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        try:
            return super().read(location, limit)
        except MissingFile:
            return b""


class ReadsFilesOfAnySize(MemoryFiles):
    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        return super().read(location, Limit(limit.key, 10**9))


class FindsFoldersAnywhere(MemoryFiles):
    def folder_exists(self, location: str) -> bool:
        super().folder_exists(location)
        return True


class FindsNoFolder(MemoryFiles):
    def folder_exists(self, location: str) -> bool:
        super().folder_exists(location)
        return False


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Overwrites, suite.a_write_never_overwrites),
        (Truncates, suite.a_read_returns_the_written_bytes),
        (DecodesNames, suite.locations_are_not_decoded),
        (ForgetsThatItDeleted, suite.a_missing_file_raises_missing_file),
        (ForgetsThatItDeleted, suite.a_deleted_name_can_be_written_again),
        (TellsEveryWriterThatItWon, suite.one_of_many_concurrent_writers_wins),
        (ReadsFilesOfAnySize, suite.a_file_beyond_the_limit_is_refused),
        (ReadsNothingAsEmpty, suite.a_missing_file_raises_missing_file),
        (FindsFoldersAnywhere, suite.a_folder_exists_once_it_was_made_or_has_files),
        (FindsNoFolder, suite.a_folder_exists_once_it_was_made_or_has_files),
    ],
)
def test_a_broken_implementation_is_found(broken: type[MemoryFiles], check: Callable[[Files, str], None]) -> None:
    with pytest.raises((AssertionError, AlreadyExists)):
        check(broken(), "file:/w")
