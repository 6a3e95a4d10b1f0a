"""Manifests read as columns: in order, in parallel, from a cache."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import CorruptFile
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.planning import layout
from iceberg_hms.planning.manifest_columns import ManifestColumns
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.planning.sample_manifests import manifest_bytes


def record(path: str) -> dict[str, object]:
    file = {
        "content": 0,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": {},
        "record_count": 1,
        "file_size_in_bytes": 1,
        "lower_bounds": [{"key": 1, "value": b"a"}, {"key": 2, "value": b"b"}],
    }
    return {"status": 1, "data_file": file}


class Opened:
    """A store with some manifests of 100 entries."""

    def __init__(self, count: int) -> None:
        self.files = MemoryFiles()
        self.store = ManifestStore(self.files, Settings(io_threads=4), ThreadRuntime())
        self.lines = []
        for number in range(count):
            data = manifest_bytes(2, [], [record(f"file:/w/{number}-{at}") for at in range(100)])
            path = f"file:/w/m{number}.avro"
            self.files.write(path, data)
            self.lines.append(ManifestFile(path, len(data), 3, 70 + number, sequence_number=number + 1))


class Kept:
    """A cache in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, pa.RecordBatch] = {}

    def get(self, file: ManifestFile) -> pa.RecordBatch | None:
        return self.kept.get(file.manifest_path)

    def put(self, file: ManifestFile, columns: pa.RecordBatch) -> None:
        self.kept[file.manifest_path] = columns


def firsts(batches: list[pa.RecordBatch]) -> list[str]:
    """The path of the first file."""
    return [batch.column(layout.FILE_PATH)[0].as_py() for batch in batches]


EXPECTED = [f"file:/w/{number}-0" for number in range(20)]


def test_manifests_are_read_in_order_as_they_are_stored() -> None:
    opened = Opened(20)
    found = list(ManifestColumns(opened.store).read(opened.lines, frozenset({2})))
    assert firsts(found) == EXPECTED
    assert {"lower_bound.2"} == {name for name in found[0].schema.names if "bound" in name}
    assert layout.SEQUENCE_NUMBER not in found[0].schema.names


def test_kept_manifests_are_not_read_again() -> None:
    opened, kept = Opened(20), Kept()
    first = list(ManifestColumns(opened.store, kept).read(opened.lines[5:9], frozenset({2})))
    for line in opened.lines[5:9]:
        opened.files.delete(line.manifest_path)
    found = list(ManifestColumns(opened.store, kept).read(opened.lines, frozenset({2})))
    assert firsts(first) == EXPECTED[5:9]
    assert firsts(found) == EXPECTED
    assert [{name for name in batch.schema.names if "bound" in name} for batch in found] == [{"lower_bound.2"}] * 20
    whole = next(ManifestColumns(opened.store, kept).read(opened.lines[:1]))
    assert {"lower_bound.1", "lower_bound.2"} <= set(whole.schema.names)


def test_a_damaged_manifest_is_named_and_those_before_it_are_given() -> None:
    opened = Opened(6)
    opened.files.delete(opened.lines[3].manifest_path)
    opened.files.write(opened.lines[3].manifest_path, b"Obj\x01")
    batches = ManifestColumns(opened.store).read(opened.lines)
    assert firsts([next(batches) for _ in range(3)]) == EXPECTED[:3]
    with pytest.raises(CorruptFile, match=r"m3\.avro"):
        next(batches)


def test_an_empty_selection_is_empty() -> None:
    assert list(ManifestColumns(Opened(0).store, Kept()).read([])) == []


def test_a_manifest_of_another_length_than_the_list_says_is_read_all_the_same() -> None:
    opened = Opened(2)
    lines = [replace(line, manifest_length=-5) for line in opened.lines]
    assert firsts(list(ManifestColumns(opened.store).read(lines))) == EXPECTED[:2]
