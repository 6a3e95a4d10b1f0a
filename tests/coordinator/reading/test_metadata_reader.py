from __future__ import annotations

import gzip

import pytest

from iceberg_hms.coordinator.reading.metadata_reader import MetadataReader
from iceberg_hms.errors import CorruptFile, ResourceExhausted
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, SMALL_BYTES, Limit
from iceberg_hms.format.metadata.parsed_size import TextSize
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.documents import raw

DATA = TableMetadata(raw(properties={"long": "x" * 10_000})).to_bytes()
LIKELY = DEFAULT_BOUNDS.likely_bytes(len(DATA))


class Watched(MemoryFiles):
    """Notes what the budget holds when a file is read. reads: how often it is read until its store has no error."""

    def __init__(self, reads: int) -> None:
        super().__init__()
        self.budget = MemoryBudget()
        self.held: list[int] = []
        self.reads = reads

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        for _ in range(self.reads):
            data = super().read(location, limit)
            self.held.append(self.budget.held())
        return data


def reader(data: bytes, budget: MemoryBudget, reads: int = 1) -> tuple[MetadataReader, Watched]:
    files = Watched(reads)
    files.budget = budget
    files.write("file:/a", data)
    made = MetadataReader(files, DEFAULT_BOUNDS)
    made.memory = budget
    return made, files


def read(of: MetadataReader) -> TableMetadata:
    return of.read("file:/a", TableMetadata.parse)


def test_a_file_holds_memory_before_it_is_read_and_as_long_as_somebody_has_its_metadata() -> None:
    budget = MemoryBudget(10**9)
    made, files = reader(DATA, budget)
    metadata = read(made)
    assert files.held == [LIKELY]
    assert budget.held() == TextSize.of(DATA).parsed_bytes + len(DATA)
    assert metadata.to_bytes() == DATA
    del metadata
    assert budget.held() == 0


def test_what_does_not_fit_is_not_read() -> None:
    budget = MemoryBudget(LIKELY - 1)
    made, files = reader(DATA, budget)
    with pytest.raises(ResourceExhausted, match="bytes of memory for a metadata file") as refused:
        read(made)
    assert "`rest.memory.max-bytes`" in str(refused.value)
    assert not refused.value.proved_failed, "a swap may have been sent by then"
    assert files.held == []
    assert budget.held() == 0


def test_a_compressed_file_holds_memory_before_it_is_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(DATA)
    budget = MemoryBudget(2 * SMALL_BYTES + len(packed) - 1)
    made, files = reader(packed, budget)
    with pytest.raises(ResourceExhausted):
        read(made)
    assert len(files.held) == 1
    assert budget.held() == 0
    made, _ = reader(packed, MemoryBudget(2 * SMALL_BYTES + len(packed)))
    metadata = read(made)
    assert made.memory.held() == TextSize.of(DATA).parsed_bytes + len(DATA), metadata


def test_a_file_that_is_read_again_holds_memory_once() -> None:
    budget = MemoryBudget(10**9)
    made, files = reader(DATA, budget, reads=2)
    metadata = read(made)
    assert files.held == 2 * [LIKELY]
    assert budget.held() == TextSize.of(DATA).parsed_bytes + len(metadata.to_bytes())


def test_a_commit_holds_memory_for_the_version_that_it_makes() -> None:
    budget = MemoryBudget(10**9)
    made, _ = reader(DATA, budget)
    metadata = made.read("file:/a", TableMetadata.parse, versions=2)
    assert budget.held() == 2 * (TextSize.of(DATA).parsed_bytes + len(metadata.to_bytes()))


def test_a_damaged_file_holds_nothing_although_its_error_keeps_what_was_read() -> None:
    budget = MemoryBudget(10**9)
    made, _ = reader(DATA[:-1], budget)
    with pytest.raises(CorruptFile) as refused:
        read(made)
    assert refused.value.__traceback__ is not None
    assert budget.held() == 0
