import pytest

from iceberg_hms.catalog.runtime import ThreadRuntime
from iceberg_hms.coordinator.bases import MetadataCache
from iceberg_hms.errors import CorruptFile, MissingFile, StorageError
from iceberg_hms.format import rows
from iceberg_hms.format.apply import apply
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.format.rows import BLOCK_ROWS
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.documents import raw, snapshot
from tests.test_forks import said_by

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


def alone(metadata: TableMetadata) -> int:
    """What it takes if it shares nothing."""
    memory = metadata.memory()
    return memory.text + memory.own + sum(block.memory for block in memory.shared)


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
        files.write(f"file:/{name}", table(name).to_bytes())
    cached = cache(files, max_bytes=2 * alone(table("a")) + 500)
    for name in "abac":
        cached.get(f"file:/{name}")
    cached.get("file:/a")
    assert files.reads == ["file:/a", "file:/b", "file:/c"], "a was used after b, so b had to go"
    cached.get("file:/b")
    assert files.reads[-1] == "file:/b"


def test_replacing_an_entry_does_not_count_its_bytes_twice():
    cached = cache(CountedFiles())
    first, second = table("a"), table("b")
    cached.put("file:/a", first, 60)
    taken = cached.bytes_taken
    cached.put("file:/a", second, 60)
    assert (cached.bytes_taken, cached.get("file:/a")) == (taken, second)


def test_an_entry_takes_the_bytes_of_its_file_at_least():
    cached = cache(CountedFiles())
    cached.put("file:/a", table("a"), 100_000)
    assert cached.bytes_taken == 100_000


def test_a_cache_without_room_keeps_nothing():
    cached = cache(CountedFiles(), max_bytes=0)
    cached.put("file:/a", table("a"), 60)
    assert cached.bytes_taken == 0
    with pytest.raises(MissingFile):
        cached.get("file:/a")


def test_what_versions_of_a_table_share_counts_once():
    cached = cache(CountedFiles(), max_bytes=10**9)
    base = table("a", snapshots=4 * BLOCK_ROWS)
    cached.put("file:/0", base, 1)
    assert cached.bytes_taken == alone(base)
    after = append_to(base, 1)
    cached.put("file:/1", after, 1)
    assert cached.bytes_taken == alone(base) + after.memory().own + after.memory().text
    apart = TableMetadata.parse(after.to_bytes())
    cached.put("file:/2", apart, 1)
    assert cached.bytes_taken == alone(base) - base.memory().text + after.memory().own + after.memory().text + alone(
        apart
    ), "read from a file, it shares nothing; and the first of the three is past"


def test_what_is_shared_counts_until_the_last_that_has_it_goes():
    versions = [table("a", snapshots=4 * BLOCK_ROWS)]
    for number in range(3):
        versions.append(append_to(versions[-1], number))
    small = table("b")
    cached = cache(CountedFiles(), max_bytes=alone(versions[-1]) + alone(small))
    for number, metadata in enumerate(versions):
        cached.put(f"file:/{number}", metadata, 1)
    assert cached.bytes_taken == alone(versions[-1]), "the older ones went, and what all have stayed"
    cached.put("file:/b", small, 1)
    cached.put("file:/b2", append_to(small, 1), 1)
    assert cached.bytes_taken == alone(small) + alone(append_to(small, 1)), "it took more than there was"


def test_a_busy_table_pushes_out_its_own_past_and_not_the_others():
    quiet, busy = table("quiet"), table("busy", snapshots=4 * BLOCK_ROWS)
    cached = cache(CountedFiles(), max_bytes=alone(busy) + 20 * busy.memory().text)
    cached.put("file:/quiet", quiet, 1)
    for number in range(300):
        cached.put(f"file:/busy-{number}", append_to(busy, number), 1)
        if number:
            assert cached.get(f"file:/busy-{number - 1}").current_snapshot_id == number - 1, "the base is looked at"
        busy = cached.get(f"file:/busy-{number}")
    assert cached.get("file:/quiet") is quiet
    assert cached.get("file:/busy-299") is busy
    assert cached.get("file:/busy-298").current_snapshot_id == 298
    with pytest.raises(MissingFile):
        cached.get("file:/busy-1")


