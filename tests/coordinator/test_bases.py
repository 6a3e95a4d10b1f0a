import pytest

from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.coordinator.bases import MetadataCache
from iceberg_hms.errors import CorruptFile, MissingFile, StorageError
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.documents import raw

DATA = TableMetadata(raw()).to_bytes()


class CountedFiles(MemoryFiles):
    """Counts reads, and fails the first `failures` of them."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.failures = failures

    def read(self, location):
        self.reads.append(location)
        if len(self.reads) <= self.failures:
            raise StorageError("throttled")
        return super().read(location)


class Impatient(ThreadRuntime):
    def __init__(self):
        super().__init__()
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)


def cache(files, *, max_bytes=1_000_000, retries=2):
    return MetadataCache(files, Impatient(), max_bytes=max_bytes, read_retries=retries)


def test_a_file_is_read_once():
    files = CountedFiles()
    files.write("file:/a", DATA)
    cached = cache(files)
    assert cached.get("file:/a") is cached.get("file:/a")
    assert files.reads == ["file:/a"]


def test_what_was_put_is_not_read():
    files = CountedFiles()
    cached, metadata = cache(files), TableMetadata(raw())
    cached.put("file:/a", metadata, 10)
    assert cached.get("file:/a") is metadata
    assert files.reads == []


def test_the_least_recently_used_goes_when_the_bytes_are_too_many():
    files = CountedFiles()
    for name in "abc":
        files.write(f"file:/{name}", DATA)
    cached = cache(files, max_bytes=2 * len(DATA))
    for name in "abac":
        cached.get(f"file:/{name}")
    cached.get("file:/a")
    assert files.reads == ["file:/a", "file:/b", "file:/c"], "a was used after b, so b had to go"
    cached.get("file:/b")
    assert files.reads[-1] == "file:/b"


def test_replacing_an_entry_does_not_count_its_bytes_twice():
    cached = cache(CountedFiles(), max_bytes=100)
    first, second = TableMetadata(raw()), TableMetadata(raw())
    cached.put("file:/a", first, 60)
    cached.put("file:/a", second, 60)
    cached.put("file:/b", first, 40)
    assert cached.get("file:/a") is second


def test_a_storage_error_is_tried_again_as_often_as_the_setting_says():
    files = CountedFiles(failures=2)
    files.write("file:/a", DATA)
    assert cache(files, retries=2).get("file:/a").uuid == "0000-1"
    files = CountedFiles(failures=2)
    files.write("file:/a", DATA)
    with pytest.raises(StorageError, match="throttled"):
        cache(files, retries=1).get("file:/a")


def test_a_file_that_is_not_there_is_not_tried_again():
    files = CountedFiles()
    with pytest.raises(MissingFile):
        cache(files).get("file:/a")
    assert len(files.reads) == 1


def test_a_damaged_file_is_named_and_not_cached():
    files = CountedFiles()
    files.write("file:/a", b"{")
    cached = cache(files)
    with pytest.raises(CorruptFile, match="file:/a"):
        cached.get("file:/a")
    files.replace("file:/a", DATA)
    assert cached.get("file:/a").uuid == "0000-1"
