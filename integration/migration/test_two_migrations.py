"""Several programs at one Hive table at once: two migrations, and a migration with a program that alters its row."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms import migration
from iceberg_hms.errors import CommitConflict, IcebergHmsError
from iceberg_hms.migration.report import MigrationReport
from integration.faults import LIMIT, in_background
from integration.migration.small_files import SmallFiles
from integration.spark_fixtures import run_elsewhere

pytestmark = pytest.mark.slow

Make = Callable[..., SmallFiles]
STAGES = ("read", "listed", "described", "staged")


def migrated(spark: Any, table: SmallFiles, **options: Any) -> MigrationReport | IcebergHmsError:
    """In a catalog of its own, as another program's: its report, or why it failed."""
    with iceberg_hms.connect(metastore_uri=table.metastore.uri, warehouse=table.metastore.warehouse) as catalog:
        try:
            return migration.migrate(spark, table.name, catalog=catalog, progress=False, **options)
        except IcebergHmsError as error:
            return error


def lost(outcome: MigrationReport | IcebergHmsError) -> bool:
    """Whether a migration found that another had been quicker, and said so."""
    if isinstance(outcome, MigrationReport):
        return outcome.outcome == "already done"
    return isinstance(outcome, CommitConflict)


@pytest.mark.parametrize("stage", STAGES)
def test_the_slower_migration_finds_that_the_other_has_made_the_table(
    spark: Any, small_files: Make, stage: str
) -> None:
    table = small_files(partitions=12, files=10)
    others: list[MigrationReport | IcebergHmsError] = []

    def overtake(now: str) -> None:
        if now == stage and not others:
            others.append(migrated(spark, table))

    ours = migrated(spark, table, on_stage=overtake)
    (winner,) = others
    assert isinstance(winner, MigrationReport), winner
    assert winner.outcome == "done"
    assert table.is_complete()
    assert lost(ours), ours
    assert table.ids() == list(range(table.rows))


def test_of_two_that_change_the_row_at_once_one_wins(spark: Any, small_files: Make) -> None:
    table = small_files(partitions=10)
    both = threading.Barrier(2, timeout=LIMIT)

    def meet(stage: str) -> None:
        if stage == "staged":
            both.wait()

    runs = [in_background(lambda: migrated(spark, table, on_stage=meet)) for _ in range(2)]
    outcomes = [run.result(LIMIT) for run in runs]
    assert table.is_complete()
    assert sum(isinstance(each, MigrationReport) and each.outcome == "done" for each in outcomes) == 1, outcomes
    assert sum(map(lost, outcomes)) == 1, outcomes
    migration.undo(table.catalog, table.name)
    assert table.is_undone()


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE {} SET TBLPROPERTIES ('by' = 'another')", "ALTER TABLE {} DROP PARTITION (part = 3)"],
    ids=["properties", "partitions"],
)
def test_a_row_that_another_program_alters_meanwhile_stays_a_hive_table(
    spark: Any, metastore: Any, small_files: Make, tmp_path: Path, statement: str
) -> None:
    table = small_files(partitions=10)

    def alter(stage: str) -> None:
        if stage == "staged":
            (done,) = run_elsewhere(metastore, "plain", [statement.format(table.name)], tmp_path)
            assert done.error is None, done

    ours = migrated(spark, table, on_stage=alter)
    assert isinstance(ours, CommitConflict), ours
    seen = table.seen()
    assert seen.kind == "hive"
    assert table.row().parameters.get("by") == ("another" if "PROPERTIES" in statement else None)
    again = migrated(spark, table)
    assert isinstance(again, MigrationReport), again
    assert (again.outcome, again.files) == ("done", len(seen.files))
    assert table.seen().files == seen.files
    assert table.metadata().properties.get("by") == table.row().parameters.get("by")
