"""ManifestStore keeps the contract of the Manifests port, on a disk and in memory; caching, rolling, failures."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import CorruptFile, InvalidInput, MissingFile, ResourceExhausted, StorageError
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import FieldSummary, ManifestFile, decode_list, encode_list
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage import manifests as manifests_module
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.testing.contracts.manifests import CHECKS, Open, sample_file, sample_metadata, sample_snapshot
from iceberg_hms.testing.memory_files import MemoryFiles


class CountingFiles(MemoryFiles):
    """Counts reads; refuses to write names with given endings."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.refused = "nothing"

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        self.reads.append(location)
        return super().read(location, limit)

    def write(self, location: str, data: bytes) -> None:
        if location.endswith(self.refused):
            raise StorageError(f"No space left for {location}")
        super().write(location, data)


def store(files: Any, **settings: Any) -> ManifestStore:
    return ManifestStore(files, Settings(**settings), ThreadRuntime())


def added(count: int) -> list[ManifestEntry]:
    return [ManifestEntry(EntryStatus.ADDED, sample_file(f"file:/d/{at:06d}.parquet", at)) for at in range(count)]


def written(
    opened: ManifestStore, entries: list[ManifestEntry], *, location: str = "file:/w", **properties: str
) -> Any:
    metadata = sample_metadata(location, properties=properties)
    return opened.open().write(metadata, metadata.schema, metadata.spec, 7, entries)


class Batches(ThreadRuntime):
    """Notes how many functions each call of `gather` gets. Each call of `now` moves its clock on by `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self._seconds, self._now = seconds, 0.0

    def now(self) -> float:
        self._now += self._seconds
        return self._now

    def gather(self, functions: Any) -> Any:
        self.sizes.append(len(functions))
        return super().gather(functions)


@pytest.mark.parametrize(
    ("lengths", "batches"),
    [
        ([1] * 40, [16, 16, 8]),
        ([8 << 20] * 9, [8, 1]),
        ([40 << 20, 20 << 20, 40 << 20, 300 << 20, 1], [2, 1, 1, 1]),
        ([-(1 << 40), 300 << 20, 1], [1, 1, 1]),
    ],
)
def test_manifests_are_read_together_as_long_as_they_are_small(lengths: list[int], batches: list[int]) -> None:
    """The lengths are what the lists say."""
    runtime = Batches()
    opened = ManifestStore(MemoryFiles(), Settings(io_threads=16), runtime)
    [line] = written(opened, added(1), location="s3://bucket/w")
    runtime.sizes.clear()
    lines = [replace(line, manifest_length=length) for length in lengths]
    assert len(list(opened.open().entries(lines))) == len(lengths)
    assert runtime.sizes == batches


@pytest.mark.parametrize(("seconds", "batches"), [(0.0, []), (0.011, [16, 15])])
def test_manifests_on_a_disk_are_read_one_after_the_other_unless_that_takes_long(
    seconds: float, batches: list[int]
) -> None:
    runtime = Batches(seconds)
    opened = ManifestStore(MemoryFiles(), Settings(io_threads=16), runtime)
    [line] = written(opened, added(1))
    runtime.sizes.clear()
    assert len(list(opened.open().entries([line] * 40))) == 40
    assert runtime.sizes == batches


def test_what_is_read_counts_in_the_budget_for_as_long_as_somebody_has_it() -> None:
    files = CountingFiles()
    opened = store(files)
    [line] = written(opened, added(3))
    length = len(files.read(line.manifest_path))
    budget = MemoryBudget(5 * length)
    opened.use_memory(budget)
    reading = opened.open().read([line])
    _, entries = next(reading)
    assert budget.held() == 2 * length
    assert len(list(entries)) == 3
    del entries
    assert next(reading, None) is None
    assert budget.held() == 0


@pytest.mark.parametrize("claimed", [1, 1 << 40])
def test_a_manifest_for_which_there_is_no_memory_is_not_read(claimed: int) -> None:
    """whatever the list says of its length"""
    files = CountingFiles()
    opened = store(files)
    [line] = written(opened, added(3))
    length = len(files.read(line.manifest_path))
    budget = MemoryBudget(2 * length - 1)
    opened.use_memory(budget)
    with pytest.raises(ResourceExhausted, match=f"leave no {2 * length} bytes of memory for {line.manifest_path}"):
        list(opened.open().entries([replace(line, manifest_length=claimed)]))
    assert budget.held() == 0


class Noted(ThreadRuntime):
    """Notes how many begun functions are ahead of who takes the results, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = self.most = self.abandoned = 0

    def begin(self, function: Any) -> Any:
        self.ahead += 1
        self.most = max(self.most, self.ahead)
        return NotedFunction(self, super().begin(function))


