"""Hive tables on HDFS: executors list them and read their footers there, without Hadoop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.migration import add_files, late_files, migrate, snapshot, undo
from iceberg_hms.stores import open_files
from integration.migration.program import migrate_elsewhere
from integration.migration.readers import add_java, in_order, rows_of, run
from integration.stores.hdfs import LocalHdfs

# The first test may wait for the download of Hadoop.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = [("1", "one", "a/b"), ("2", None, "a/b"), ("3", "three", "b"), ("4", "four", "c")]
VALUES = "(1, 'one', 'a/b'), (2, NULL, 'a/b'), (3, 'three', 'b'), (4, 'four', 'c')"


@pytest.fixture
def database(spark: Any, hdfs: LocalHdfs, namespace: str) -> str:
    """A database on HDFS, of the shared metastore, whose own warehouse is on the local disk."""
    name = f"{namespace}_on_hdfs"
    run(spark, f"CREATE DATABASE {name} LOCATION '{hdfs.address}/{name}'")
    return name


def statements(table: str, stored_as: str, elsewhere: str) -> list[str]:
    """What makes a managed table of ROWS. elsewhere: the folder of one of its partitions."""
    return [
        f"CREATE TABLE {table} (id INT, name STRING) PARTITIONED BY (p STRING) STORED AS {stored_as}",
        f"ALTER TABLE {table} ADD PARTITION (p = 'c') LOCATION '{elsewhere}'",
        f"INSERT INTO {table} PARTITION (p) VALUES {VALUES}",
    ]


def listed(files: Files, folder: str) -> set[str]:
    return {each.location.removeprefix(folder) for each in files.list_files(folder)}


@pytest.mark.parametrize("stored_as", ["PARQUET", "ORC", "AVRO"])
def test_a_table_is_migrated_read_checked_and_undone(
    spark: Any, metastore: LocalMetastore, catalog: Any, hdfs: LocalHdfs, database: str, stored_as: str
) -> None:
    table, root = f"{database}.t", f"{hdfs.address}/{database}"
    run(spark, *statements(table, stored_as, f"{root}/elsewhere"))
    assert rows_of(spark, table) == in_order(ROWS)
    files = open_files(catalog.settings)
    before = listed(files, root)
    report = migrate(spark, table, progress=False)
    assert (report.outcome, report.files, report.records) == ("done", 3, 4)
    java = f"{add_java(spark, metastore)}.{table}"
    assert rows_of(spark, table) == rows_of(spark, java) == in_order(ROWS)
    assert {each for each in listed(files, root) - before if not each.startswith("/t/_iceberg/")} == set()

    original = next(each for each in before if each.startswith("/t/p=a%2Fb/"))
    files.write(f"{root}/elsewhere/late", files.read(f"{root}{original}"))
    late = late_files(spark, table)
    assert (late.count, late.files) == (1, [f"{root}/elsewhere/late"])
    files.delete(f"{root}/elsewhere/late")

    undo(catalog, table)
    spark.catalog.refreshTable(table)
    assert rows_of(spark, table) == in_order(ROWS)
    assert listed(files, root) == before


def test_its_files_become_those_of_other_tables(spark: Any, catalog: Any, hdfs: LocalHdfs, database: str) -> None:
    table, root = f"{database}.t", f"{hdfs.address}/{database}"
    run(spark, *statements(table, "PARQUET", f"{root}/elsewhere"))
    before = listed(open_files(catalog.settings), f"{root}/t")
    assert snapshot(spark, table, f"{database}.trial", progress=False).records == 4
    run(spark, f"CREATE TABLE {database}.events (id INT, name STRING, p STRING) USING iceberg PARTITIONED BY (p)")
    report = add_files(spark, f"{database}.events", table, partition_filter={"p": "a/b"}, progress=False)
    assert (report.outcome, report.records) == ("done", 2)
    assert rows_of(spark, f"{database}.trial") == rows_of(spark, table) == in_order(ROWS)
    assert rows_of(spark, f"{database}.events") == in_order(ROWS[:2])
    assert listed(open_files(catalog.settings), f"{root}/t") == before


@pytest.fixture
def metastore_of_pair(hdfs_pair: LocalHdfs, tmp_path: Path) -> Iterator[LocalMetastore]:
    """With its warehouse behind a name service."""
    warehouse = f"{hdfs_pair.address}/warehouse"
    with LocalMetastore(tmp_path / "metastore", warehouse=warehouse, conf=hdfs_pair.settings) as server:
        yield server


def test_executors_find_the_name_nodes_of_a_name_service(
    metastore_of_pair: LocalMetastore, hdfs_pair: LocalHdfs, tmp_path: Path
) -> None:
    made = ["CREATE DATABASE hives", *statements("hives.t", "PARQUET", f"{hdfs_pair.address}/elsewhere")]
    found = migrate_elsewhere(
        metastore_of_pair,
        tmp_path,
        "hives.t",
        statements=made,
        settings={f"spark.hadoop.{key}": value for key, value in hdfs_pair.settings.items()},
        library={"hdfs_config_dir": str(hdfs_pair.config_dir)},
    )
    assert (found["outcome"], found["records"]) == ("done", 4)
    assert all(each.startswith("hdfs://pair/") for each in found["files"]), found["files"]
    rows = [list(row) for row in in_order(ROWS)]
    assert found["before"] == found["iceberg"] == found["after"] == rows
