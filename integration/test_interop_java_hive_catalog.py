"""Java's HiveCatalog, PyIceberg and iceberg-hms on one metastore: each reads and appends to what the others made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iceberg_hms
from integration import interop

HIVE = "hive_cat"

COLUMNS = """
    id bigint, level string, at timestamp, day date, amount decimal(10, 2), tags array<string>,
    place struct<city: string, zip: int>, counts map<string, bigint>
"""
SPEC = "days(at), bucket(4, id), truncate(2, level)"


@pytest.fixture(scope="module")
def catalog(metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        yield catalog


@pytest.fixture
def java(spark: Any, metastore: Any) -> str:
    """Java's HiveCatalog as a second catalog of the session that has ours as `spark_catalog`."""
    return interop.add_spark_catalog(spark, HIVE, type="hive", uri=metastore.uri, warehouse=metastore.warehouse)


def values(number: int) -> str:
    """One row as SQL values, different for each number; every fifth is all null but its id."""
    if number % 5 == 0:
        return f"({number}, null, null, null, null, null, null, null)"
    return (
        f"({number}, 'ERROR-{number}', timestamp '2021-04-0{1 + number % 2} 10:00:00.{number:06}',"
        f" date '2021-04-0{1 + number % 2}', {number}.25, array('a', 'b{number}'),"
        f" named_struct('city', 'c{number}', 'zip', {number}), map('k', {number}))"
    )


def insert(spark: Any, table: str, numbers: range) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {', '.join(map(values, numbers))}")


def all_rows(spark: Any, metastore: Any, name: str) -> dict[str, list[dict[str, Any]]]:
    """The table as each engine reads it."""
    return {
        "ours": interop.spark_rows(spark, f"SELECT * FROM spark_catalog.{name}"),
        "java": interop.spark_rows(spark, f"SELECT * FROM {HIVE}.{name}"),
        "pyiceberg": interop.pyiceberg_rows(metastore, name),
    }


def check_equal(spark: Any, metastore: Any, name: str, ids: range) -> None:
    rows = all_rows(spark, metastore, name)
    assert [row["id"] for row in rows["ours"]] == list(ids)
    assert rows["ours"] == rows["java"]
    # PyIceberg gives a map as a list of pairs.
    assert [
        row | {"counts": None if row["counts"] is None else list(row["counts"].items())} for row in rows["ours"]
    ] == (rows["pyiceberg"])


@pytest.mark.parametrize("maker", ["spark_catalog", HIVE])
@pytest.mark.parametrize("version", [1, 2])
def test_a_table_of_any_maker_is_read_and_appended_to_by_the_others(
    spark: Any, metastore: Any, namespace: str, java: str, maker: str, version: int
) -> None:
    name = f"{namespace}.shared"
    spark.sql(
        f"CREATE TABLE {maker}.{name} ({COLUMNS}) USING iceberg PARTITIONED BY ({SPEC})"
        f" TBLPROPERTIES ('format-version' = '{version}')"
    )
    insert(spark, f"spark_catalog.{name}", range(10))
    check_equal(spark, metastore, name, range(10))
    insert(spark, f"{java}.{name}", range(10, 20))
    check_equal(spark, metastore, name, range(20))
    insert(spark, f"spark_catalog.{name}", range(20, 30))
    check_equal(spark, metastore, name, range(30))


def test_a_filter_prunes_the_same_files_for_java_and_for_us(
    spark: Any, metastore: Any, namespace: str, java: str
) -> None:
    name = f"{namespace}.pruned"
    spark.sql(f"CREATE TABLE spark_catalog.{name} ({COLUMNS}) USING iceberg PARTITIONED BY ({SPEC})")
    insert(spark, f"spark_catalog.{name}", range(1, 10))
    where = "WHERE at >= timestamp '2021-04-02 00:00:00' AND id IS NOT NULL"
    rows = interop.spark_rows(spark, f"SELECT id FROM spark_catalog.{name} {where}")
    assert rows == interop.spark_rows(spark, f"SELECT id FROM {java}.{name} {where}")
    assert {row["id"] for row in rows} == {1, 3, 7, 9}
    partitions = f"SELECT partition, record_count FROM {{}}.{name}.partitions ORDER BY partition"
    assert spark.sql(partitions.format("spark_catalog")).collect() == spark.sql(partitions.format(java)).collect()


def test_files_that_the_python_api_appends_are_read_by_java_and_by_pyiceberg(
    spark: Any, metastore: Any, catalog: Any, namespace: str, java: str, tmp_path: Path
) -> None:
    name = f"{namespace}.from_python"
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    table = catalog.create_table(name, schema)
    table.append([f"file:{interop.small_parquet(tmp_path / 'a file.parquet', range(5))}"])
    spark.sql(f"INSERT INTO {java}.{name} VALUES (5, 'row 5'), (6, 'row 6')")
    table.append([f"file:{interop.small_parquet(tmp_path / 'b.parquet', range(7, 9))}"])
    expected = [{"id": number, "name": f"row {number}"} for number in range(9)]
    assert interop.spark_rows(spark, f"SELECT * FROM {java}.{name}") == expected
    assert interop.spark_rows(spark, f"SELECT * FROM spark_catalog.{name}") == expected
    assert interop.pyiceberg_rows(metastore, name) == expected