class NotedFunction:
    def __init__(self, runtime: Noted, begun: Any) -> None:
        self.runtime, self.begun = runtime, begun

    def result(self) -> Any:
        self.runtime.ahead -= 1
        return self.begun.result()

    def abandon(self) -> None:
        self.runtime.abandoned += 1
        self.begun.abandon()


@pytest.mark.parametrize(("length", "ahead"), [(1, 4), (3 << 20, 2), (9 << 20, 2), (-1, 4)])
def test_manifests_are_decoded_some_ahead_in_order(length: int, ahead: int) -> None:
    """The lengths are what the lists say."""
    runtime = Noted()
    opened = ManifestStore(MemoryFiles(), Settings(io_threads=4), ThreadRuntime(), decoders=runtime)
    [line] = written(opened, added(3))
    lines = [replace(line, manifest_length=length, added_snapshot_id=number) for number in range(20)]
    found = list(opened.decode_each(lines, lambda file, data, _admit: (file.added_snapshot_id, len(data))))
    assert found == [(number, line.manifest_length) for number in range(20)]
    assert runtime.most == ahead
    assert runtime.abandoned == 0


def test_few_threads_decode() -> None:
    """Several at a time, but each keeps memory of a library's for good."""
    decoders = ThreadRuntime(threads=4)
    opened = ManifestStore(MemoryFiles(), Settings(io_threads=16), ThreadRuntime(), decoders=decoders)
    [line] = written(opened, added(3))
    four = threading.Barrier(4, timeout=30)

    def decode(*_: object) -> int:
        four.wait()
        return threading.get_ident()

    # The caller decodes what no thread has begun.
    assert len(set(opened.decode_each([line] * 12, decode))) in (4, 5)


def test_who_takes_no_more_columns_stops_the_decoding() -> None:
    runtime = Noted()
    opened = ManifestStore(MemoryFiles(), Settings(io_threads=4), ThreadRuntime(), decoders=runtime)
    [line] = written(opened, added(3))
    decoding = opened.decode_each([line] * 20, lambda *_: 7)
    assert next(decoding) == 7
    decoding.close()  # type: ignore[attr-defined]
    assert runtime.abandoned == 3


def test_what_is_decoded_counts_in_the_budget_until_the_next_is_taken() -> None:
    opened = store(MemoryFiles(), io_threads=1)
    [line] = written(opened, added(3))
    budget = MemoryBudget(2 * line.manifest_length + 1_000)
    opened.use_memory(budget)

    def decode(_file: ManifestFile, _data: bytes, admit: Callable[[int], object]) -> int:
        admit(10)
        admit(1_000)
        return 7

    decoding = opened.decode_each([line] * 3, decode)
    for _ in range(3):
        assert next(decoding) == 7
        assert budget.held() == 2 * line.manifest_length + 1_000
    assert next(decoding, None) is None
    assert budget.held() == 0

    with pytest.raises(ResourceExhausted, match=line.manifest_path):
        list(opened.decode_each([line], lambda _file, _data, admit: admit(1_001)))
    assert budget.held() == 0


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_manifests_on_disk_keep_the_contract(check: Callable[[Open, str], None], tmp_path: Path) -> None:
    check(store(RoutedFiles(fsync=False)).open, f"file:{tmp_path}/ware house")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_manifests_without_a_cache_keep_the_contract(check: Callable[[Open, str], None]) -> None:
    check(store(MemoryFiles(), manifest_cache_max_bytes=0, io_threads=1).open, "file:/w")