def test_the_past_lets_its_text_go_and_is_there_all_the_same():
    versions = [table("a", snapshots=4 * BLOCK_ROWS)]
    cached = cache(CountedFiles(), max_bytes=10**9)
    for number in range(5):
        versions.append(append_to(versions[-1], number))
    for number, metadata in enumerate(versions):
        cached.put(f"file:/{number}", metadata, 1)
    texts = [metadata.to_bytes() for metadata in versions]
    kept = [metadata.to_bytes() is text for metadata, text in zip(versions, texts, strict=True)]
    assert kept == [False] * 4 + [True] * 2
    taken = cached.bytes_taken
    assert cached.get("file:/2") is versions[2]
    assert versions[2].to_bytes() is versions[2].to_bytes() == texts[2], "it is in use again"
    assert cached.bytes_taken == taken + len(texts[2]) - len(texts[4])


def test_an_old_version_that_is_read_late_is_the_first_to_go():
    old = table("a")
    versions = [append_to(old, 1), append_to(old, 2)]
    cached = cache(CountedFiles(), max_bytes=sum(map(alone, versions)) + alone(old) - 100)
    cached.put("file:/1", versions[0], 1)
    cached.put("file:/2", versions[1], 1)
    cached.put("file:/old", old, 1)
    cached.put("file:/other", table("b"), 1)
    with pytest.raises(MissingFile):
        cached.get("file:/old")
    assert cached.get("file:/2") is versions[1]


def test_tables_without_a_uuid_have_no_past():
    metadata = TableMetadata({**table("a").raw, "format-version": 1, "table-uuid": None})
    cached = cache(CountedFiles())
    for number in range(5):
        cached.put(f"file:/{number}", metadata, 1)
    assert cached.bytes_taken == 5 * alone(metadata)


def test_the_bytes_come_to_nothing_however_entries_come_and_go():
    cached = cache(CountedFiles(), max_bytes=300_000)
    versions = [table("a", snapshots=BLOCK_ROWS)]
    for number in range(20):
        versions.append(append_to(versions[-1], number))
    for step in range(200):
        cached.put(f"file:/{step % 13}", versions[step * 7 % 21], 1)
        assert 0 < cached.bytes_taken <= 300_000


def test_what_is_larger_than_all_the_room_pushes_nothing_out():
    small, large = table("a"), table("b", snapshots=20 * BLOCK_ROWS)
    cached = cache(CountedFiles(), max_bytes=300_000)
    cached.put("file:/a", small, 1)
    cached.put("file:/large", large, 1)
    assert cached.get("file:/a") is small
    assert cached.bytes_taken == alone(small)
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


def test_nobody_waits_while_the_memory_of_a_large_table_is_counted(monkeypatch):
    cached, held, count = cache(CountedFiles(), max_bytes=10**9), [], rows.estimated_bytes

    def counting(value):
        held.append(cached._mutex.locked())
        return count(value)

    monkeypatch.setattr(rows, "estimated_bytes", counting)
    large = table("a", snapshots=4 * BLOCK_ROWS)
    cached.put("file:/a", large, 1)
    assert held == [False] * 4
    assert cached.bytes_taken == alone(large)


FORKING = """
import os, signal
from tests.coordinator.test_bases import DATA, CountedFiles, alone, cache, table

files = CountedFiles()
files.write("file:/a", DATA)
cached = cache(files)
first = cached.get("file:/a")
cached._mutex.acquire()
child = os.fork()
if child == 0:
    signal.alarm(10)
    empty = cached.bytes_taken == 0
    read = cached.get("file:/a")
    os._exit(0 if empty and len(files.reads) == 2 and cached.bytes_taken == alone(read) else 1)
cached._mutex.release()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), cached.get("file:/a") is first)
"""


def test_a_forked_child_begins_with_an_empty_cache():
    assert said_by(FORKING) == "0 True\n"
