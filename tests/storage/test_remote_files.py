"""Files of remote stores in memory: retries, reads in ranges, and what several stores do together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import (
    CorruptFile,
    FileAlreadyExists,
    IcebergHmsError,
    InvalidInput,
    MissingFile,
    ResourceExhausted,
    StorageError,
    StorageRefused,
)
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.storage.driver import delete_each
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.ranged_file import TAIL_BYTES
from iceberg_hms.storage.retries import Retries
from tests.storage.buckets import Waits

Call = tuple[Any, ...]


class MemoryDriver:
    """Implements `driver.Driver`. calls: what was asked. failures: what the next calls raise before they do anything,
    None for those that succeed. broken: what deletions of these files raise."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.calls: list[Call] = []
        self.failures: list[Exception | None] = []
        self.broken: dict[str, IcebergHmsError] = {}

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        error = self.failures.pop(0) if self.failures else None
        if error is not None:
            raise error

    def _found(self, location: str) -> bytes:
        if location not in self.files:
            raise MissingFile(location)
        return self.files[location]

    def read(self, location: str, limit: Limit) -> bytes:
        self._called("read", location)
        return self._found(location)

    def read_range(self, location: str, start: int, end: int) -> bytes:
        self._called("read_range", start, end)
        return self._found(location)[start:end]

    def read_tail(self, location: str, count: int) -> tuple[int, bytes]:
        self._called("read_tail", count)
        data = self._found(location)
        return len(data), data[-count:]

    def create(self, location: str, data: bytes) -> None:
        self._called("create", location)
        if location in self.files:
            raise FileAlreadyExists(location)
        self.files[location] = data

    def length(self, location: str) -> int:
        self._called("length", location)
        return len(self._found(location))

    def delete(self, location: str) -> bool:
        self._called("delete", location)
        return self._gone(location)

    def _gone(self, location: str) -> bool:
        if location in self.broken:
            raise self.broken[location]
        return self.files.pop(location, None) is not None

    def list_page(self, folder: str, token: Any) -> tuple[Sequence[ListedFile], Any]:
        self._called("list_page", token)
        names = sorted(self.files)
        at = token or 0
        return [ListedFile(name, 0, 0) for name in names[at : at + 2]], at + 2 if at + 2 < len(names) else None

    def folder_exists(self, location: str) -> bool | None:
        self._called("folder_exists", location)
        return any(name.startswith(f"{location}/") for name in self.files)


class BatchMemoryDriver(MemoryDriver):
    """Implements `driver.BatchDriver`. silent: of so many files of each batch it says nothing, and deletes none."""

    deleted_together = 1_000
    silent = 0

    def remove(self, location: str) -> None:
        self._called("remove", location)
        self._gone(location)

    def remove_all(self, locations: Sequence[str]) -> Deleted:
        self._called("remove_all", len(locations))
        found = delete_each(self._gone, locations[self.silent :])
        return Deleted([each for each in locations[self.silent :] if each not in found.failed], found.failed)


def files_of(driver: MemoryDriver, retries: Retries | None = None, **others: MemoryDriver) -> RoutedFiles:
    found = {"s3": driver, **others}
    return RoutedFiles({scheme: (lambda each=each: (each, retries or Retries())) for scheme, each in found.items()})


def unreliable(times: int) -> list[Exception | None]:
    return [StorageError(f"failure {number}") for number in range(times)]


@pytest.mark.parametrize(
    ("total", "waits"), [(float("inf"), [0.1, 0.4, 1.6, 5.0, 5.0]), (7.0, [0.1, 0.4, 1.6]), (7.2, [0.1, 0.4, 1.6, 5.0])]
)
def test_no_attempt_begins_after_the_total_time(total: float, waits: list[float]) -> None:
    driver, clock = MemoryDriver(), Waits()
    driver.failures = unreliable(9)
    with pytest.raises(StorageError, match=f"failure {len(waits)}"):
        files_of(driver, Retries(5, total_seconds=total, clock=clock)).read("s3://b/x")
    assert clock.slept == pytest.approx(waits)