def test_a_partitioned_append_of_the_python_api_is_pruned_by_java(
    spark: Any, catalog: Any, namespace: str, java: str, tmp_path: Path
) -> None:
    name = f"{namespace}.by_level"
    spark.sql(f"CREATE TABLE {java}.{name} (id bigint, level string) USING iceberg PARTITIONED BY (level)")
    for number, level in enumerate(["ERROR", "WARN"]):
        path = tmp_path / f"{level}.parquet"
        pq.write_table(pa.table({"id": pa.array([number], pa.int64()), "level": [level]}), path)
        catalog.load_table(name).append([f"file:{path}"])
    rows = interop.spark_rows(spark, f"SELECT id, level, _file FROM {java}.{name} WHERE level = 'WARN'")
    assert rows == [{"id": 1, "level": "WARN", "_file": f"file:{tmp_path}/WARN.parquet"}]
    partitions = spark.sql(f"SELECT partition.level AS level, file_count FROM {java}.{name}.partitions ORDER BY level")
    assert [tuple(row) for row in partitions.collect()] == [("ERROR", 1), ("WARN", 1)]


def test_what_pyiceberg_makes_and_appends_is_ours_and_javas_to_read_and_append_to(
    spark: Any, metastore: Any, catalog: Any, namespace: str, java: str, tmp_path: Path
) -> None:
    name = f"{namespace}.from_pyiceberg"
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    theirs = interop.pyiceberg_catalog(metastore).create_table(name, schema)
    theirs.append(pa.table({"id": [0], "name": ["row 0"]}, schema=schema))
    catalog.load_table(name).append([f"file:{interop.small_parquet(tmp_path / 'a.parquet', [1])}"])
    spark.sql(f"INSERT INTO {java}.{name} VALUES (2, 'row 2')")
    spark.sql(f"INSERT INTO spark_catalog.{name} VALUES (3, 'row 3')")
    interop.pyiceberg_catalog(metastore).load_table(name).append(
        pa.table({"id": [4], "name": ["row 4"]}, schema=schema)
    )
    expected = [{"id": number, "name": f"row {number}"} for number in range(5)]
    assert interop.spark_rows(spark, f"SELECT * FROM {java}.{name}") == expected
    assert interop.spark_rows(spark, f"SELECT * FROM spark_catalog.{name}") == expected
    assert interop.pyiceberg_rows(metastore, name) == expected


def test_java_and_we_write_the_same_row_into_the_metastore(
    spark: Any, metastore: Any, namespace: str, java: str
) -> None:
    rows = {}
    for maker in ("spark_catalog", java):
        name = f"{namespace}.by_{maker}"
        spark.sql(f"CREATE TABLE {maker}.{name} ({COLUMNS}) USING iceberg PARTITIONED BY ({SPEC})")
        insert(spark, f"{maker}.{name}", range(1, 5))
        rows[maker] = interop.metastore_row(metastore, name)
    ours, theirs = rows["spark_catalog"], rows[java]
    changing = {"uuid", "metadata_location", "previous_metadata_location", "transient_lastDdlTime"}
    changing |= {"current-snapshot-id", "current-snapshot-timestamp-ms"}
    ours.parameters.pop("iceberg-hms.owned-folder")
    assert set(ours.parameters) == set(theirs.parameters)
    for key in set(ours.parameters) - changing - {"current-snapshot-summary", "totalSize"}:
        assert ours.parameters[key] == theirs.parameters[key], key
    assert [(column.name, column.type) for column in ours.sd.cols] == [
        (column.name, column.type) for column in theirs.sd.cols
    ]
    assert ours.tableType == theirs.tableType == "EXTERNAL_TABLE"
    assert ours.sd.inputFormat == theirs.sd.inputFormat
    assert ours.sd.outputFormat == theirs.sd.outputFormat
    assert ours.sd.serdeInfo.serializationLib == theirs.sd.serdeInfo.serializationLib


def test_a_table_that_java_renames_or_drops_is_gone_for_us_and_the_reverse(
    spark: Any, catalog: Any, namespace: str, java: str
) -> None:
    spark.sql(f"CREATE TABLE {java}.{namespace}.one (id bigint) USING iceberg")
    spark.sql(f"CREATE TABLE spark_catalog.{namespace}.two (id bigint) USING iceberg")
    spark.sql(f"ALTER TABLE {java}.{namespace}.two RENAME TO {namespace}.deux")
    spark.sql(f"ALTER TABLE spark_catalog.{namespace}.one RENAME TO {namespace}.un")
    names = {row.tableName for row in spark.sql(f"SHOW TABLES IN {java}.{namespace}").collect()}
    assert names == {"un", "deux"} == {name.name for name in catalog.list_tables(namespace)}
    spark.sql(f"DROP TABLE {java}.{namespace}.un")
    spark.sql(f"DROP TABLE spark_catalog.{namespace}.deux")
    assert catalog.list_tables(namespace) == []
    assert spark.sql(f"SHOW TABLES IN {java}.{namespace}").collect() == []
