"""A migration that ends by `kill -9` leaves the whole Hive table or the complete Iceberg table, and the next one ends
what it began. The driver is killed at every stage, and an executor in the middle of its work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms import migration
from iceberg_hms.metastore.compare_and_swap.row_write import PROBE_KEY
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import FREEZE, FREEZE_REPLY
from integration.faults import ALTER, LIMIT
from integration.migration.migrator import Migrator
from integration.migration.small_files import SmallFiles

pytestmark = pytest.mark.slow

Make = Callable[..., SmallFiles]


def migrated(spark: Any, table: SmallFiles) -> Any:
    return migration.migrate(spark, table.name, catalog=table.catalog, progress=False)


@pytest.mark.parametrize("stage", ["read", "listed", "described", "staged"])
def test_before_the_change_the_hive_table_is_whole_and_the_next_run_makes_the_iceberg_table(
    spark: Any, small_files: Make, tmp_path: Path, stage: str
) -> None:
    table = small_files(partitions=12, files=10)
    Migrator(table, tmp_path / "killed", kill_at=stage).die()
    assert table.is_untouched()
    assert bool(table.progress()) == (stage != "read")
    report = migrated(spark, table)
    assert (report.outcome, report.files, report.records) == ("done", 120, table.rows)
    assert report.reused_files >= {"read": 0, "listed": 0, "described": 10, "staged": 120}[stage]
    assert table.is_complete()
    assert table.ids() == list(range(table.rows))
    assert not table.progress()


def test_after_the_change_the_iceberg_table_is_complete_and_undo_gives_the_hive_table(
    spark: Any, small_files: Make, tmp_path: Path
) -> None:
    table = small_files(partitions=12, files=10)
    Migrator(table, tmp_path / "killed", kill_at="changed").die()
    assert table.is_complete()
    assert migrated(spark, table).outcome == "already done"
    assert table.is_complete()
    assert table.progress()
    migration.undo(table.catalog, table.name)
    assert table.is_undone()
    assert not list((table.folder / "_iceberg").rglob("*.*"))
    assert migrated(spark, table).reused_files == 0
    assert table.is_complete()


@pytest.mark.parametrize("action", [FREEZE, FREEZE_REPLY], ids=["before it arrives", "before its reply"])
def test_in_the_middle_of_the_change(spark: Any, small_files: Make, tmp_path: Path, action: Any) -> None:
    table = small_files(partitions=10)
    with FaultProxy(table.metastore.uri) as proxy:
        # Not the one before it, which asks whether the metastore compares and swaps.
        fault = proxy.on(ALTER, action, only=lambda request: PROBE_KEY.encode() not in request)
        killed = Migrator(table, tmp_path / "killed", metastore_uri=proxy.uri)
        assert fault.held(LIMIT)
        killed.kill()
        assert table.is_untouched() if action is FREEZE else table.is_complete()
        fault.drop()
    report = migrated(spark, table)
    assert report.outcome == ("done" if action is FREEZE else "already done")
    assert table.is_complete()
    assert table.ids() == list(range(table.rows))


def test_half_way_at_most_a_tenth_is_done_again(spark: Any, small_files: Make, tmp_path: Path) -> None:
    # With so few partitions each is listed by a task of its own, and is a slice.
    slices, of_a_slice = 32, 40
    table = small_files(partitions=slices, files=of_a_slice)
    all_files = slices * of_a_slice
    killed = Migrator(table, tmp_path / "killed", kill_at="described", times=slices // 3)
    killed.die()
    assert table.is_untouched()
    kept = sum(file.suffix == ".json" for file in table.progress())
    begun = len(list((table.folder / "_iceberg").glob("*.avro")))
    assert killed.stages.count("described") <= kept < slices
    assert (begun - kept) * of_a_slice <= all_files / 10
    report = migrated(spark, table)
    assert (report.outcome, report.files, report.records) == ("done", all_files, table.rows)
    assert report.reused_files == kept * of_a_slice
    assert table.is_complete()
