"""What is kept of a migration's progress, and what a later run makes of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.schema.types import NestedField, StructType, parse_type
from iceberg_hms.migration.describing import describe_slice
from iceberg_hms.migration.progress import SliceTexts, delete_progress
from iceberg_hms.migration.work import Described, SourcePartition, Work
from iceberg_hms.stores import open_files
from tests.coordinator.harness import NAME, Harness
from tests.migration.hive_files import HiveFolder, data_files, rows, write


@pytest.fixture
def hive(tmp_path: Path) -> HiveFolder:
    hive = HiveFolder(tmp_path / "flights")
    write(hive.partition(1) / "a")
    return hive


def again(hive: HiveFolder, work: Work) -> Described:
    (found,) = hive.described(work)
    return found


def record(hive: HiveFolder) -> Path:
    (path,) = hive.progress.glob("*.json")
    return path


def manifest(described: Described) -> Path:
    return Path(described.manifests[0].manifest_path.removeprefix("file:"))


def test_a_later_run_takes_over_what_was_described_as_its_own_snapshot_s(hive: HiveFolder) -> None:
    first = again(hive, hive.work())
    later = again(hive, hive.work(snapshot_id=8))
    assert later.reused
    assert not first.reused
    assert (later.files, later.records, later.size) == (first.files, first.records, first.size)
    assert [each.manifest_path for each in later.manifests] == [each.manifest_path for each in first.manifests]
    assert later.manifests[0].added_snapshot_id == 8
    assert later.manifests[0].partitions == first.manifests[0].partitions
    assert data_files(later.manifests) == data_files(first.manifests)


def test_a_manifest_of_version_1_names_its_snapshot_and_is_described_again(hive: HiveFolder) -> None:
    again(hive, hive.work(version=1))
    assert not again(hive, hive.work(version=1, snapshot_id=8)).reused
    assert again(hive, hive.work(version=1, snapshot_id=8)).reused


def _touched(hive: HiveFolder) -> None:
    os.utime(hive.path / "month=1" / "a", (0, 1_500_000_000))


def _longer(hive: HiveFolder) -> None:
    path = hive.path / "month=1" / "a"
    status = path.stat()
    write(path, rows(count=50))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _one_more(hive: HiveFolder) -> None:
    write(hive.path / "month=1" / "b")


def _renamed(hive: HiveFolder) -> None:
    (hive.path / "month=1" / "a").rename(hive.path / "month=1" / "b")


def _in_another_partition(hive: HiveFolder) -> None:
    hive.partitions.clear()
    hive.partition(2, "month=1")


@pytest.mark.parametrize("change", [_touched, _longer, _one_more, _renamed, _in_another_partition])
def test_what_changes_a_slice_s_files_makes_it_another_one(
    hive: HiveFolder, change: Callable[[HiveFolder], None]
) -> None:
    again(hive, hive.work())
    change(hive)
    assert not again(hive, hive.work()).reused
    assert again(hive, hive.work()).reused


@pytest.mark.parametrize(
    "other",
    [
        {"release": "2"},
        {"adds_names": True},
        {"manifest_folder": "file:/elsewhere"},
        {"version": 3},
        {"properties": {"write.metadata.metrics.default": "none"}},
        {
            "schema": pa.schema(
                [("id", pa.int64()), ("month", pa.int32()), ("delay", pa.float64()), ("carrier", pa.string())]
            )
        },
    ],
    ids=str,
)
def test_what_changes_the_outcome_makes_another_slice(hive: HiveFolder, other: dict[str, Any]) -> None:
    (one,), (two,) = hive.listed(hive.work()).slices, hive.listed(hive.work(**other)).slices
    assert one.fingerprint != two.fingerprint


SORTED = {
    "order-id": 1,
    "fields": [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}],
}


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["schemas"][0]["fields"][0].update(type="int"),
        lambda raw: raw.update({"last-column-id": 50}),
        lambda raw: raw["partition-specs"][0]["fields"][0].update(name="m"),
        lambda raw: raw.update({"sort-orders": [*raw["sort-orders"], SORTED], "default-sort-order-id": 1}),
    ],
)
def test_what_changes_in_the_table_makes_another_slice(hive: HiveFolder, change: Callable[[Any], None]) -> None:
    work = hive.work()
    raw = orjson.loads(work.metadata)
    change(raw)
    hive.partitions = [replace(each, values=None) for each in hive.partitions]
    (one,), (two,) = hive.listed(work).slices, hive.listed(replace(work, metadata=orjson.dumps(raw))).slices
    assert one.fingerprint != two.fingerprint


def test_a_new_table_of_another_name_and_time_has_equal_slices(hive: HiveFolder) -> None:
    work = hive.work()
    metadata = metadata_file.decode(work.metadata, "")
    other = metadata.replace(**{"table-uuid": str(uuid.uuid4()), "last-updated-ms": 5, "location": "file:/other"})
    (one,) = hive.listed(work).slices
    (two,) = hive.listed(hive.work(metadata=metadata_file.encode(other), snapshot_id=9)).slices
    assert one.fingerprint == two.fingerprint


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b"[]"),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"manifests"', b'"others"')),
        lambda path: path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "fingerprint": "another"})),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"content"', b'"contents"')),
    ],
)
def test_a_damaged_record_is_replaced(hive: HiveFolder, damage: Callable[[Path], object]) -> None:
    first = again(hive, hive.work())
    damage(record(hive))
    found = again(hive, hive.work())
    assert not found.reused
    assert found.manifests[0].manifest_path != first.manifests[0].manifest_path
    assert again(hive, hive.work()).manifests == found.manifests


def test_a_record_whose_manifest_is_gone_or_shorter_is_replaced(hive: HiveFolder) -> None:
    first = again(hive, hive.work())
    manifest(first).unlink()
    second = again(hive, hive.work())
    assert not second.reused
    manifest(second).write_bytes(manifest(second).read_bytes()[:-1])
    assert not again(hive, hive.work()).reused
    assert again(hive, hive.work()).reused


def test_a_task_that_runs_twice_gives_one_outcome(hive: HiveFolder) -> None:
    work = hive.work()
    (slice_,) = hive.listed(work).slices
    first = describe_slice(work, slice_)
    assert describe_slice(work, slice_).manifests == first.manifests


VALUES = {
    "boolean": True,
    "int": -5,
    "long": 1 << 40,
    "double": float("inf"),
    "date": -1,
    "timestamptz": 1_500_000_000_000_001,
    "string": "a/b=ä\n",
    "decimal(9, 2)": Decimal("-14.20"),
    "binary": b"\x00\xff",
    "uuid": uuid.UUID("9c12d441-03fe-4693-9a96-a0705ddf69c1"),
}


def test_the_text_of_a_slice_keeps_values_of_every_type() -> None:
    fields = [NestedField(at, each, parse_type(each), False) for at, each in enumerate(VALUES)]
    texts = SliceTexts(StructType(tuple(fields)))
    parts = [
        (SourcePartition("p", "s3://b/x//", VALUES, "orc"), [ListedFile("s3://b/x/a b", 1, 2)]),
        (SourcePartition("", "/t", dict.fromkeys(VALUES)), [ListedFile("/t/a", 0, 0)]),
        (SourcePartition("", "/u"), []),
    ]
    assert texts.decode(texts.encode(parts)) == parts
    with pytest.raises(InvalidInput):
        texts.encode([(SourcePartition("p", "/t", {"int": "1"}), [])])


def test_all_of_the_progress_is_deleted_and_nothing_else() -> None:
    ports = Harness().ports
    for number in range(2_500):
        ports.files.write(f"/t/_iceberg/migration/{number}", b"")
    ports.files.write("/t/_iceberg/x", b"")
    assert delete_progress(ports, NAME, "/t/_iceberg/migration") == 2_500
    assert [each.location for each in ports.files.list_files("/t")] == ["/t/_iceberg/x"]
    assert delete_progress(ports, NAME, "/t/_iceberg/migration") == 0


def test_a_run_s_manifests_stay_when_its_progress_is_deleted(hive: HiveFolder) -> None:
    work = hive.work()
    found = again(hive, work)
    assert delete_progress(replace(Harness().ports, files=open_files(work.settings)), NAME, work.progress_folder) == 2
    assert manifest(found).exists()