def test_a_list_is_read_once() -> None:
    files = CountingFiles()
    opened = store(files)
    group = opened.open()
    metadata = sample_metadata("file:/w")
    location = group.stage_list(metadata, sample_snapshot(7, 1), written(opened, added(1)))
    group.flush()
    snapshot = sample_snapshot(7, 1, location)
    for _ in range(3):
        opened.open().list(snapshot)
    assert files.reads == [], "our own list was read back"
    other = store(files)
    for _ in range(3):
        other.open().list(snapshot)
    assert files.reads == [location]


def far_lists(files: CountingFiles, count: int, root: str = "s3://bucket/w") -> list[Snapshot]:
    """Snapshots whose lists another process wrote."""
    writer = store(files)
    [line] = written(writer, added(1), location=root)
    group, metadata = writer.open(), sample_metadata(root)
    locations = [group.stage_list(metadata, sample_snapshot(7, 1), [line]) for _ in range(count)]
    group.flush()
    files.reads.clear()
    return [sample_snapshot(7, 1, location) for location in locations]


def lists_of(snapshots: list[Snapshot]) -> list[str]:
    return [str(each.manifest_list) for each in snapshots]


def test_lists_of_a_remote_store_are_fetched_together_and_not_read_again() -> None:
    files, runtime = CountingFiles(), Batches()
    snapshots = far_lists(files, 5)
    opened = ManifestStore(files, Settings(io_threads=4), runtime).open()
    opened.fetch(lists_of(snapshots))
    assert runtime.sizes == [4, 1]
    assert sorted(files.reads) == sorted(lists_of(snapshots))
    assert [len(opened.list(each)) for each in snapshots] == [1] * 5
    opened.fetch(lists_of(snapshots))
    assert len(files.reads) == 5, "known lists are fetched again"


@pytest.mark.parametrize(("root", "count"), [("file:/w", 3), ("s3://bucket/w", 1)])
def test_lists_that_are_near_or_alone_are_not_fetched(root: str, count: int) -> None:
    files = CountingFiles()
    opened = store(files).open()
    opened.fetch(lists_of(far_lists(files, count, root)))
    assert files.reads == []


def test_a_list_that_cannot_be_fetched_fails_when_it_is_asked_for() -> None:
    files = CountingFiles()
    snapshots = far_lists(files, 3)
    files.delete(str(snapshots[1].manifest_list))
    opened = store(files).open()
    opened.fetch(lists_of(snapshots))
    assert [len(opened.list(each)) for each in (snapshots[0], snapshots[2])] == [1, 1]
    with pytest.raises(MissingFile):
        opened.list(snapshots[1])


def test_no_more_lists_are_fetched_than_memory_should_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests_module, "BATCH_BYTES", 1)
    files, runtime = CountingFiles(), Batches()
    snapshots = far_lists(files, 5)
    ManifestStore(files, Settings(io_threads=2), runtime).open().fetch(lists_of(snapshots))
    assert runtime.sizes == [2]


def many(opened: ManifestStore, *, manifests: int = 5) -> list[ManifestFile]:
    """Manifests of two files each, as a list has them."""
    group = opened.open()
    metadata = sample_metadata("file:/w")
    files = [
        file
        for at in range(manifests)
        for file in group.write(metadata, metadata.schema, metadata.spec, 7, added(2 * at + 2)[2 * at :])
    ]
    location = group.stage_list(metadata, sample_snapshot(7, 1), files)
    group.flush()
    return list(group.list(sample_snapshot(7, 1, location)))


def asked(opened: ManifestStore, files: list[ManifestFile], number: int) -> list[str]:
    """The live files with a number."""
    path, port = f"file:/d/{number:06d}.parquet", opened.open()
    found = port.entries(port.candidates(files, {file_key(path)}))
    return [each.data_file.file_path for each in found if each.data_file.file_path == path]


def test_a_manifest_is_read_once_for_its_filter_and_again_only_for_a_match() -> None:
    files = CountingFiles()
    lines = many(store(files))
    reader = store(files)
    assert asked(reader, lines, 99) == []
    assert sorted(files.reads) == sorted(line.manifest_path for line in lines)
    files.reads.clear()
    assert asked(reader, lines, 98) == []
    assert files.reads == []
    assert asked(reader, lines, 5) == ["file:/d/000005.parquet"]
    assert files.reads == [lines[2].manifest_path]


