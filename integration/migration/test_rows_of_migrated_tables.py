"""The row of a migrated table on a real metastore: its columns follow the Iceberg table, and go back; other rows that
name its files keep them; and a metastore may limit how many partitions a request names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Partition

from iceberg_hms.errors import InvalidInput
from iceberg_hms.identifiers import table_name
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import Table
from iceberg_hms.migration import keep, migrate, undo
from iceberg_hms.migration.driver import MigrationDriver
from iceberg_hms.migration.in_place import migrate_table
from iceberg_hms.migration.takeover import Options
from integration.migration.readers import rows_of, run
from integration.migration.small_files import SmallFiles
from integration.old_metastores import HMS_4_1_0, OldMetastore
from integration.servers import make_namespace
from integration.spark_fixtures import run_elsewhere
from tests.migration.hive_files import Loop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Hive's default, by which the types of columns at one place may not change, and a limit that sites set.
STRICT: Mapping[str, str] = {
    f"{prefix}{key}": value
    for prefix in ("hive.metastore.", "metastore.")
    for key, value in (("disallow.incompatible.col.type.changes", "true"), ("limit.partition.request", "3"))
}


@contextmanager
def started(release: str, folder: Path, conf: Mapping[str, str]) -> Iterator[Any]:
    server = LocalMetastore(folder, conf=conf) if release == "2.3.10" else OldMetastore(folder, HMS_4_1_0, conf=conf)
    with server:
        yield server


def migrated(table: SmallFiles) -> None:
    driver = MigrationDriver(table.catalog, Loop(), UTC)
    assert migrate_table(driver, table_name(table.name), Options(progress=False)).outcome == "done"
    assert table.is_complete()


def columns_of(row: Any) -> list[tuple[str, str]]:
    return [(each.name, each.type) for each in row.sd.cols]


def add_table(table: SmallFiles, name: str, folder: str, partition: str | None = None) -> None:
    """A further Hive table in the database, in a folder; with a partition, in another one."""
    storage = table.row().sd
    storage.location = f"file:{folder}"
    namespace = table.name.partition(".")[0]
    keys = table.before.partitionKeys if partition is not None else []
    row = Table(
        dbName=namespace,
        tableName=name,
        owner="ada",
        sd=storage,
        partitionKeys=keys,
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
    pool = ClientPool([table.metastore.uri])
    try:
        pool.call_once("create_table", tbl=row)
        if partition is not None:
            storage.location = f"file:{partition}"
            new = Partition(dbName=namespace, tableName=name, values=["7"], parameters={}, sd=storage)
            pool.call_once("add_partition", new_part=new)
    finally:
        pool.close()


def drop_table(table: SmallFiles, name: str) -> None:
    pool = ClientPool([table.metastore.uri])
    try:
        pool.call_once("drop_table", dbname=table.name.partition(".")[0], name=name, deleteData=False)
    finally:
        pool.close()


@pytest.mark.parametrize("release", ["2.3.10", "4.1.0"])
def test_a_strict_metastore_lets_a_table_there_and_back(
    release: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with started(release, tmp_path / "hms", STRICT) as server:
        table = SmallFiles(server, make_namespace(server, request), tmp_path / "files", partitions=10)
        try:
            migrated(table)
            with table.catalog.load_table(table.name).update_schema() as schema:
                schema.add_column("more", "int")
                schema.rename_column("name", "label")
            # Hive 4 reads all partitions before it changes columns, more than the limit allows.
            kept = [("id", "bigint"), ("name", "string")]
            followed = [("id", "bigint"), ("label", "string"), ("more", "int")]
            assert columns_of(table.row()) == (followed if release == "2.3.10" else kept)
            undo(table.catalog, table.name)
            assert table.is_undone()
        finally:
            table.close()


CHANGES = [
    ("ALTER TABLE {} ADD COLUMN more int", [("id", "int"), ("small", "tinyint"), ("at", "timestamp"), ("more", "int")]),
    (
        "ALTER TABLE {} RENAME COLUMN small TO tiny",
        [("id", "int"), ("tiny", "tinyint"), ("at", "timestamp"), ("more", "int")],
    ),
    (
        "ALTER TABLE {} ALTER COLUMN id TYPE bigint",
        [("id", "bigint"), ("tiny", "tinyint"), ("at", "timestamp"), ("more", "int")],
    ),
    ("ALTER TABLE {} DROP COLUMN at", [("id", "bigint"), ("tiny", "tinyint"), ("more", "int")]),
]


def test_readers_of_the_row_see_the_columns_of_the_iceberg_table(
    spark: Any, metastore: Any, catalog: Any, namespace: str, tmp_path: Path
) -> None:
    table = f"{namespace}.t"
    run(
        spark,
        f"CREATE TABLE {table} (id INT, small TINYINT, at TIMESTAMP) PARTITIONED BY (p INT) STORED AS PARQUET",
        f"INSERT INTO {table} PARTITION (p) SELECT 1, 2Y, TIMESTAMP '2024-01-31 10:00:00', 3",
    )
    pool = ClientPool([metastore.uri])

    def row() -> Any:
        return pool.ask("get_table", dbname=namespace, tbl_name="t")

    try:
        before, rows = row(), rows_of(spark, table)
        assert migrate(spark, table, progress=False).outcome == "done"
        assert columns_of(row()) == columns_of(before)
        for statement, expected in CHANGES:
            run(spark, statement.format(table))
            assert columns_of(row()) == expected, statement
        with catalog.load_table(table).update_schema() as schema:
            schema.rename_column("more", "most")
        assert columns_of(row())[-1] == ("most", "int")
        (described,) = run_elsewhere(metastore, "plain", [f"DESCRIBE {table}"], tmp_path)
        assert described.error is None
        described_names = {line.split("'")[1] for line in described.rows}
        assert {"id", "tiny", "most"} <= described_names
        assert not {"small", "at", "more"} & described_names
        undo(catalog, table)
        after = row()
        for each in (before, after):
            each.parameters.pop("transient_lastDdlTime")
        assert after == before
        spark.catalog.refreshTable(table)
        assert rows_of(spark, table) == rows
    finally:
        pool.close()


@pytest.mark.parametrize("where", ["same", "below", "above", "partition"])
def test_what_another_row_names_stays(small_files: Any, tmp_path: Path, where: str) -> None:
    table: SmallFiles = small_files(partitions=2)
    migrated(table)
    folder = table.folder
    match where:
        case "same":
            add_table(table, "other", str(folder))
        case "below":
            add_table(table, "other", str(table.partition_folder(1)))
        case "above":
            add_table(table, "other", str(folder.parent))
        case _:
            add_table(table, "other", str(tmp_path / "elsewhere"), str(table.partition_folder(1)))
    with pytest.raises(InvalidInput, match="other has the folder"):
        keep(table.catalog, table.name)
    undo(table.catalog, table.name)
    assert table.is_undone()
    migrated(table)
    drop_table(table, "other")
    keep(table.catalog, table.name)
    assert table.is_complete()
