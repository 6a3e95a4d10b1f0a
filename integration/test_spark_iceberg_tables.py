"""Iceberg tables through our session catalog: what Spark SQL can do with them, on a real metastore."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.format.locations import same_folder
from integration import interop
from integration.spark_statements import outcome

WAYS = [(2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")]


def rows(spark: Any, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.sql(query).collect())


def run(spark: Any, *statements: str) -> None:
    for statement in statements:
        spark.sql(statement).collect()


def numbers(spark: Any, table: str, count: int = 3) -> list[int]:
    """A table of one column with a row a commit; returns its snapshots, oldest first."""
    run(spark, f"CREATE TABLE {table} (n INT) USING iceberg")
    run(spark, *(f"INSERT INTO {table} VALUES ({n})" for n in range(1, count + 1)))
    return snapshots(spark, table)


def snapshots(spark: Any, table: str) -> list[int]:
    return [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()]


@pytest.fixture
def table(namespace: str) -> str:
    return f"{namespace}.t"


def test_the_running_example_of_events(spark: Any, metastore: Any, namespace: str) -> None:
    events = f"{namespace}.events"
    run(
        spark,
        f"CREATE TABLE {events} (level STRING, event_time TIMESTAMP, message STRING, call_stack ARRAY<STRING>) "
        "USING iceberg PARTITIONED BY (days(event_time))",
        f"INSERT INTO {events} VALUES ('ERROR', TIMESTAMP '2021-04-01 10:00:00', 'a', array('f', 'g')), "
        "('ERROR', TIMESTAMP '2021-04-02 11:00:00', 'b', array('f')), "
        "('WARN', TIMESTAMP '2021-04-02 12:00:00', 'c', null)",
        f"INSERT INTO {events} VALUES ('ERROR', TIMESTAMP '2021-04-01 13:00:00', 'd', array())",
    )
    assert rows(spark, f"SELECT message, call_stack FROM {events}") == [
        ("a", ["f", "g"]),
        ("b", ["f"]),
        ("c", None),
        ("d", []),
    ]
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        metadata = catalog.load_table(events).metadata
        manifests = catalog.manifests()
        current = metadata.current_snapshot
        assert current is not None
        files = [entry.data_file for entry in manifests.entries(manifests.list(current))]
        parameters = catalog.pointer(events).parameters
    assert sorted(file.partition["event_time_day"] for file in files) == [18718, 18718, 18719]
    assert [file.record_count for file in files if file.partition["event_time_day"] == 18719] == [2]
    assert len(metadata.snapshots) == 2
    assert parameters["table_type"].upper() == "ICEBERG"
    assert (parameters["numFiles"], parameters["numRows"], parameters["snapshot-count"]) == ("3", "4", "2")
    hits = rows(
        spark, f"SELECT count(DISTINCT _file) FROM {events} WHERE event_time >= TIMESTAMP '2021-04-02 00:00:00'"
    )
    assert hits == [(1,)]


def test_a_table_is_read_as_of_a_snapshot_and_as_of_a_time(spark: Any, table: str) -> None:
    first, second, third = numbers(spark, table)
    assert rows(spark, f"SELECT n FROM {table} VERSION AS OF {second}") == [(1,), (2,)]
    made = spark.sql(f"SELECT made_current_at FROM {table}.history ORDER BY 1").collect()
    assert rows(spark, f"SELECT n FROM {table} TIMESTAMP AS OF '{made[0][0]}'") == [(1,)]
    before = made[0][0] - datetime.timedelta(days=1)
    assert (
        "Cannot find a snapshot older than"
        in outcome(spark, f"SELECT n FROM {table} TIMESTAMP AS OF '{before}'").message
    )
    frame = spark.read.option("versionAsOf", first).table(table)
    assert [tuple(row) for row in frame.collect()] == [(1,)]
    added = spark.read.format("iceberg").option("start-snapshot-id", first).option("end-snapshot-id", third).load(table)
    assert sorted(row[0] for row in added.collect()) == [2, 3]
    assert outcome(spark, f"SELECT n FROM {table} VERSION AS OF 1").error is not None


def test_rollback_and_forward_again(spark: Any, table: str) -> None:
    first, second, third = numbers(spark, table)
    run(spark, f"CALL spark_catalog.system.rollback_to_snapshot('{table}', {first})")
    assert rows(spark, f"SELECT n FROM {table}") == [(1,)]
    run(spark, f"CALL spark_catalog.system.set_current_snapshot('{table}', {third})")
    assert rows(spark, f"SELECT n FROM {table}") == [(1,), (2,), (3,)]
    moment = spark.sql(f"SELECT committed_at FROM {table}.snapshots WHERE snapshot_id = {second}").collect()[0][0]
    run(
        spark,
        f"CALL spark_catalog.system.rollback_to_timestamp('{table}', TIMESTAMP '{moment}' + INTERVAL 1 MILLISECOND)",
    )
    assert rows(spark, f"SELECT n FROM {table}") == [(1,), (2,)]
    run(spark, f"INSERT INTO {table} VALUES (4)")
    assert rows(spark, f"SELECT n FROM {table}") == [(1,), (2,), (4,)]
    run(spark, f"CALL spark_catalog.system.cherrypick_snapshot('{table}', {third})")
    assert rows(spark, f"SELECT n FROM {table}") == [(1,), (2,), (3,), (4,)]
    assert (third, False) in rows(spark, f"SELECT snapshot_id, is_current_ancestor FROM {table}.history")


def test_a_rollback_to_a_snapshot_of_elsewhere_changes_nothing(spark: Any, table: str) -> None:
    numbers(spark, table, 2)
    refused = outcome(spark, f"CALL spark_catalog.system.rollback_to_snapshot('{table}', 12345)")
    assert refused.error is not None
    assert rows(spark, f"SELECT n FROM {table}") == [(1,), (2,)]


def test_branches_and_tags(spark: Any, table: str) -> None:
    first, second = numbers(spark, table, 2)
    run(
        spark,
        f"ALTER TABLE {table} CREATE TAG one AS OF VERSION {first} RETAIN 30 DAYS",
        f"ALTER TABLE {table} CREATE BRANCH side AS OF VERSION {first} RETAIN 7 DAYS "
        "WITH SNAPSHOT RETENTION 2 SNAPSHOTS",
        f"INSERT INTO {table}.branch_side VALUES (10)",
    )
    assert rows(spark, f"SELECT n FROM {table}") == [(1,), (2,)]
    assert rows(spark, f"SELECT n FROM {table}.branch_side") == [(1,), (10,)]
    assert rows(spark, f"SELECT n FROM {table} VERSION AS OF 'side'") == [(1,), (10,)]
    assert rows(spark, f"SELECT n FROM {table}.tag_one") == [(1,)]
    refs = rows(spark, f"SELECT name, type, max_reference_age_in_ms, min_snapshots_to_keep FROM {table}.refs")
    assert refs == [
        ("main", "BRANCH", None, None),
        ("one", "TAG", 30 * 86_400_000, None),
        ("side", "BRANCH", 7 * 86_400_000, 2),
    ]
    assert outcome(spark, f"ALTER TABLE {table} CREATE TAG one").error is not None
    run(
        spark,
        f"ALTER TABLE {table} CREATE OR REPLACE BRANCH side AS OF VERSION {second}",
        f"INSERT INTO {table}.branch_side VALUES (20)",
        f"CALL spark_catalog.system.fast_forward('{table}', 'main', 'side')",
        f"ALTER TABLE {table} DROP BRANCH side",
        f"ALTER TABLE {table} DROP TAG one",
    )
    assert rows(spark, f"SELECT n FROM {table}") == [(1,), (2,), (20,)]
    assert rows(spark, f"SELECT name FROM {table}.refs") == [("main",)]


def test_maintenance_procedures(spark: Any, table: str) -> None:
    run(spark, f"CREATE TABLE {table} (id INT, day STRING) USING iceberg PARTITIONED BY (day)")
    for n in range(6):
        run(spark, f"INSERT INTO {table} VALUES ({n}, 'd{n % 2}')")
    rewritten = rows(
        spark,
        f"CALL spark_catalog.system.rewrite_data_files(table => '{table}', options => map('min-input-files', '2'))",
    )
    assert rewritten[0][:2] == (6, 2)
    run(spark, f"CALL spark_catalog.system.rewrite_manifests('{table}')")
    assert rows(spark, f"SELECT sum(record_count), count(*) FROM {table}.files") == [(6, 2)]
    head = snapshots(spark, table)[-1]
    ancestors = rows(spark, f"CALL spark_catalog.system.ancestors_of('{table}')")
    assert len(ancestors) == 8
    run(
        spark,
        f"CALL spark_catalog.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01', "
        "retain_last => 1)",
    )
    assert snapshots(spark, table) == [head]
    assert rows(spark, f"SELECT count(*), count(DISTINCT id) FROM {table}") == [(6, 6)]
    assert rows(spark, f"CALL spark_catalog.system.remove_orphan_files(table => '{table}', dry_run => true)") == []


def test_files_of_a_hive_table_are_added_to_an_iceberg_table(spark: Any, namespace: str) -> None:
    run(
        spark,
        f"CREATE TABLE {namespace}.hive (id INT, name STRING) STORED AS PARQUET",
        f"INSERT INTO {namespace}.hive VALUES (1, 'one'), (2, 'two')",
        f"CREATE TABLE {namespace}.ice (id INT, name STRING) USING iceberg",
        f"CALL spark_catalog.system.add_files(table => '{namespace}.ice', source_table => '{namespace}.hive')",
        f"CALL spark_catalog.system.snapshot('{namespace}.hive', '{namespace}.shadow')",
    )
    assert rows(spark, f"SELECT * FROM {namespace}.ice") == [(1, "one"), (2, "two")]
    assert rows(spark, f"SELECT * FROM {namespace}.shadow") == [(1, "one"), (2, "two")]
    assert rows(spark, f"SELECT * FROM {namespace}.hive") == [(1, "one"), (2, "two")]


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_merge_update_and_delete(spark: Any, table: str, version: int, mode: str) -> None:
    run(
        spark,
        f"CREATE TABLE {table} (id INT, v STRING) USING iceberg TBLPROPERTIES ('format-version' = '{version}', "
        f"'write.merge.mode' = '{mode}', 'write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}')",
        f"INSERT INTO {table} SELECT id, 'old' FROM range(10)",
        f"UPDATE {table} SET v = 'updated' WHERE id = 3",
        f"DELETE FROM {table} WHERE id IN (4, 5)",
        f"MERGE INTO {table} t USING (SELECT 6 AS id, 'merged' AS v UNION ALL SELECT 20, 'new' "
        "UNION ALL SELECT 7, null) s "
        "ON t.id = s.id WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT *",
        f"DELETE FROM {table} WHERE id > 100",
    )
    assert rows(spark, f"SELECT * FROM {table} WHERE v <> 'old'") == [(3, "updated"), (6, "merged"), (20, "new")]
    assert rows(spark, f"SELECT id FROM {table} WHERE v = 'old'") == [(0,), (1,), (2,), (8,), (9,)]
    deletes = spark.sql(f"SELECT * FROM {table}.delete_files").count()
    assert (deletes > 0) is (mode == "merge-on-read")
    run(
        spark,
        f"CALL spark_catalog.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))",
    )
    assert rows(spark, f"SELECT count(*) FROM {table}") == [(8,)]


def test_the_schema_changes_in_place(spark: Any, table: str) -> None:
    run(
        spark,
        f"CREATE TABLE {table} (id INT, name STRING, place STRUCT<city: STRING, zip: INT>, "
        "price DECIMAL(5, 2)) USING iceberg",
        f"INSERT INTO {table} VALUES (1, 'one', named_struct('city', 'a', 'zip', 1), 1.50)",
        f"ALTER TABLE {table} ADD COLUMN score FLOAT COMMENT 'points' AFTER id",
        f"ALTER TABLE {table} ADD COLUMN place.country STRING",
        f"ALTER TABLE {table} RENAME COLUMN name TO label",
        f"ALTER TABLE {table} RENAME COLUMN place.zip TO code",
        f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT",
        f"ALTER TABLE {table} ALTER COLUMN price TYPE DECIMAL(10, 2)",
        f"ALTER TABLE {table} ALTER COLUMN label FIRST",
        f"ALTER TABLE {table} ALTER COLUMN label COMMENT 'what it is called'",
        f"INSERT INTO {table} VALUES ('two', 2, 0.5, named_struct('city', 'b', 'code', 2, 'country', 'nz'), 20000.25)",
    )
    found = rows(
        spark, f"SELECT label, id, score, place.city, place.code, place.country, CAST(price AS STRING) FROM {table}"
    )
    assert found == [("one", 1, None, "a", 1, None, "1.50"), ("two", 2, 0.5, "b", 2, "nz", "20000.25")]
    run(spark, f"ALTER TABLE {table} DROP COLUMN place.code", f"ALTER TABLE {table} DROP COLUMN score")
    assert spark.table(table).columns == ["label", "id", "place", "price"]
    run(spark, f"ALTER TABLE {table} ADD COLUMN score FLOAT")
    assert rows(spark, f"SELECT score FROM {table}") == [(None,), (None,)]
    assert outcome(spark, f"ALTER TABLE {table} ALTER COLUMN id TYPE INT").error is not None
    assert outcome(spark, f"ALTER TABLE {table} RENAME COLUMN nothing TO more").error is not None
    assert rows(spark, f"SELECT label, id FROM {table}") == [("one", 1), ("two", 2)]


def test_the_partitioning_changes_in_place(spark: Any, table: str) -> None:
    run(
        spark,
        f"CREATE TABLE {table} (id INT, at TIMESTAMP, level STRING) USING iceberg PARTITIONED BY (days(at))",
        f"INSERT INTO {table} VALUES (1, TIMESTAMP '2021-04-01 10:00:00', 'WARN')",
        f"ALTER TABLE {table} ADD PARTITION FIELD level",
        f"INSERT INTO {table} VALUES (2, TIMESTAMP '2021-04-01 11:00:00', 'WARN')",
        f"ALTER TABLE {table} REPLACE PARTITION FIELD days(at) WITH hours(at) AS at_hour",
        f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id) AS shard",
        f"INSERT INTO {table} VALUES (3, TIMESTAMP '2021-04-01 12:00:00', 'INFO')",
        f"ALTER TABLE {table} DROP PARTITION FIELD shard",
        f"ALTER TABLE {table} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY level, id DESC",
        f"INSERT INTO {table} VALUES (4, TIMESTAMP '2021-04-02 12:00:00', 'INFO')",
    )
    assert rows(spark, f"SELECT id FROM {table}") == [(1,), (2,), (3,), (4,)]
    assert rows(spark, f"SELECT id FROM {table} WHERE at < TIMESTAMP '2021-04-02' AND level = 'WARN'") == [(1,), (2,)]
    # Without the bucket the spec is the third one again.
    assert rows(spark, f"SELECT spec_id, count(*) FROM {table}.files GROUP BY 1") == [(0, 1), (1, 1), (2, 1), (3, 1)]
    orders = rows(spark, f"SELECT sort_order_id FROM {table}.files")
    assert orders[-1] != (0,)


def test_create_table_as_and_replace_table_as(spark: Any, metastore: Any, table: str) -> None:
    run(spark, f"CREATE TABLE {table} USING iceberg PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(4)")
    row = interop.metastore_row(metastore, table)
    owned = row.parameters["iceberg-hms.owned-folder"]
    assert same_folder(owned, row.sd.location), "Spark sent back what the server had signed"
    assert "iceberg-hms.stage-proof" not in row.parameters
    assert rows(spark, f"SELECT * FROM {table}") == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert outcome(spark, f"CREATE TABLE {table} USING iceberg AS SELECT 1").error == "TABLE_OR_VIEW_ALREADY_EXISTS"
    before = snapshots(spark, table)
    run(spark, f"REPLACE TABLE {table} USING iceberg AS SELECT 'a' AS letter")
    assert rows(spark, f"SELECT * FROM {table}") == [("a",)]
    assert snapshots(spark, table)[: len(before)] == before
    assert rows(spark, f"SELECT count(*) FROM {table} VERSION AS OF {before[0]}") == [(4,)]
    run(spark, f"CREATE OR REPLACE TABLE {table} (n INT) USING iceberg")
    assert rows(spark, f"SELECT * FROM {table}") == []
    run(spark, f"CREATE OR REPLACE TABLE {table}_new USING iceberg AS SELECT 1 AS one")
    assert rows(spark, f"SELECT * FROM {table}_new") == [(1,)]


def test_a_create_table_as_that_fails_leaves_no_table(spark: Any, table: str) -> None:
    failed = outcome(spark, f"CREATE TABLE {table} USING iceberg AS SELECT raise_error('no') AS x FROM range(3)")
    assert failed.error is not None
    assert outcome(spark, f"SELECT * FROM {table}").error == "TABLE_OR_VIEW_NOT_FOUND"
    run(spark, f"CREATE TABLE {table} USING iceberg AS SELECT 1 AS x")
    assert rows(spark, f"SELECT * FROM {table}") == [(1,)]


def test_rename_in_a_database_and_to_another(spark: Any, metastore: Any, namespace: str) -> None:
    numbers(spark, f"{namespace}.a", 1)
    run(spark, f"ALTER TABLE {namespace}.a RENAME TO {namespace}.b", f"CREATE DATABASE {namespace}_two")
    assert rows(spark, f"SELECT * FROM {namespace}.b") == [(1,)]
    assert outcome(spark, f"SELECT * FROM {namespace}.a").error == "TABLE_OR_VIEW_NOT_FOUND"
    run(spark, f"ALTER TABLE {namespace}.b RENAME TO {namespace}_two.c")
    run(spark, f"INSERT INTO {namespace}_two.c VALUES (2)")
    assert rows(spark, f"SELECT * FROM {namespace}_two.c") == [(1,), (2,)]
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        assert [str(name) for name in catalog.list_tables(f"{namespace}_two")] == [f"{namespace}_two.c"]
        assert catalog.list_tables(namespace) == []


def test_drop_leaves_the_files_and_purge_does_not(spark: Any, metastore: Any, namespace: str) -> None:
    for name in ("kept", "purged"):
        numbers(spark, f"{namespace}.{name}", 2)
    folder = Path(metastore.warehouse.removeprefix("file:")) / f"{namespace}.db"
    metadata = sorted((folder / "kept" / "metadata").glob("*.metadata.json"))[-1]
    run(spark, f"DROP TABLE {namespace}.kept", f"DROP TABLE {namespace}.purged PURGE")
    assert len(list((folder / "kept" / "data").glob("*.parquet"))) == 2
    assert [path for path in (folder / "purged").rglob("*") if path.suffix in (".parquet", ".json", ".avro")] == []
    for name in ("kept", "purged"):
        assert outcome(spark, f"SELECT * FROM {namespace}.{name}").error == "TABLE_OR_VIEW_NOT_FOUND"
    run(spark, f"CALL spark_catalog.system.register_table('{namespace}.back', 'file:{metadata}')")
    assert rows(spark, f"SELECT * FROM {namespace}.back") == [(1,), (2,)]


def test_every_metadata_table_can_be_read(spark: Any, table: str) -> None:
    numbers(spark, table, 2)
    counts = {
        name: spark.sql(f"SELECT * FROM {table}.{name}").count()
        for name in (
            "history",
            "metadata_log_entries",
            "snapshots",
            "entries",
            "files",
            "manifests",
            "partitions",
            "all_data_files",
            "all_manifests",
            "refs",
            "data_files",
            "delete_files",
            "all_entries",
            "position_deletes",
        )
    }
    assert counts == {
        "history": 2,
        "metadata_log_entries": 3,
        "snapshots": 2,
        "entries": 2,
        "files": 2,
        "manifests": 2,
        "partitions": 1,
        "all_data_files": 2,
        "all_manifests": 3,
        "refs": 1,
        "data_files": 2,
        "delete_files": 0,
        "all_entries": 2,
        "position_deletes": 0,
    }


def test_insert_overwrite_and_truncate(spark: Any, table: str) -> None:
    run(
        spark,
        f"CREATE TABLE {table} (id INT, p INT) USING iceberg PARTITIONED BY (p)",
        f"INSERT INTO {table} VALUES (1, 1), (2, 2)",
        f"INSERT OVERWRITE {table} PARTITION (p = 2) SELECT 20",
    )
    assert rows(spark, f"SELECT * FROM {table}") == [(1, 1), (20, 2)]
    spark.table(table).filter("id = 1").selectExpr("id + 100 AS id", "p").writeTo(table).overwritePartitions()
    assert rows(spark, f"SELECT * FROM {table}") == [(20, 2), (101, 1)]
    run(spark, f"TRUNCATE TABLE {table}")
    assert rows(spark, f"SELECT * FROM {table}") == []


def test_table_properties_are_set_and_unset(spark: Any, table: str) -> None:
    run(
        spark,
        f"CREATE TABLE {table} (n INT) USING iceberg COMMENT 'a table' TBLPROPERTIES ('a' = '1')",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('b' = '2')",
        f"ALTER TABLE {table} UNSET TBLPROPERTIES ('a')",
    )
    shown = dict(rows(spark, f"SHOW TBLPROPERTIES {table}"))
    assert shown["b"] == "2"
    assert "a" not in shown
    assert ("Comment", "a table", "") in rows(spark, f"DESCRIBE EXTENDED {table}")
    assert outcome(spark, f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '1')").error is not None


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_format_version_is_created_written_and_upgraded(spark: Any, table: str, version: int) -> None:
    run(
        spark,
        f"CREATE TABLE {table} (n INT) USING iceberg TBLPROPERTIES ('format-version' = '{version}')",
        f"INSERT INTO {table} VALUES (1)",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')",
        f"INSERT INTO {table} VALUES (2)",
        f"DELETE FROM {table} WHERE n = 1",
    )
    assert rows(spark, f"SELECT n FROM {table}") == [(2,)]
    assert rows(spark, f"SELECT n, _row_id IS NOT NULL FROM {table}") == [(2, True)]
