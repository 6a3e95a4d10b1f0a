"""Columns and struct fields come, go, move and change their names, on a metastore that allows it and on a stock one.

A stock Hive Metastore (`hive.metastore.disallow.incompatible.col.type.changes=true`) refuses to store columns whose
types changed by position. The table must evolve all the same: readers take the schema from the metadata file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.rest.server import RestServer
from integration import interop

TOKEN = "a-token-for-tests-alone"
EVOLVING = "evolving"
HIVE = "evolving_hive"


@pytest.fixture(params=["metastore", "stock_metastore"])
def server_metastore(request: pytest.FixtureRequest) -> Any:
    """The embedded metastore, then one with Hive's stock settings."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def catalog(server_metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=server_metastore.uri, warehouse=server_metastore.warehouse) as catalog:
        yield catalog


@pytest.fixture
def table(request: pytest.FixtureRequest, spark: Any, server_metastore: Any, catalog: Any) -> Iterator[str]:
    """A table with one row, in a Spark catalog that is our REST server on this metastore."""
    namespace = f"evolution_{request.node.originalname.removeprefix('test_')[:40]}"
    catalog.create_namespace(namespace)
    with RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server:
        # A catalog is made once for its name in a session: a new server needs a new name.
        name = interop.add_spark_catalog(
            spark, f"{EVOLVING}_{server.uri.rpartition(':')[2]}", type="rest", uri=server.uri, token=TOKEN
        )
        full = f"{name}.{namespace}.t"
        spark.sql(
            f"CREATE TABLE {full} (id int, name string, at timestamp, place struct<city: string, zip: int>)"
            " USING iceberg"
        )
        spark.sql(
            f"INSERT INTO {full} VALUES (1, 'a', timestamp '2021-04-01 10:00:00', named_struct('city', 'x', 'zip', 1))"
        )
        yield full
        spark.sql(f"DROP TABLE {full}")
    catalog.drop_namespace(namespace)


def java_rows(spark: Any, metastore: Any, table: str) -> list[dict[str, Any]]:
    """The same table as Java's HiveCatalog on the same metastore reads it."""
    name = interop.add_spark_catalog(
        spark,
        f"{HIVE}_{metastore.uri.rpartition(':')[2]}",
        type="hive",
        uri=metastore.uri,
        warehouse=metastore.warehouse,
    )
    return interop.spark_rows(spark, f"SELECT * FROM {name}.{table.partition('.')[2]}")


def check(spark: Any, metastore: Any, table: str, rows: list[dict[str, Any]]) -> None:
    """Spark through us, Java's HiveCatalog and PyIceberg read these rows, with the columns in this order."""
    read = interop.spark_rows(spark, f"SELECT * FROM {table}")
    assert read == rows
    assert [list(row) for row in read] == [list(row) for row in rows]
    assert java_rows(spark, metastore, table) == rows
    assert interop.pyiceberg_rows(metastore, table.partition(".")[2]) == rows


def test_columns_are_added_renamed_moved_and_dropped(spark: Any, server_metastore: Any, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} DROP COLUMN at")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO label")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN score double FIRST")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN place AFTER score")
    old = {"score": None, "place": {"city": "x", "zip": 1}, "id": 1, "label": "a"}
    check(spark, server_metastore, table, [old])
    spark.sql(f"INSERT INTO {table} VALUES (0.5, named_struct('city', 'y', 'zip', 2), 2, 'b')")
    new = {"score": 0.5, "place": {"city": "y", "zip": 2}, "id": 2, "label": "b"}
    check(spark, server_metastore, table, [old, new])


def test_struct_fields_are_added_renamed_moved_and_dropped(spark: Any, server_metastore: Any, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} DROP COLUMN at")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN place.city TO town")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN place.country string FIRST")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN place.zip")
    old = {"id": 1, "name": "a", "place": {"country": None, "town": "x"}}
    check(spark, server_metastore, table, [old])
    spark.sql(f"INSERT INTO {table} VALUES (2, 'b', named_struct('country', 'z', 'town', 'y'))")
    check(spark, server_metastore, table, [old, {"id": 2, "name": "b", "place": {"country": "z", "town": "y"}}])


def test_a_dropped_name_that_comes_back_is_another_column(spark: Any, server_metastore: Any, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} DROP COLUMNS (at, place)")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN name")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN name string")
    check(spark, server_metastore, table, [{"id": 1, "name": None}])


def test_columns_are_widened(spark: Any, server_metastore: Any, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN place.zip TYPE bigint")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN at")
    big = 2**40
    spark.sql(f"INSERT INTO {table} VALUES ({big}, 'b', named_struct('city', 'y', 'zip', {big}))")
    rows = [
        {"id": 1, "name": "a", "place": {"city": "x", "zip": 1}},
        {"id": big, "name": "b", "place": {"city": "y", "zip": big}},
    ]
    check(spark, server_metastore, table, rows)


def test_a_snapshot_from_before_is_read_with_the_columns_of_its_time(
    spark: Any, server_metastore: Any, table: str
) -> None:
    first = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()[0].snapshot_id
    spark.sql(f"ALTER TABLE {table} DROP COLUMN place")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO label")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'b', null)")
    old = spark.sql(f"SELECT * FROM {table} VERSION AS OF {first}")
    assert old.columns == ["id", "name", "at", "place"]
    assert [row.id for row in old.collect()] == [1]
    assert spark.table(table).columns == ["id", "label", "at"]


def test_partitioning_changes_and_old_files_keep_their_layout(spark: Any, server_metastore: Any, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD days(at)")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'b', timestamp '2021-04-02 10:00:00', null)")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD name")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c', timestamp '2021-04-02 11:00:00', null)")
    specs = spark.sql(f"SELECT spec_id FROM {table}.files ORDER BY spec_id").collect()
    assert [row.spec_id for row in specs] == [0, 1, 2]
    found = spark.sql(f"SELECT id FROM {table} WHERE at >= timestamp '2021-04-02 00:00:00' ORDER BY id").collect()
    assert [row.id for row in found] == [2, 3]
    assert [row["id"] for row in java_rows(spark, server_metastore, table)] == [1, 2, 3]


def test_the_stock_setting_is_in_force(spark: Any, stock_metastore: Any) -> None:
    # Java's HiveCatalog is refused there: what the tests above go through is the real thing.
    name = interop.add_spark_catalog(
        spark, f"{HIVE}_stock", type="hive", uri=stock_metastore.uri, warehouse=stock_metastore.warehouse
    )
    spark.sql(f"CREATE NAMESPACE {name}.refused")
    spark.sql(f"CREATE TABLE {name}.refused.t (name string, id int) USING iceberg")
    with pytest.raises(Exception, match="types incompatible with the existing columns in their respective positions"):
        spark.sql(f"ALTER TABLE {name}.refused.t DROP COLUMN name")
    spark.sql(f"DROP TABLE {name}.refused.t")
    spark.sql(f"DROP NAMESPACE {name}.refused")


def test_the_metastore_that_allows_it_shows_the_new_columns(
    spark: Any, metastore: Any, catalog_columns: list[tuple[str, str]]
) -> None:
    assert catalog_columns == [("place", "struct<city:string,zip:int>"), ("id", "bigint"), ("label", "string")]


@pytest.fixture
def catalog_columns(spark: Any, metastore: Any, namespace: str) -> list[tuple[str, str]]:
    """Name and type of the columns in the metastore, after changes through the session catalog."""
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id int, name string, place struct<city: string, zip: int>) USING iceberg")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO label")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN place FIRST")
    return [(column.name, column.type) for column in interop.metastore_row(metastore, table).sd.cols]
