import pytest

from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.coordinator.protocol.metadata_cache import MetadataCache
from iceberg_hms.errors import CorruptFile, MissingFile, StorageError
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.documents import raw, snapshot

DATA = TableMetadata(raw()).to_bytes()


def table(name: str, snapshots: int = 0) -> TableMetadata:
    """Of its own uuid."""
    history = [snapshot(1_000_000 + number, number, number) for number in range(1, snapshots + 1)]
    empty = {"current_snapshot_id": -1, "refs": {}, "snapshot_log": []}
    return TableMetadata(raw(table_uuid=f"0000-{name}", last_sequence_number=10_000, snapshots=history, **empty))


def append_to(base: TableMetadata, id_: int) -> TableMetadata:
    added = {**snapshot(id_, base.next_sequence_number, 9_000 + id_), "schema-id": 0}
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id_}
    return apply(base, [{"action": "add-snapshot", "snapshot": added}, ref], now_ms=9_000 + id_)


def weight(metadata: TableMetadata) -> int:
    return 4_096 + 5 * len(metadata.to_bytes())


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


def test_a_version_is_a_row_with_the_metadata_that_it_points_at():
    files = CountedFiles()
    files.write("file:/a", DATA)
    cached, row = cache(files), Pointer(TableName("db", "t"), "file:/a", None, {}, None)
    version = cached.version(row)
    assert version.pointer is row
    assert version.metadata is cached.get("file:/a")


def test_what_was_put_is_not_read():
    files = CountedFiles()
    cached, metadata = cache(files), TableMetadata(raw())
    cached.put("file:/a", metadata)
    assert cached.get("file:/a") is metadata
    assert files.reads == []


def test_the_least_recently_used_goes_when_the_bytes_are_too_many():
    files = CountedFiles()
    for name in "abc":
        files.write(f"file:/{name}", table(name).to_bytes())
    cached = cache(files, max_bytes=2 * weight(table("a")) + 500)
    for name in "abac":
        cached.get(f"file:/{name}")
    cached.get("file:/a")
    assert files.reads == ["file:/a", "file:/b", "file:/c"], "a was used after b, so b had to go"
    cached.get("file:/b")
    assert files.reads[-1] == "file:/b"


def test_replacing_an_entry_does_not_count_its_bytes_twice():
    cached = cache(CountedFiles())
    first, second = table("a"), table("b", snapshots=3)
    cached.put("file:/a", first)
    assert cached._bytes == weight(first)
    cached.put("file:/a", second)
    assert (cached._bytes, cached.get("file:/a")) == (weight(second), second)


def test_a_cache_without_room_keeps_nothing():
    cached = cache(CountedFiles(), max_bytes=0)
    cached.put("file:/a", table("a"))
    assert cached._bytes == 0
    with pytest.raises(MissingFile):
        cached.get("file:/a")


def test_a_compressed_file_counts_as_its_text():
    zipped = TableMetadata(raw(properties={"write.metadata.compression-codec": "gzip", "comment": "x" * 10_000}))
    files = CountedFiles()
    files.write("file:/a", metadata_file.encode(zipped))
    cached = cache(files)
    assert cached.get("file:/a").raw == zipped.raw
    assert len(metadata_file.encode(zipped)) < 1_000
    assert cached._bytes == weight(zipped)


def test_a_busy_table_pushes_out_its_own_past_and_not_the_others():
    quiet, busy = table("quiet"), table("busy")
    cached = cache(CountedFiles())
    cached.put("file:/quiet", quiet)
    for number in range(300):
        cached.put(f"file:/busy-{number}", append_to(busy, number))
        if number:
            assert cached.get(f"file:/busy-{number - 1}").current_snapshot_id == number - 1, "the base is looked at"
        busy = cached.get(f"file:/busy-{number}")
    assert cached.get("file:/quiet") is quiet
    assert cached.get("file:/busy-299") is busy
    assert cached.get("file:/busy-298").current_snapshot_id == 298
    assert cached._bytes == sum(map(weight, (quiet, busy, cached.get("file:/busy-298"))))
    with pytest.raises(MissingFile):
        cached.get("file:/busy-297")


def test_of_a_table_the_versions_that_were_used_last_stay():
    cached = cache(CountedFiles())
    for name in ("old", "base"):
        cached.put(f"file:/{name}", table("a"))
    cached.get("file:/old")
    cached.put("file:/next", table("a"))
    assert cached.get("file:/old").uuid == cached.get("file:/next").uuid == "0000-a"
    with pytest.raises(MissingFile):
        cached.get("file:/base")


def test_what_is_not_kept_lets_its_text_go_and_can_be_asked_for_it_again():
    versions = [append_to(table("a"), number) for number in range(3)]
    large = table("b", snapshots=400)
    cached = cache(CountedFiles(), max_bytes=100_000)
    texts = [metadata.to_bytes() for metadata in (*versions, large)]
    for number, metadata in enumerate((*versions, large)):
        cached.put(f"file:/{number}", metadata)
    kept = [metadata.to_bytes() is text for metadata, text in zip((*versions, large), texts, strict=True)]
    assert kept == [False, True, True, False]
    assert [metadata.to_bytes() for metadata in (*versions, large)] == texts


def test_the_past_is_looked_at_and_takes_nobody_s_place():
    files = CountedFiles()
    for number in range(3):
        files.write(f"file:/{number}", append_to(table("a"), number).to_bytes())
    cached = cache(files)
    newest = [cached.get("file:/1"), cached.get("file:/2")]
    for _ in range(2):
        assert cached.peek("file:/0").current_snapshot_id == 0
    assert cached.peek("file:/1") is newest[0]
    assert [cached.get("file:/1"), cached.get("file:/2")] == newest
    assert files.reads == ["file:/1", "file:/2", "file:/0", "file:/0"]


def test_tables_without_a_uuid_are_bounded_by_their_bytes_alone():
    metadata = TableMetadata({**table("a").raw, "format-version": 1, "table-uuid": None})
    cached = cache(CountedFiles())
    for number in range(5):
        cached.put(f"file:/{number}", metadata)
    assert cached._bytes == 5 * weight(metadata)


def test_the_bytes_come_to_nothing_however_entries_come_and_go():
    tables = [table(name, snapshots=size) for name, size in (("a", 0), ("b", 3), ("c", 20), ("d", 90))]
    cached = cache(CountedFiles(), max_bytes=2 * weight(tables[3]))
    for step in range(500):
        cached.put(f"file:/{step % 13}", tables[step * 7 % 4])
        assert 0 < cached._bytes <= 2 * weight(tables[3])
    for number in range(13):
        cached.put(f"file:/{number}", table("large", snapshots=400))
    assert cached._bytes == 0


def test_what_is_larger_than_all_the_room_pushes_nothing_out():
    small, large = table("a"), table("b", snapshots=400)
    cached = cache(CountedFiles(), max_bytes=100_000)
    cached.put("file:/a", small)
    cached.put("file:/large", large)
    assert cached.get("file:/a") is small
    assert cached._bytes == weight(small)
    with pytest.raises(MissingFile):
        cached.get("file:/large")


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


def test_nobody_waits_while_the_text_of_a_large_table_is_made(monkeypatch):
    cached, held, made = cache(CountedFiles()), [], TableMetadata.to_bytes

    def making(metadata):
        held.append(cached._mutex.locked())
        return made(metadata)

    monkeypatch.setattr(TableMetadata, "to_bytes", making)
    cached.put("file:/a", table("a"))
    assert held == [False]