@pytest.mark.parametrize("call", ["read", "length", "delete", "open", "list_files", "delete_all", "write"])
def test_each_call_is_tried_again_and_each_page_alone(call: str) -> None:
    driver, clock = MemoryDriver(), Waits()
    driver.files = {f"s3://b/{number}": b"x" for number in range(5)}
    files = files_of(driver, Retries(2, clock=clock))
    calls: dict[str, Callable[[], object]] = {
        "list_files": lambda: list(files.list_files("s3://b/")),
        "delete_all": lambda: files.delete_all(["s3://b/0"]),
        "write": lambda: files.write("s3://b/new", b""),
    }
    driver.failures = [None, *unreliable(2)] if call == "list_files" else unreliable(2)
    found = calls.get(call, lambda: getattr(files, call)("s3://b/0"))()
    assert clock.slept == [0.1, 0.4]
    if call == "list_files":
        assert driver.calls == [("list_page", token) for token in (None, 2, 2, 2, 4)]
        assert found == [ListedFile(name, 0, 0) for name in sorted(driver.files)]


def test_a_footer_is_in_the_tail_and_other_reads_ask_for_windows() -> None:
    driver = MemoryDriver()
    data = bytes(range(256)) * 2_048
    driver.files["s3://b/x"] = data
    size, window = len(data), 64 * 1024
    with files_of(driver).open("s3://b/x") as file:
        assert file.size() == size
        for start, count in [(size - 8, 8), (size - TAIL_BYTES, 100), (0, 4), (4, 100), (window - 1, 1), (window, 4)]:
            file.seek(start)
            assert file.read(count) == data[start : start + count]
        file.seek(1_000)
        assert file.read(100_000) + file.read(5) == data[1_000:101_005]
        file.seek(size)
        assert file.read(1) == b""
    assert driver.calls == [
        ("read_tail", TAIL_BYTES),
        ("read_range", 0, window),
        ("read_range", window, 2 * window),
        ("read_range", 1_000, 101_000),
        ("read_range", 101_000, 101_000 + window),
    ]


def test_files_of_two_stores_are_written_and_deleted_each_in_its_own() -> None:
    s3, gs = MemoryDriver(), MemoryDriver()
    files = files_of(s3, gs=gs)
    files.write_all([("s3a://b/1", b"1"), ("gs://b/1", b"2"), ("s3://b/2", b"3")])
    assert (s3.files, gs.files) == ({"s3a://b/1": b"1", "s3://b/2": b"3"}, {"gs://b/1": b"2"})
    assert files.read("gs://b/1") == b"2"
    deleted = files.delete_all(["s3a://b/1", "gs://b/1", "gs://b/none"])
    assert (set(deleted.locations), deleted.failed) == ({"s3a://b/1", "gs://b/1"}, {})
    assert (s3.files, gs.files) == ({"s3://b/2": b"3"}, {})


def test_what_was_made_in_one_store_is_deleted_when_the_other_refuses() -> None:
    s3, gs = MemoryDriver(), MemoryDriver()
    gs.failures = [None, StorageRefused("full")]
    with pytest.raises(StorageRefused, match="full"):
        files_of(s3, gs=gs).write_all([("s3://b/1", b""), ("gs://b/1", b""), ("s3://b/2", b""), ("gs://b/2", b"")])
    assert (s3.files, gs.files) == ({}, {})


LOCATIONS = [f"s3://b/{number}" for number in range(2_500)]


def with_all_files(kind: type[MemoryDriver]) -> Any:
    driver = kind()
    driver.files = dict.fromkeys(LOCATIONS, b"")
    return driver


def count(driver: MemoryDriver, call: str) -> int:
    return sum(each[0] == call for each in driver.calls)


def test_many_files_are_deleted_in_batches() -> None:
    driver = with_all_files(BatchMemoryDriver)
    deleted = files_of(driver).delete_all(LOCATIONS)
    assert driver.calls == [("remove_all", each) for each in (1_000, 1_000, 500)]
    assert (sorted(deleted.locations), deleted.failed, driver.files) == (sorted(LOCATIONS), {}, {})


