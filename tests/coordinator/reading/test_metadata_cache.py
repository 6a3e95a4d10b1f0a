import threading
from dataclasses import replace

import pytest

from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.errors import CorruptFile, MissingFile, StorageError
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.memory_budget import MemoryBudget
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
    """Counts reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, location, limit=DEFAULT_BOUNDS.metadata_bytes):
        self.reads.append(location)
        return super().read(location, limit)


def cache(files, *, max_bytes=1_000_000):
    return MetadataCache(files, ThreadRuntime(), max_bytes=max_bytes)


def kept(cached, *names):
    """Which of these files the cache holds. `peek` neither keeps nor moves an entry."""
    return [name for name in names if holds(cached, f"file:/{name}")]


def holds(cached, location):
    try:
        cached.peek(location)
    except MissingFile:
        return False
    return True


def test_a_file_is_read_once():
    files = CountedFiles()
    files.write("file:/a", DATA)
    cached = cache(files)
    assert cached.get("file:/a") is cached.get("file:/a")
    assert files.reads == ["file:/a"]


def test_a_file_beyond_its_bounds_is_read_once_and_no_more():
    files = CountedFiles()
    files.write("file:/a", DATA)
    limit = Limit("storage.max-metadata-bytes", 9)
    small = replace(DEFAULT_BOUNDS, metadata_bytes=limit)
    cached = MetadataCache(files, ThreadRuntime(), max_bytes=1_000_000, bounds=small)
    with pytest.raises(CorruptFile, match="more than 9 bytes"):
        cached.get("file:/a")
    assert files.reads == ["file:/a"], "another try would find it as large"


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
    first, second, other = table("a"), table("b", snapshots=3), table("c")
    cached = cache(CountedFiles(), max_bytes=weight(second) + weight(other))
    cached.put("file:/other", other)
    cached.put("file:/a", first)
    cached.put("file:/a", second)
    assert cached.get("file:/a") is second
    assert kept(cached, "a", "other") == ["a", "other"]


def test_a_cache_without_room_keeps_nothing():
    cached = cache(CountedFiles(), max_bytes=0)
    cached.put("file:/a", table("a"))
    with pytest.raises(MissingFile):
        cached.get("file:/a")


def test_a_compressed_file_counts_as_its_text():
    zipped = TableMetadata(raw(properties={"write.metadata.compression-codec": "gzip", "comment": "x" * 10_000}))
    files = CountedFiles()
    files.write("file:/a", metadata_file.encode(zipped))
    assert len(metadata_file.encode(zipped)) < 1_000
    for max_bytes, reads in ((weight(zipped), 1), (weight(zipped) - 1, 2)):
        files.reads.clear()
        cached = cache(files, max_bytes=max_bytes)
        for _ in range(2):
            found = cached.get("file:/a").raw
            assert found == zipped.raw
        assert len(files.reads) == reads


def test_a_busy_table_pushes_out_its_own_past_and_not_the_others():
    """There is room for the quiet table and two versions of the busy one, to the byte."""
    quiet, versions = table("quiet"), [table("busy")]
    for number in range(300):
        versions.append(append_to(versions[-1], number))
    cached = cache(CountedFiles(), max_bytes=sum(map(weight, (quiet, *versions[-2:]))))
    cached.put("file:/quiet", quiet)
    for number, version in enumerate(versions):
        cached.put(f"file:/busy-{number}", version)
        if number:
            assert cached.get(f"file:/busy-{number - 1}") is versions[number - 1], "the base of the next commit"
        assert cached.get(f"file:/busy-{number}") is version
    assert kept(cached, "quiet", "busy-300", "busy-299", "busy-298") == ["quiet", "busy-300", "busy-299"]


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
    cached = cache(CountedFiles(), max_bytes=5 * weight(metadata))
    for number in range(6):
        cached.put(f"file:/{number}", metadata)
    assert kept(cached, *range(6)) == [1, 2, 3, 4, 5]


def test_however_entries_come_and_go_the_cache_fills_its_bytes_and_no_more():
    tables = [table(name, snapshots=size) for name, size in (("a", 0), ("b", 3), ("c", 20), ("d", 90))]
    most = 2 * weight(tables[3])
    cached, held = cache(CountedFiles(), max_bytes=most), {}
    for step in range(500):
        held[step % 13] = tables[step * 7 % 4]
        cached.put(f"file:/{step % 13}", held[step % 13])
        assert 0 < sum(weight(held[name]) for name in kept(cached, *held)) <= most
    last = [table(name, snapshots=90) for name in "ef"]
    assert sum(map(weight, last)) == most
    for metadata in last:
        cached.put(f"file:/{metadata.uuid}", metadata)
    assert kept(cached, *held, *(metadata.uuid for metadata in last)) == [metadata.uuid for metadata in last]


def test_what_is_larger_than_all_the_room_takes_none_and_pushes_nothing_out():
    first, second, large = table("a"), table("b"), table("c", snapshots=400)
    cached = cache(CountedFiles(), max_bytes=weight(first) + weight(second))
    for name, metadata in (("a", first), ("large", large), ("b", second)):
        cached.put(f"file:/{name}", metadata)
    assert kept(cached, "a", "b", "large") == ["a", "b"]


def test_a_damaged_file_is_named_and_not_cached():
    files = CountedFiles()
    files.write("file:/a", b"{")
    cached = cache(files)
    with pytest.raises(CorruptFile, match="file:/a"):
        cached.get("file:/a")
    files.replace("file:/a", DATA)
    assert cached.get("file:/a").uuid == "0000-1"


def test_nobody_waits_while_the_text_of_a_large_table_is_made(monkeypatch):
    cached, waits, made = cache(CountedFiles()), [], TableMetadata.to_bytes
    cached.put("file:/other", table("b"))

    def making(metadata):
        reader = threading.Thread(target=cached.get, args=["file:/other"])
        reader.start()
        reader.join(10)
        waits.append(reader.is_alive())
        return made(metadata)

    monkeypatch.setattr(TableMetadata, "to_bytes", making)
    cached.put("file:/a", table("a"))
    assert waits == [False]


class LookedAt(CountedFiles):
    """Counts looks at files. While `down`, the store does not answer them."""

    def __init__(self):
        super().__init__()
        self.looks = 0
        self.down = False

    def length(self, location):
        self.looks += 1
        if self.down:
            raise StorageError("timed out")
        return super().length(location)


class Clock(ThreadRuntime):
    def __init__(self):
        super().__init__()
        self.time = 100.0

    def now(self):
        return self.time


def looked_at(location):
    """Files, a clock and a cache with the metadata of this location; and the row that points there."""
    files, clock = LookedAt(), Clock()
    files.write(location, DATA)
    cached = MetadataCache(files, clock, max_bytes=1_000_000)
    row = Pointer(TableName("ns", "t"), location, None, {}, None)
    cached.present_version(row)
    return files, clock, cached, row


def test_a_reader_of_cached_metadata_learns_that_its_local_file_is_gone_and_a_commit_still_has_it():
    files, _, cached, row = looked_at("file:/a")
    assert (cached.present_version(row).metadata.to_bytes(), files.looks) == (DATA, 1)
    files.delete("file:/a")
    for _ in range(2):
        with pytest.raises(MissingFile, match="file:/a"):
            cached.present_version(row)
    assert cached.version(row).metadata.to_bytes() == DATA
    files.write("file:/a", DATA)
    assert cached.present_version(row).metadata.to_bytes() == DATA
    assert files.reads == ["file:/a"]


def test_another_store_is_asked_once_in_a_while_and_each_time_once_the_file_is_gone():
    files, clock, cached, row = looked_at("s3://bucket/a")
    clock.time += 59.9
    cached.present_version(row)
    assert files.looks == 0
    clock.time += 0.1
    cached.present_version(row)
    cached.present_version(row)
    assert files.looks == 1
    clock.time += 60
    files.delete("s3://bucket/a")
    for looks in (2, 3):
        with pytest.raises(MissingFile):
            cached.present_version(row)
        assert files.looks == looks


@pytest.mark.parametrize("location", ["file:/a", "s3://bucket/a"])
def test_a_store_that_does_not_answer_hides_no_table_whose_metadata_is_cached(location):
    files, clock, cached, row = looked_at(location)
    files.down = True
    clock.time += 60
    assert cached.present_version(row).metadata.to_bytes() == DATA
    assert files.looks == 1


def test_what_a_commit_wrote_counts_as_seen():
    files, clock, cached, row = looked_at("s3://bucket/a")
    clock.time += 60
    cached.put("s3://bucket/a", TableMetadata.parse(DATA))
    cached.present_version(row)
    assert files.looks == 0


def test_what_is_kept_counts_in_a_budget_and_gives_way_to_what_is_read():
    files, budget = CountedFiles(), MemoryBudget(100_000)
    cached = cache(files)
    cached.use_memory(budget)
    files.write("file:/a", table("a").to_bytes())
    cached.get("file:/a")
    cached.put("file:/b", table("b"))
    held = budget.held()
    assert held > weight(table("b"))
    assert budget.share("another").resize(50_000)
    assert budget.held() == held
    others = budget.share("others"), budget.share("more")
    assert all(other.resize(50_000) for other in others)
    assert kept(cached, "b") == []
    assert budget.held() == 100_000


def test_metadata_that_somebody_uses_is_not_read_again():
    """A group that waits for its lock would else hold the table twice."""
    files = CountedFiles()
    files.write("file:/a", DATA)
    for max_bytes in (0, 1_000_000):
        files.reads.clear()
        cached = cache(files, max_bytes=max_bytes)
        used = cached.get("file:/a")
        cached.clear()
        assert cached.get("file:/a") is used
        assert files.reads == ["file:/a"]
        assert cached.read_anew("file:/a") is not used
        del used
