"""Files and folders that cannot be taken over are named with path and partition, and by default nothing changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms import migration
from iceberg_hms.errors import CannotMigrate
from iceberg_hms.migration.report import MigrationReport
from integration.migration.small_files import ROWS, Seen, SmallFiles

pytestmark = pytest.mark.slow

Make = Callable[..., SmallFiles]
#: A folder of Linux with files that nobody can open to read them, the superuser included.
UNREADABLE = next(Path("/sys/bus").glob("*/drivers/*/uevent")).parent


def corrupt_footer(table: SmallFiles, part: int) -> Path:
    file = table.file(part)
    data = bytearray(file.read_bytes())
    data[-20:-8] = b"\xff" * 12
    file.write_bytes(data)
    return file


def cut_off(table: SmallFiles, part: int) -> Path:
    file = table.file(part)
    file.write_bytes(file.read_bytes()[:-30])
    return file


def folder_gone(table: SmallFiles, part: int) -> Path:
    folder = table.partition_folder(part)
    shutil.rmtree(folder)
    return folder


def another_schema(table: SmallFiles, part: int) -> Path:
    file = table.file(part)
    pq.write_table(pa.table({"id": ["not a number"], "name": ["x"]}), file)
    return file


def unsigned(table: SmallFiles, part: int) -> Path:
    """PyIceberg reads it, Spark does not."""
    file = table.file(part)
    pq.write_table(pa.table({"id": pa.array([1], pa.uint16()), "name": ["x"]}), file)
    return file


def text(table: SmallFiles, part: int) -> Path:
    file = table.file(part)
    file.write_text("id,name\n1,x\n" * 10)
    return file


SPOILERS: dict[Callable[[SmallFiles, int], Path], str] = {
    corrupt_footer: "its Parquet footer cannot be read",
    cut_off: "it does not end with a Parquet footer",
    folder_gone: "its folder is gone",
    another_schema: "column id is String (BYTE_ARRAY) in the file and long in the table",
    unsigned: "column id is UInt 16 (INT32), which pyarrow reads as uint16 in the file and long in the table",
    text: "it does not end with a Parquet footer",
}


def migrated(spark: Any, table: SmallFiles, **options: Any) -> MigrationReport:
    return migration.migrate(spark, table.name, catalog=table.catalog, progress=False, **options)


def test_each_is_named_with_its_partition_and_nothing_changes_until_it_is_to_be_left_out(
    spark: Any, small_files: Make
) -> None:
    table = small_files(partitions=2 * len(SPOILERS), files=2)
    spoiled = {f"part={part}": str(spoil(table, part)) for part, spoil in enumerate(SPOILERS)}
    folder = spoiled[f"part={list(SPOILERS).index(folder_gone)}"]
    good = {each for each in table.whole.files if each not in spoiled.values() and not each.startswith(f"{folder}/")}

    with pytest.raises(CannotMigrate) as refused:
        migrated(spark, table)
    report = refused.value.report
    problems = {each.partition: each for each in report.problems}
    assert {partition: each.location for partition, each in problems.items()} == {
        partition: f"file:{path}" for partition, path in spoiled.items()
    }
    for partition, reason in zip(spoiled, SPOILERS.values(), strict=True):
        assert reason in problems[partition].reason
    assert (report.outcome, report.problem_count, report.metadata_location) == ("failed", len(spoiled), None)
    assert table.row() == table.before

    dry = migrated(spark, table, dry_run=True)
    assert (dry.outcome, dry.problem_count, dry.files) == ("dry run", len(spoiled), len(good))
    assert {each.partition: each for each in dry.problems} == problems
    assert table.row() == table.before

    done = migrated(spark, table, skip_unreadable=True)
    assert (done.outcome, done.files, done.records) == ("done", len(good), len(good) * ROWS)
    assert {each.partition: each for each in done.problems} == problems
    assert table.seen() == Seen("iceberg", frozenset(good), len(good) * ROWS)
    assert len(table.ids()) == done.records


def test_files_that_cannot_be_opened(spark: Any, small_files: Make) -> None:
    table = small_files(partitions=3)
    table.move_partition(1, UNREADABLE)
    files = {f"file:{each}" for each in UNREADABLE.iterdir() if each.is_file() and not each.is_symlink()}
    with pytest.raises(CannotMigrate, match="Permission denied") as refused:
        migrated(spark, table)
    assert {each.location for each in refused.value.report.problems} == files
    assert {each.partition for each in refused.value.report.problems} == {"part=1"}
    assert table.row() == table.before
    done = migrated(spark, table, skip_unreadable=True)
    assert (done.outcome, done.files, done.problem_count) == ("done", 2, len(files))
    assert table.seen().files == table.whole.files - {str(table.file(1))}