def test_a_store_that_refuses_a_batch_is_asked_for_none_again(caplog: pytest.LogCaptureFixture) -> None:
    driver = with_all_files(BatchMemoryDriver)
    driver.failures = [StorageRefused("no batches")]
    files = files_of(driver)
    deleted = files.delete_all(LOCATIONS[:2_400])
    later = files.delete_all(LOCATIONS[2_400:])
    assert (count(driver, "remove_all"), count(driver, "remove")) == (1, 2_500)
    assert (len(deleted.locations), len(later.locations), deleted.failed, driver.files) == (2_400, 100, {}, {})
    [line] = [each.getMessage() for each in caplog.records]
    assert "one by one" in line
    assert "no batches" in line


@pytest.mark.parametrize("error", [StorageError("busy"), StorageRefused("no")], ids=["fails", "refuses"])
def test_a_store_that_deletes_no_file_alone_either_is_not_asked_for_all(error: IcebergHmsError) -> None:
    driver = with_all_files(BatchMemoryDriver)
    driver.broken = dict.fromkeys(LOCATIONS, error)
    driver.failures = [StorageRefused("no batches")]
    deleted = files_of(driver).delete_all(LOCATIONS[:1_000])
    assert (len(deleted.failed), list(deleted.locations), count(driver, "remove") <= 8) == (1_000, [], True)
    # It is asked for a batch again: nothing says that batches alone are refused.
    driver.broken = {}
    files_of(driver).delete_all(LOCATIONS[:1_000])
    assert count(driver, "remove_all") == 2


def test_a_store_that_was_busy_is_asked_for_batches_again() -> None:
    driver = with_all_files(BatchMemoryDriver)
    driver.failures = [StorageError("busy")]
    files = files_of(driver)
    assert files.delete_all(LOCATIONS[:10]).failed == {}
    assert files.delete_all(LOCATIONS[10:20]).failed == {}
    assert (count(driver, "remove_all"), count(driver, "remove")) == (2, 10)


@pytest.mark.parametrize("silent", [1, 7, 10])
def test_of_what_a_store_says_nothing_is_deleted_alone(silent: int) -> None:
    driver = with_all_files(BatchMemoryDriver)
    driver.silent = silent
    deleted = files_of(driver).delete_all(LOCATIONS[:10])
    assert (sorted(deleted.locations), deleted.failed) == (LOCATIONS[:10], {})
    assert count(driver, "remove") == silent


@pytest.mark.parametrize("kind", [MemoryDriver, BatchMemoryDriver])
@pytest.mark.parametrize(
    "error",
    [
        StorageRefused("locked"),
        CorruptFile("x", "it is a folder"),
        InvalidInput("no such name"),
        ResourceExhausted("no file left"),
        StorageError("fails for this one"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_file_that_stays_is_named_with_its_reason_and_all_others_go(
    error: IcebergHmsError, kind: type[MemoryDriver]
) -> None:
    driver = with_all_files(kind)
    kept = {LOCATIONS[0], LOCATIONS[7]}
    driver.broken = dict.fromkeys(kept, error)
    deleted = files_of(driver).delete_all([*LOCATIONS, "s3://b/none"])
    assert deleted.failed == dict.fromkeys(kept, error)
    assert driver.files.keys() == kept
    assert set(LOCATIONS) - set(deleted.locations) == kept


def test_single_deletions_are_tried_again_too() -> None:
    driver, clock = with_all_files(MemoryDriver), Waits()
    driver.failures = unreliable(2)
    deleted = files_of(driver, Retries(2, clock=clock)).delete_all(LOCATIONS[:3])
    assert (list(deleted.locations), deleted.failed, clock.slept) == (LOCATIONS[:3], {}, [0.1, 0.4])


def test_a_store_that_is_away_is_not_waited_for_once_a_file() -> None:
    driver, clock = with_all_files(MemoryDriver), Waits()
    driver.failures = unreliable(10_000)
    deleted = files_of(driver, Retries(2, clock=clock)).delete_all(LOCATIONS)
    assert len(deleted.failed) == len(driver.files) == len(LOCATIONS)
    assert len(driver.calls) == 9