def test_filters_of_manifests_that_we_wrote_need_no_read() -> None:
    files = CountingFiles()
    opened = store(files)
    assert asked(opened, many(opened), 99) == []
    assert files.reads == []


def test_filters_are_kept_in_bounded_memory() -> None:
    files = CountingFiles()
    lines = many(store(files))
    # About 470 bytes each: the cache keeps none, two or all five.
    for bound, reads in ((0, 10), (1_400, 8), (1_000_000, 5)):
        files.reads.clear()
        reader = store(files, file_filter_cache_max_bytes=bound, io_threads=1)
        assert asked(reader, lines, 99) == asked(reader, lines, 98) == []
        assert len(files.reads) == reads, bound


def test_manifests_without_live_data_files_are_not_read() -> None:
    files = CountingFiles()
    opened = store(files)
    numbers = {"snapshot_id": 3, "sequence_number": 2, "file_sequence_number": 2}
    removed = written(opened, [ManifestEntry(EntryStatus.DELETED, sample_file("file:/d/000000.parquet"), **numbers)])
    deletes = sample_file("file:/d/000000.parquet", content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
    lines = [*removed, *written(opened, [ManifestEntry(EntryStatus.ADDED, deletes)])]
    assert asked(store(files), lines, 0) == []
    assert files.reads == []


def test_a_damaged_manifest_is_an_error_and_does_not_count_as_one_without_the_file() -> None:
    files = CountingFiles()
    lines = many(store(files))
    whole = files.read(lines[1].manifest_path)
    files.delete(lines[1].manifest_path)
    with pytest.raises(MissingFile):
        asked(store(files), lines, 99)
    files.write(lines[1].manifest_path, whole[:-20])
    with pytest.raises(CorruptFile):
        asked(store(files), lines, 99)


def test_the_cache_is_bounded_and_evicts_the_least_recently_used() -> None:
    files = CountingFiles()
    writer = store(files)
    group = writer.open()
    lists = [group.stage_list(sample_metadata("file:/w"), sample_snapshot(at, at), []) for at in (1, 2, 3)]
    group.flush()
    snapshots = [sample_snapshot(at, at, lists[at - 1]) for at in (1, 2, 3)]
    reader = store(files, manifest_cache_max_bytes=3_000).open()
    for at in (0, 1, 0, 2, 0, 1):
        reader.list(snapshots[at])
    assert files.reads == [lists[0], lists[1], lists[2], lists[1]]


def test_manifests_roll_at_the_target_size_and_lose_nothing() -> None:
    files = MemoryFiles()
    opened = store(files)
    lines = written(opened, added(600), **{"commit.manifest.target-size-bytes": "8000"})
    assert len(lines) > 3
    assert [line.manifest_path[-8:-5] for line in lines[:3]] == ["-m0", "-m1", "-m2"]
    assert sum(line.added_files_count for line in lines) == 600
    assert all(files.length(line.manifest_path) == line.manifest_length for line in lines)
    found = [entry.data_file.file_path for entry in opened.open().entries(lines)]
    assert found == [entry.data_file.file_path for entry in added(600)]
    assert len(written(opened, added(600))) == 1


@pytest.mark.parametrize("size", ["0", "-1", "8MB", ""])
def test_a_target_size_that_means_nothing_is_the_default(size: str, caplog: pytest.LogCaptureFixture) -> None:
    assert len(written(store(MemoryFiles()), added(600), **{"commit.manifest.target-size-bytes": size})) == 1
    assert "commit.manifest.target-size-bytes" in caplog.text


def large(path: str, size: int) -> ManifestEntry:
    """An entry with a bound of so many bytes that no compression shrinks."""
    return ManifestEntry(EntryStatus.ADDED, sample_file(path, upper_bounds={3: random.Random(size).randbytes(size)}))


@pytest.mark.parametrize("bytes_", [100_000, 5_000_000])
def test_every_entry_that_is_written_can_be_read(bytes_: int) -> None:
    """An append wrote 5 MB of bounds, and no reader of ours took them."""
    files, entry = MemoryFiles(), large("file:/d/giant.parquet", bytes_)
    limit = len(only_record(entry))
    opened = store(files, max_manifest_record_bytes=limit)
    (line,) = written(opened, [*added(3), entry, *added(3)])
    read = list(opened.open().entries([line]))[3].data_file
    assert read.upper_bounds == entry.data_file.upper_bounds

    for other in (store(files, max_manifest_record_bytes=limit - 1), store(files, max_manifest_record_bytes=50_000)):
        with pytest.raises(
            InvalidInput, match=rf"for file:/d/giant\.parquet: an entry would have {limit} b"
        ) as refused:
            written(other, [*added(3), entry])
        assert "`storage.max-manifest-record-bytes`" in refused.value.next_step
        with pytest.raises(CorruptFile, match="is beyond a limit") as unread:
            list(other.open().entries([line]))
        assert unread.value.next_step == "if the file is as it should be, raise `storage.max-manifest-record-bytes`"
    assert files.locations() == (line.manifest_path,)


def test_an_entry_of_more_than_the_default_limit_is_refused_when_it_is_written() -> None:
    files = MemoryFiles()
    with pytest.raises(InvalidInput, match="more than 4194304"):
        written(store(files), [large("file:/d/giant.parquet", 4_200_000)])
    assert files.locations() == ()


def test_an_entry_that_moves_to_another_manifest_keeps_the_limit() -> None:
    """A merge copies the bytes of an entry."""
    files, entry = MemoryFiles(), large("file:/d/giant.parquet", 9_000)
    metadata = sample_metadata("file:/w")
    lines = written(store(files), [entry])
    (read,) = (
        replace(each, status=EntryStatus.EXISTING, sequence_number=1, file_sequence_number=1)
        for each in store(files).open().entries(lines)
    )
    assert read.encoded is not None
    strict = store(files, max_manifest_record_bytes=8_000).open()
    with pytest.raises(InvalidInput, match="Cannot write an entry for file:/d/giant"):
        strict.write(metadata, metadata.schema, metadata.spec, 8, [read])


def only_record(entry: ManifestEntry) -> bytes:
    files = MemoryFiles()
    opened = store(files, max_manifest_record_bytes=2**30)
    (read,) = opened.open().entries(written(opened, [entry]))
    return read.encoded.entry


def test_a_list_that_is_written_can_be_read() -> None:
    """A list has two bounds of each partition field, and a manifest one value."""
    files = MemoryFiles()
    metadata = sample_metadata("file:/w")
    bound = random.Random(7).randbytes(3_000_000)
    line = ManifestFile("m", 1, 0, 7, 0, 1, 1, 1, 0, 0, 1, 0, 0, (FieldSummary(False, False, bound, bound),))
    with pytest.raises(InvalidInput, match="Cannot list the manifest m: an entry would have 600") as refused:
        store(files).open().stage_list(metadata, sample_snapshot(7, 2), [line])
    assert "`storage.max-manifest-record-bytes`" in refused.value.next_step
    with pytest.raises(InvalidInput, match="2 manifests, more than 1") as refused:
        store(files, max_manifests=1).open().stage_list(metadata, sample_snapshot(7, 2), [line, line])
    assert "rewrite_manifests" in refused.value.next_step
    opened = store(files, max_manifest_record_bytes=2**30, max_manifest_bytes=500_000)
    with pytest.raises(InvalidInput, match="more than 500000") as refused:
        opened.open().stage_list(metadata, sample_snapshot(7, 2), [line])
    assert "`storage.max-manifest-bytes`" in refused.value.next_step


def test_lists_of_large_entries_that_grow_can_be_read() -> None:
    """Their blocks were merged to more than a reader takes, or failed to be."""
    files = MemoryFiles()
    opened = store(files, manifest_cache_max_bytes=0)
    noise = random.Random(7).randbytes(1_000_000)
    lines: list[ManifestFile] = []
    known = None
    for at in range(1, 65):
        line = ManifestFile(
            f"m{at}", 1, 0, at, 0, at, at, 1, 0, 0, 1, 0, 0, (FieldSummary(False, False, noise, noise),)
        )
        lines.insert(0, line)
        data, known = encode_list(2, at, None, at, None, lines, carried=known, bounds=opened.bounds)
    assert len(decode_list(data, "x", opened.bounds)) == 64


def test_manifests_that_shrink_far_can_be_read() -> None:
    """Equal bounds of many files shrink 900-fold, which no reader of ours takes for a manifest."""
    files = MemoryFiles()
    opened = store(files)
    entries = [
        ManifestEntry(EntryStatus.ADDED, sample_file(f"file:/d/{at}.parquet", upper_bounds={3: bytes(2_000_000)}))
        for at in range(12)
    ]
    lines = written(opened, entries, **{"commit.manifest.target-size-bytes": str(2**30)})
    assert len(lines) == 1
    assert [each.data_file.upper_bounds for each in opened.open().entries(lines)] == [{3: bytes(2_000_000)}] * 12


def test_manifests_roll_before_they_are_larger_than_readers_allow() -> None:
    files = MemoryFiles()
    for settings in ({"max_manifest_bytes": 40_000}, {"max_manifest_entries": 100}):
        opened = store(files, **settings)
        lines = written(opened, added(600), **{"commit.manifest.target-size-bytes": str(2**40)})
        assert len(lines) > 3
        assert len(list(opened.open().entries(lines))) == 600


def test_a_schema_that_no_reader_takes_is_not_written() -> None:
    files = MemoryFiles()
    metadata = sample_metadata("file:/w")
    fields = [{**metadata.spec.raw["fields"][0], "name": "n" * 300_000}]
    spec = PartitionSpec.parse({"spec-id": 0, "fields": fields})
    with pytest.raises(InvalidInput, match="Avro schema of manifests with partition spec 0"):
        store(files).open().write(metadata, metadata.schema, spec, 7, added(1))
    assert files.locations() == ()


def test_a_write_that_fails_half_way_leaves_no_manifest() -> None:
    files = CountingFiles()
    files.refused = "-m2.avro"
    with pytest.raises(StorageError, match="No space"):
        written(store(files), added(600), **{"commit.manifest.target-size-bytes": "8000"})
    assert files.locations() == ()


def test_an_entry_that_is_refused_late_leaves_no_manifest() -> None:
    files = MemoryFiles()
    bad = ManifestEntry(EntryStatus.EXISTING, sample_file("file:/d/x"))
    with pytest.raises(InvalidInput):
        written(store(files), [*added(600), bad], **{"commit.manifest.target-size-bytes": "8000"})
    assert files.locations() == ()


def test_a_flush_that_failed_can_be_tried_again() -> None:
    files = CountingFiles()
    group = store(files).open()
    metadata = sample_metadata("file:/w")
    lists = [group.stage_list(metadata, sample_snapshot(at, at), []) for at in range(1, 6)]
    files.refused = lists[2].rpartition("/")[2]
    with pytest.raises(StorageError):
        group.flush()
    files.refused = "nothing"
    group.flush()
    assert sorted(files.locations()) == sorted(lists)


def test_a_list_that_another_writer_put_at_our_location_is_not_overwritten() -> None:
    files = MemoryFiles()
    group = store(files).open()
    location = group.stage_list(sample_metadata("file:/w"), sample_snapshot(1, 1), [])
    files.write(location, b"foreign")
    with pytest.raises(Exception, match="already exists"):
        group.flush()
    assert files.read(location) == b"foreign"


def test_a_damaged_manifest_is_named() -> None:
    files = MemoryFiles()
    opened = store(files)
    (line,) = written(opened, added(2))
    whole = files.read(line.manifest_path)
    files.replace(line.manifest_path, whole[:-20])
    with pytest.raises(CorruptFile, match=line.manifest_path):
        list(opened.open().entries([line]))
    files.delete(line.manifest_path)
    with pytest.raises(MissingFile, match=line.manifest_path):
        list(opened.open().entries([line]))


def test_entries_of_many_manifests_come_in_order() -> None:
    opened = store(MemoryFiles(), io_threads=3)
    lines = [line for at in range(10) for line in written(opened, added(10)[at : at + 1])]
    found = [entry.data_file.partition["event_day"] for entry in opened.open().entries(lines)]
    assert found == list(range(10))
