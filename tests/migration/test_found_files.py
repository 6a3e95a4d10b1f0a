"""The two rounds of tasks, and what the driver learns of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.migration.found_files import find_files, folder_groups
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.work import PROBLEMS_MAX, SourcePartition
from tests.migration.hive_files import HiveFolder, Loop, data_files, rows, write


class Threads(Loop):
    """Executors that run all items at once, and tell of them from their threads."""

    def map(self, function: Callable[..., Any], items: Sequence[Any], *, done: Callable[[Any], None]) -> list[Any]:
        def run(item: Any) -> Any:
            result = function(item)
            with self.mutex:
                done(result)
            return result

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(run, items))

    mutex = threading.Lock()


@pytest.fixture
def hive(tmp_path: Path) -> HiveFolder:
    found = HiveFolder(tmp_path / "flights")
    for month in range(1, 13):
        folder = found.partition(month)
        folder.mkdir(parents=True)
        for number in range(month % 3):
            write(folder / str(number), rows(number, count=month))
    return found


@pytest.mark.parametrize("executors", [Loop(), Threads()])
def test_all_files_are_found_in_the_order_of_the_partitions(hive: HiveFolder, executors: Loop) -> None:
    stages: list[str] = []
    found = find_files(executors, hive.work(), hive.partitions, Problems(), progress=False, on_stage=stages.append)
    assert [each.name for each in found.partitions] == [f"month={each}" for each in range(1, 13)]
    assert [each.files for each in found.partitions] == [1, 2, 0] * 4
    assert found.filled_partitions == 8
    assert (found.files, found.reused, found.problem_count) == (12, 0, 0)
    assert found.records == sum(month * (month % 3) for month in range(1, 13))
    assert found.size == sum(each.size for each in found.partitions)
    files = data_files(found.manifests)
    assert [each.partition["month"] for each in files] == [1, 2, 2, 4, 5, 5, 7, 8, 8, 10, 11, 11]
    assert stages == ["listed", *["described"] * 8]


def test_a_second_run_describes_nothing_again(hive: HiveFolder) -> None:
    first = find_files(Loop(), hive.work(), hive.partitions, Problems(), progress=False)
    again = find_files(Loop(), hive.work(snapshot_id=8), hive.partitions, Problems(), progress=False)
    assert (again.files, again.reused) == (12, 12)
    assert [each.manifest_path for each in again.manifests] == [each.manifest_path for each in first.manifests]
    assert {each.added_snapshot_id for each in again.manifests} == {8}


def test_the_names_that_differ_by_case_are_those_of_all_tasks(hive: HiveFolder) -> None:
    for month, name in {1: "Carrier", 2: "CARRIER", 4: "Carrier"}.items():
        write(hive.path / f"month={month}" / "0", rows().rename_columns(["id", name, "Delay"]))
    find = partial(find_files, Loop(), hive.work(adds_names=True), hive.partitions, Problems(), progress=False)
    assert find().names == find().names == {2: ["CARRIER", "Carrier"], 3: ["Delay"]}


def test_a_dry_run_finds_the_same_and_writes_nothing(hive: HiveFolder) -> None:
    dry = find_files(Loop(), hive.work(dry_run=True), hive.partitions, Problems(), progress=False)
    assert hive.names() == set()
    assert dry.manifests == []
    found = find_files(Loop(), hive.work(), hive.partitions, Problems(), progress=False)
    assert (dry.files, dry.records, dry.size, dry.partitions) == (
        found.files,
        found.records,
        found.size,
        found.partitions,
    )


def test_the_problems_of_all_tasks_are_counted_and_the_first_ones_named(hive: HiveFolder) -> None:
    known = Problems()
    known.add("month=may", "file:/may", InvalidInput("may is no number"))
    for number in range(PROBLEMS_MAX):
        for month in (1, 2):
            (hive.path / f"month={month}" / f"bad{number:03}").write_bytes(b"x")
    found = find_files(Loop(), hive.work(), hive.partitions, known, progress=False)
    assert found.problem_count == 2 * PROBLEMS_MAX + 1
    assert len(found.problems) == PROBLEMS_MAX
    assert found.problems[0].partition == "month=may"


def test_partitions_that_share_a_folder_are_problems(hive: HiveFolder) -> None:
    hive.partition(13, "month=1/")
    found = find_files(Loop(), hive.work(), hive.partitions, Problems(), progress=False)
    assert [each.partition for each in found.problems] == ["month=13"]
    assert found.files == 12


def test_no_folders_are_no_files() -> None:
    work = HiveFolder(Path("/nowhere")).work()
    assert find_files(Loop(), work, [], Problems(), progress=False).files == 0


@pytest.mark.parametrize(
    ("folders", "size"), [(0, 1), (1, 1), (32, 1), (33, 2), (1_000, 32), (5_000, 64), (100_000, 64)]
)
def test_folders_go_to_as_many_tasks_as_keep_a_cluster_busy(folders: int, size: int) -> None:
    partitions = [SourcePartition(str(each), f"file:/{each}") for each in range(folders)]
    groups = folder_groups(partitions)
    assert [each for group in groups for each in group] == partitions
    assert {len(each) for each in groups[:-1]} <= {size}
    assert all(len(each) <= size for each in groups)


def test_a_partition_more_leaves_the_groups_before_it_as_they_are() -> None:
    partitions = [SourcePartition(str(each), f"file:/{each}") for each in range(1_001)]
    assert folder_groups(partitions)[:31] == folder_groups(partitions[:1_000])[:31]
