"""The files of partitions, and their slices."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.errors import StorageError
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.migration.listing import listed, locations_in, slices_of, with_own_folders
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.progress import read_text
from iceberg_hms.migration.task import MigrationTask
from iceberg_hms.migration.work import SLICE_FILES, Slice, SourcePartition, Work
from iceberg_hms.storage import local_files
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.catalog.parquet import table_for
from tests.migration.hive_files import HiveFolder, write


@pytest.fixture
def hive(tmp_path: Path) -> HiveFolder:
    return HiveFolder(tmp_path / "flights")


def files_in(work: Work, slices: tuple[Slice, ...]) -> list[list[tuple[SourcePartition, list[ListedFile]]]]:
    task = MigrationTask.of(work)
    return [task.texts.decode(read_text(task.stores.files, each, task.key)) for each in slices]


def paths_in(hive: HiveFolder, work: Work) -> list[str]:
    return [
        file.location.removeprefix(f"file:{hive.path}/")
        for parts in files_in(work, hive.listed(work).slices)
        for _, files in parts
        for file in files
    ]


def test_files_come_back_byte_for_byte_in_order_with_sizes_times_and_partitions(hive: HiveFolder) -> None:
    folder = hive.partition(1, "month=1")
    odd = ["a b.parquet", "a%20b", "c=d", "e#f?g", "ä漢", "000000_0", "+&;", "x'y\"z"]
    for at, name in enumerate(odd):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * (at + 1))
        os.utime(folder / name, (0, 1_500_000_000 + at))
    work = hive.work()
    found = hive.listed(work)
    (parts,) = files_in(work, found.slices)
    assert parts == [
        (
            hive.partitions[0],
            [
                ListedFile(f"file:{folder}/{name}", odd.index(name) + 1, (1_500_000_000 + odd.index(name)) * 1000)
                for name in sorted(odd)
            ],
        )
    ]
    assert [(each.name, each.files, each.size) for each in found.partitions] == [("month=1", 8, 36)]
    assert [(each.files, each.size) for each in found.slices] == [(8, 36)]
    assert found.problem_count == 0
    assert pickle.loads(pickle.dumps(found)) == found


def test_hidden_and_empty_files_are_no_files(hive: HiveFolder) -> None:
    folder = hive.partition()
    for name in ("a", "_SUCCESS", ".a.crc", "_temporary/0/part", ".staging/x", "deep/_x/y", "deep/.y"):
        write(folder / name)
    (folder / "empty").touch()
    (folder / "deep" / "empty").touch()
    work = hive.work()
    assert hive.listed(work).problems == ()
    assert paths_in(hive, work) == ["month=1/a"]


def test_what_one_of_hive_and_spark_reads_is_a_problem(hive: HiveFolder) -> None:
    folder = hive.partition()
    for name in ("a", "_a=1", "b._COPYING_", "_x=1/a"):
        write(folder / name)
    (folder / "_empty=1").touch()
    found = hive.listed(hive.work(recursive_directory="true"))
    assert [each.location for each in found.problems] == [f"file:{folder}/{each}" for each in ("_a=1", "b._COPYING_")]
    assert {each.reason.partition(",")[2] for each in found.problems} == {
        " one of Hive and Spark reads it, and the other leaves it out"
    }
    assert found.partitions[0].files == 1


@pytest.mark.parametrize("column", ["_month", ".month", "month"])
def test_folders_of_the_table_s_partition_columns_are_not_hidden_in_a_folder_that_has_them(
    hive: HiveFolder, column: str
) -> None:
    metadata = table_for(pa.schema([("id", pa.int64()), (column, pa.int32())]), [column])
    work = replace(hive.work(recursive_directory="true"), metadata=metadata_file.encode(metadata))
    hive.partitions.append(SourcePartition("", f"file:{hive.path}"))
    for name in (f"{column}=1/a", f"{column}=1/_b", "_other=1/a", "_iceberg/a"):
        write(hive.path / name)
    assert paths_in(hive, work) == [f"{column}=1/a"]
    of_a_partition = replace(hive.partitions.pop(), values={column: 1})
    assert list(locations_in(work, [of_a_partition])) == ([f"file:{hive.path}/month=1/a"] if column == "month" else [])


@pytest.mark.parametrize(
    ("recursive", "paths", "problems"),
    [
        ("true", ["a", "in/b", "in/deep/c"], []),
        ("false", ["a"], []),
        ("fail", ["a"], ["in", "in/deep"]),
    ],
)
def test_nested_folders_are_taken_left_out_or_named(
    hive: HiveFolder, recursive: str, paths: list[str], problems: list[str]
) -> None:
    folder = hive.partition()
    for name in ("a", "in/b", "in/b2", "in/deep/c"):
        write(folder / name)
    (folder / "in" / "b2").unlink()
    work = hive.work(recursive_directory=recursive)
    assert paths_in(hive, work) == [f"month=1/{each}" for each in paths]
    found = hive.listed(work)
    assert [each.location for each in found.problems] == [f"file:{folder}/{each}" for each in problems]
    assert found.problem_count == len(problems)
    assert {each.partition for each in found.problems} <= {"month=1"}


def test_a_folder_that_is_gone_or_cannot_be_read_is_a_problem_and_an_empty_one_is_none(
    hive: HiveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(hive.partition(1) / "a")
    hive.partition(2)
    hive.partition(3).mkdir()
    hive.partition(4, "elsewhere").mkdir()
    walk = local_files.walk

    def refused(folder: str):
        if folder.endswith("elsewhere"):
            raise PermissionError(13, "Permission denied", folder)
        return walk(folder)

    monkeypatch.setattr(local_files, "walk", refused)
    found = hive.listed(hive.work())
    assert [(each.name, each.files) for each in found.partitions] == [
        ("month=1", 1),
        ("month=2", 0),
        ("month=3", 0),
        ("month=4", 0),
    ]
    assert [(each.partition, each.location) for each in found.problems] == [
        ("month=2", f"file:{hive.path}/month=2"),
        ("month=4", f"file:{hive.path}/elsewhere"),
    ]
    assert "Permission denied" in found.problems[1].reason
    with pytest.raises(StorageError, match="Permission denied"):
        list(locations_in(hive.work(), hive.partitions))


def test_a_remote_store_that_does_not_answer_fails_the_task(hive: HiveFolder) -> None:
    class Away(MemoryFiles):
        def list_files(self, folder: str) -> Iterator[ListedFile]:
            raise StorageError("no answer")

    files, partition = Away(), SourcePartition("p", "s3://b/t")
    task = MigrationTask.of(hive.work())
    away = replace(task, stores=replace(task.stores, files=files))  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="no answer"):
        list(listed(away, [partition], Problems()))
    problems = Problems()
    assert list(listed(away, [replace(partition, location="/t")], problems)) == [
        (replace(partition, location="/t"), [])
    ]
    assert [each.reason for each in problems.named] == ["no answer"]


def test_a_task_without_files_writes_no_listing(hive: HiveFolder) -> None:
    hive.partition().mkdir(parents=True)
    assert hive.listed(hive.work()).slices == ()
    assert not (hive.path / "_iceberg").exists()


def test_a_name_that_is_not_utf_8_is_a_problem(hive: HiveFolder) -> None:
    folder = hive.partition()
    write(folder / "a")
    Path(os.fsdecode(bytes(folder) + b"/\xff")).write_bytes(b"x")
    found = hive.listed(hive.work())
    assert [each.reason for each in found.problems] == ["its name is not UTF-8"]
    assert found.partitions[0].files == 1


def test_links_are_problems_and_a_partition_s_own_folder_may_be_one(hive: HiveFolder) -> None:
    there = write(hive.path / "elsewhere" / "deep" / "a").removeprefix("file:")
    folder = hive.partition(1)
    folder.mkdir()
    for name, target in (("file", there), ("folder", f"{hive.path}/elsewhere"), ("gone", "nowhere"), ("_x", there)):
        (folder / name).symlink_to(target)
    hive.partition(2, "link").symlink_to(f"{hive.path}/elsewhere/deep")
    found = hive.listed(hive.work(recursive_directory="true"))
    assert sorted(each.location for each in found.problems) == [
        f"file:{folder}/{each}" for each in ("file", "folder", "gone")
    ]
    assert [each.files for each in found.partitions] == [0, 1]


@pytest.mark.parametrize(
    ("recursive", "locations", "shared"),
    [
        ("false", ["s3a://b/x", "s3://b/x/", "s3://b/xy", "s3://b/x/y"], [("1", "0")]),
        ("true", ["/t/b/c", "/t/b", "file:/t/b!", "file:///t/b/d/e"], [("0", "1"), ("3", "1")]),
        ("fail", ["/t/b/c", "/t/b", "/t/b", "/t/b/c", "/t/b"], [("2", "1"), ("4", "1"), ("3", "0")]),
        ("true", ["/t/a", "/t/ab", "/t/b"], []),
        ("true", [], []),
    ],
)
def test_a_folder_belongs_to_one_partition(recursive: Any, locations: list[str], shared: list[tuple[str, str]]) -> None:
    problems = Problems()
    partitions = [SourcePartition(str(at), each) for at, each in enumerate(locations)]
    left = with_own_folders(iter(partitions), recursive, problems)
    names = {name for name, _ in shared}
    assert left == [each for each in partitions if each.name not in names]
    assert [
        (each.partition, f"that of partition {owner}," in each.reason)
        for each, (_, owner) in zip(problems.named, shared, strict=True)
    ] == [(name, True) for name, _ in shared]


def slices(*counts: int) -> list[list[tuple[str, int]]]:
    found = (
        (SourcePartition(str(at), f"/{at}"), [ListedFile(f"/{at}/{n}", 1, 1) for n in range(count)])
        for at, count in enumerate(counts)
    )
    return [[(partition.name, len(files)) for partition, files in parts] for parts in slices_of(found)]


def test_slices_are_whole_partitions_or_parts_of_one() -> None:
    full = SLICE_FILES
    assert slices() == []
    assert slices(0, 0) == []
    assert slices(full) == [[("0", full)]]
    assert slices(full - 1, 0, 1, 1) == [[("0", full - 1), ("2", 1)], [("3", 1)]]
    assert slices(1, full, 2) == [[("0", 1)], [("1", full)], [("2", 2)]]
    assert slices(2 * full + 5, 6) == [[("0", full)], [("0", full)], [("0", 5), ("1", 6)]]
