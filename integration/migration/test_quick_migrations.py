"""The shortest whole stories: a Parquet table whose first migration is killed, and an ORC table that is undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from iceberg_hms import migration
from integration.migration.migrator import Migrator
from integration.migration.small_files import SmallFiles

Make = Callable[..., SmallFiles]


def test_a_parquet_table_whose_migration_was_killed_is_migrated_by_the_next_one(
    spark: Any, small_files: Make, tmp_path: Path
) -> None:
    table = small_files(partitions=6, files=10, file_format="parquet")
    Migrator(table, tmp_path / "killed", kill_at="described").die()
    assert table.is_untouched()
    report = migration.migrate(spark, table.name, catalog=table.catalog, progress=False)
    assert (report.outcome, report.files, report.records) == ("done", 60, table.rows)
    assert report.reused_files > 0
    assert table.is_complete()
    assert table.ids() == list(range(table.rows))


def test_an_orc_table_is_migrated_and_undone(spark: Any, small_files: Make) -> None:
    table = small_files(partitions=10, file_format="orc")
    before = spark.table(table.name).orderBy("id").collect()
    assert migration.migrate(spark, table.name, catalog=table.catalog, progress=False).outcome == "done"
    assert table.is_complete()
    spark.catalog.refreshTable(table.name)
    assert spark.table(table.name).orderBy("id").collect() == before
    migration.undo(table.catalog, table.name)
    assert table.is_undone()
    spark.catalog.refreshTable(table.name)
    assert spark.table(table.name).orderBy("id").collect() == before
