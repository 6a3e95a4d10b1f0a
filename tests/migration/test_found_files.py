"""The two rounds of tasks, on a loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iceberg_hms.migration.found_files import find_files
from tests.migration.hive_files import HiveFolder, Loop, data_files, rows, write


@pytest.fixture
def hive(tmp_path: Path) -> HiveFolder:
    hive = HiveFolder(tmp_path / "flights")
    for month in range(1, 121):
        write(hive.partition(month) / "a", rows(month, 2))
    return hive


def test_files_of_many_tasks_come_together(hive: HiveFolder) -> None:
    heard: list[str] = []
    found = find_files(Loop(), hive.work(), iter(hive.partitions), progress=False, on_stage=heard.append)
    assert (found.files, found.records, found.filled_partitions, found.problem_count) == (120, 240, 120, 0)
    assert found.size == sum(each.size for each in found.partitions)
    assert [each.name for each in found.partitions] == [f"month={month}" for month in range(1, 121)]
    assert [each.partition["month"] for each in data_files(found.manifests)] == list(range(1, 121))
    assert heard == ["listed", *["described"] * 3]
    assert found.reused == 0


def test_a_run_goes_on_from_what_a_killed_one_described(hive: HiveFolder) -> None:
    def killed(stage: str) -> None:
        heard.append(stage)
        if heard.count("described") == 2:
            raise KeyboardInterrupt

    heard: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        find_files(Loop(), hive.work(), hive.partitions, progress=False, on_stage=killed)
    found = find_files(Loop(), hive.work(snapshot_id=8), hive.partitions, progress=False)
    assert (found.files, found.reused) == (120, 100)
    assert {each.added_snapshot_id for each in found.manifests} == {8}


def test_partitions_of_different_tasks_may_not_share_a_folder(hive: HiveFolder) -> None:
    last = hive.partitions[-1]
    hive.partitions.append(replace(last, name="again", location=hive.partitions[0].location + "/"))
    for dry_run in (False, True):
        found = find_files(Loop(), hive.work(dry_run=dry_run), hive.partitions, progress=False)
        assert [(each.partition, found.problem_count) for each in found.problems] == [("again", 1)]
        assert found.files == 120


def test_a_dry_run_finds_the_same_and_writes_nothing(hive: HiveFolder) -> None:
    (hive.path / "month=7" / "bad").write_bytes(b"no data file")
    dry = find_files(Loop(), hive.work(dry_run=True), hive.partitions, progress=False)
    assert not (hive.path / "_iceberg").exists()
    found = find_files(Loop(), hive.work(skip_unreadable=True), hive.partitions, progress=False)
    assert replace(found, manifests=[]) == dry
