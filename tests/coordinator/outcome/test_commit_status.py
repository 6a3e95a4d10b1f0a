"""A chain of metadata files is laid out in memory, and the status check searches it for a swap."""

from typing import Any

import pytest

from iceberg_hms.coordinator.outcome.commit_status import CommitStatus, check_status
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.documents import raw, snapshot


class Chain:
    """Metadata files named file:/m0, file:/m1...; each log keeps the last `log_length` names."""

    def __init__(self, length: int, log_length: int, **changes: Any) -> None:
        self.files = MemoryFiles()
        for number in range(length):
            first = max(0, number - log_length)
            log = [{"timestamp-ms": 1, "metadata-file": f"file:/m{each}"} for each in range(first, number)]
            self.files.write(f"file:/m{number}", TableMetadata(raw(metadata_log=log, **changes)).to_bytes())
        self.cache = MetadataCache(self.files, ThreadRuntime(), max_bytes=1_000_000)

    def look(self, current: int, ours: str, base: int, snapshot_ids: tuple[int, ...] = ()) -> CommitStatus:
        return check_status(
            self.cache, f"file:/m{current}", ours=ours, base=f"file:/m{base}", snapshot_ids=snapshot_ids
        )


def test_the_pointer_itself_answers_without_reading_a_file():
    cache = MetadataCache(MemoryFiles(), ThreadRuntime(), max_bytes=1)
    assert check_status(cache, "file:/ours", ours="file:/ours", base="file:/base") is CommitStatus.SUCCESS
    assert check_status(cache, "file:/base", ours="file:/ours", base="file:/base") is CommitStatus.FAILURE


def test_a_swap_that_others_built_upon_has_landed():
    assert Chain(5, 100).look(4, "file:/m2", 1) is CommitStatus.SUCCESS


def test_a_chain_that_leads_back_to_the_base_without_us_proves_absence():
    assert Chain(5, 100).look(4, "file:/ours", 1) is CommitStatus.FAILURE


@pytest.mark.parametrize("log_length", [1, 3, 7])
def test_the_chain_is_followed_past_the_end_of_a_log(log_length):
    chain = Chain(40, log_length)
    assert chain.look(39, "file:/m5", 4) is CommitStatus.SUCCESS
    assert chain.look(39, "file:/ours", 4) is CommitStatus.FAILURE


def test_a_gap_in_the_chain_proves_nothing():
    chain = Chain(40, 3)
    chain.files.delete("file:/m36")
    assert chain.look(39, "file:/ours", 4) is CommitStatus.UNKNOWN


def test_a_damaged_file_in_the_chain_proves_nothing():
    chain = Chain(40, 3)
    chain.files.replace("file:/m36", b"{")
    assert chain.look(39, "file:/ours", 4) is CommitStatus.UNKNOWN


def test_a_chain_that_ends_before_the_base_proves_nothing():
    assert Chain(5, 100).look(4, "file:/ours", 77) is CommitStatus.UNKNOWN


def test_our_snapshot_in_the_table_proves_that_we_landed_even_where_the_chain_is_cut():
    chain = Chain(2, 1, snapshots=[snapshot(10, 1, 1000), snapshot(11, 2, 2000)])
    assert chain.look(1, "file:/ours", 77, snapshot_ids=(11,)) is CommitStatus.SUCCESS


def test_one_of_several_snapshots_in_the_table_proves_nothing_since_it_may_have_come_by_an_earlier_swap():
    snapshots = [snapshot(10, 1, 1000), snapshot(11, 2, 2000)]
    assert Chain(2, 1, snapshots=snapshots).look(1, "file:/ours", 77, snapshot_ids=(11, 12)) is CommitStatus.UNKNOWN
    assert Chain(2, 1, snapshots=snapshots).look(1, "file:/ours", 77, snapshot_ids=(10, 11)) is CommitStatus.SUCCESS


def test_a_chain_that_lacks_us_is_believed_before_any_snapshot():
    chain = Chain(5, 100, snapshots=[snapshot(10, 1, 1000), snapshot(11, 2, 2000)])
    assert chain.look(4, "file:/ours", 1, snapshot_ids=(11,)) is CommitStatus.FAILURE


def test_an_endless_chain_is_given_up():
    files = MemoryFiles()
    for here, there in (("a", "b"), ("b", "a")):
        log = [{"timestamp-ms": 1, "metadata-file": f"file:/{there}"}]
        files.write(f"file:/{here}", TableMetadata(raw(metadata_log=log)).to_bytes())
    cache = MetadataCache(files, ThreadRuntime(), max_bytes=1_000_000)
    assert check_status(cache, "file:/a", ours="file:/ours", base="file:/base") is CommitStatus.UNKNOWN
