"""A migrated table lives on: Spark changes it, maintenance cleans it, or it becomes the Hive table again. While
it is migrated, programs that read the Hive table see no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import parse
from iceberg_hms.migration import keep, migrate, undo
from integration.migration.readers import add_java, facts_of, in_order, pyiceberg_rows, rows_of, run
from integration.spark_fixtures import run_elsewhere
from integration.spark_statements import outcome

pytestmark = pytest.mark.slow

#: With these settings Hive's own reader goes through all folders of a table.
RECURSIVE = {
    "spark.hadoop.mapreduce.input.fileinputformat.input.dir.recursive": "true",
    "spark.hadoop.hive.mapred.supports.subdirectories": "true",
    "spark.sql.hive.convertMetastoreParquet": "false",
    "spark.sql.hive.convertMetastoreOrc": "false",
}


def make(spark: Any, table: str, stored_as: str = "STORED AS PARQUET") -> list[tuple[str | None, ...]]:
    """A table of four rows in two partitions. Returns its rows."""
    run(
        spark,
        f"CREATE TABLE {table} (id INT, name STRING, at DATE) PARTITIONED BY (p STRING) {stored_as}",
        f"INSERT INTO {table} PARTITION (p) SELECT /*+ COALESCE(1) */ id, name, DATE '2024-01-31', p "
        "FROM VALUES (1, 'one', 'a'), (2, 'two', 'a'), (3, 'three', 'b'), (4, NULL, 'b') AS given (id, name, p)",
    )
    return rows_of(spark, table)


def migrated(spark: Any, table: str) -> None:
    assert migrate(spark, table, progress=False).outcome == "done"


def paths(catalog: Any, table: str) -> set[str]:
    """All that lies in the table's folder."""
    return paths_below(catalog.load_table(table).location())


def paths_below(location: str) -> set[str]:
    folder = Path(parse(location).path)
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() and each.suffix != ".crc"}


MERGE = (
    "MERGE INTO {} t USING (SELECT * FROM VALUES (1, 'merged'), (9, 'nine') AS given (id, name)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name, p) VALUES (s.id, s.name, 'c')"
)


@pytest.mark.parametrize(
    "stored_as",
    ["STORED AS PARQUET", "STORED AS ORC", "STORED AS AVRO"],
)
def test_spark_changes_its_rows_and_its_columns(
    spark: Any, metastore: Any, catalog: Any, namespace: str, stored_as: str
) -> None:
    table = f"{namespace}.t"
    make(spark, table, stored_as)
    migrated(spark, table)
    first = catalog.load_table(table).current_snapshot()
    at = "2024-01-31"
    run(
        spark,
        f"INSERT INTO {table} VALUES (5, 'five', NULL, 'a')",
        f"UPDATE {table} SET name = 'second' WHERE id = 2",
        MERGE.format(table),
        f"DELETE FROM {table} WHERE id = 3",
        f"ALTER TABLE {table} ADD COLUMN more BIGINT AFTER id",
        f"ALTER TABLE {table} RENAME COLUMN name TO label",
        f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT",
        f"INSERT INTO {table} VALUES (6, 60, 'six', NULL, 'b')",
    )
    expected = [
        ("1", None, "merged", at, "a"),
        ("2", None, "second", at, "a"),
        ("4", None, None, at, "b"),
        ("5", None, "five", None, "a"),
        ("6", "60", "six", None, "b"),
        ("9", None, "nine", None, "c"),
    ]
    assert spark.table(table).columns == ["id", "more", "label", "at", "p"]
    assert rows_of(spark, table) == rows_of(spark, f"{add_java(spark, metastore)}.{table}") == in_order(expected)
    if "AVRO" not in stored_as:
        assert pyiceberg_rows(metastore, table) == in_order(expected)
    # The first files, whose columns have the first names and no ids.
    earlier = spark.sql(f"SELECT name FROM {table} VERSION AS OF {first.snapshot_id} WHERE id = 3").collect()
    assert [row["name"] for row in earlier] == ["three"]

    second = catalog.load_table(table).snapshots()[1]
    with pytest.raises(InvalidInput, match=f"the snapshot {second.snapshot_id} .append. came after its migration"):
        undo(catalog, table)
    assert rows_of(spark, table) == in_order(expected)


def test_a_renamed_column_is_read_by_its_first_name_until_a_new_one_gets_that(
    spark: Any, metastore: Any, catalog: Any, namespace: str
) -> None:
    """Where no commit has written its files again."""
    for stored_as in ("PARQUET", "ORC", "AVRO"):
        table = f"{namespace}.{stored_as}"
        before = make(spark, table, f"STORED AS {stored_as}")
        migrated(spark, table)
        run(
            spark,
            f"ALTER TABLE {table} RENAME COLUMN name TO label",
            f"ALTER TABLE {table} DROP COLUMN at",
        )
        names = ("id", "label", "p")
        expected = [(row[0], row[1], row[3]) for row in before]
        assert rows_of(spark, table, *names) == rows_of(spark, f"{add_java(spark, metastore)}.{table}", *names)
        assert rows_of(spark, table, *names) == in_order(expected)
        # Iceberg takes a name from the mapping of the old column when a new column gets it.
        run(spark, f"ALTER TABLE {table} ADD COLUMN name STRING")
        assert {row[0] for row in rows_of(spark, table, "label")} == {None}


@pytest.mark.parametrize("stored_as", ["STORED AS PARQUET", "USING orc"])
def test_it_becomes_the_hive_table_that_plain_spark_read_before(
    spark: Any, metastore: Any, catalog: Any, namespace: str, tmp_path: Path, stored_as: str
) -> None:
    table = f"{namespace}.t"
    if stored_as.startswith("USING"):
        run(
            spark,
            f"CREATE TABLE {table} (id INT, name STRING, p STRING) {stored_as} PARTITIONED BY (p)",
            f"INSERT INTO {table} VALUES (1, 'one', 'a'), (2, NULL, 'b')",
        )
    else:
        make(spark, table, stored_as)
    before = rows_of(spark, table)
    row = catalog.services.hive_tables.load_row(TableName(namespace, "t"))
    migrated(spark, table)
    files = paths(catalog, table)
    run(
        spark,
        f"ALTER TABLE {table} SET TBLPROPERTIES ('colour' = 'red')",
        f"ALTER TABLE {table} ADD COLUMN later INT",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('colour' = 'blue')",
    )
    undo(catalog, table)
    assert paths_below(row.location) == {each for each in files if not each.startswith("_iceberg/")}
    found = catalog.services.hive_tables.load_row(TableName(namespace, "t"))
    changed = {"transient_lastDdlTime"}
    assert {k: v for k, v in found.parameters.items() if k not in changed} == {
        k: v for k, v in row.parameters.items() if k not in changed
    }
    spark.catalog.refreshTable(table)
    assert rows_of(spark, table) == before
    elsewhere = [
        f"SELECT * FROM {table}",
        f"SHOW PARTITIONS {table}",
        f"INSERT INTO {table} PARTITION (p = 'z') SELECT {', '.join(spark.table(table).columns[:-1])} FROM {table} "
        "WHERE id = 1",
        f"SELECT id, p FROM {table} WHERE p = 'z'",
    ]
    said = run_elsewhere(metastore, "plain", elsewhere, tmp_path)
    assert [each.error for each in said] == [None] * len(said), said
    assert len(said[0].rows) == len(before)
    assert said[1].rows == ["('p=a',)", "('p=b',)"]
    assert said[3].rows == ["(1, 'z')"]


def test_what_maintenance_deletes_is_never_live(spark: Any, metastore: Any, catalog: Any, namespace: str) -> None:
    table = f"{namespace}.t"
    make(spark, table)
    migrated(spark, table)
    run(spark, f"DELETE FROM {table} WHERE p = 'b'", f"UPDATE {table} SET name = 'new' WHERE id = 1")
    expected = rows_of(spark, table)
    before = paths(catalog, table)
    refused = outcome(
        spark,
        f"CALL spark_catalog.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01', "
        "retain_last => 1)",
    )
    assert "GC is disabled" in refused.message
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        catalog.load_table(table).expire_snapshots(older_than=LATER, retain_last=1)
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        catalog.load_table(table).remove_orphan_files(older_than=LATER, force=True)
    # Who sets the property alone has no files deleted either.
    run(spark, f"ALTER TABLE {table} SET TBLPROPERTIES ('gc.enabled' = 'true')")
    assert not catalog.load_table(table).expire_snapshots(older_than=LATER, retain_last=1).files.locations
    assert before <= paths(catalog, table)

    keep(catalog, table)
    loaded = catalog.load_table(table)
    assert "gc.enabled" not in loaded.properties or loaded.properties["gc.enabled"] == "true"
    assert "write.metadata.path" not in loaded.properties
    run(spark, f"INSERT INTO {table} VALUES (7, 'seven', NULL, 'a')", f"DELETE FROM {table} WHERE id = 7")
    loaded.refresh()
    loaded.expire_snapshots(older_than=LATER, retain_last=1)
    loaded.remove_orphan_files(older_than=LATER, force=True)
    spark.catalog.refreshTable(table)
    assert rows_of(spark, table) == rows_of(spark, f"{add_java(spark, metastore)}.{table}") == expected
    assert pyiceberg_rows(metastore, table) == expected
    left = paths(catalog, table)
    live = {Path(each).name for each in facts_of(spark, table)}
    assert {Path(each).name for each in left if each.endswith(".parquet")} == live, (
        "what is dead is deleted, once it may be"
    )
    with pytest.raises(InvalidInput, match="given up"):
        undo(catalog, table)


@pytest.mark.parametrize("purge", ["true", None])
def test_a_table_that_is_kept_is_purged_by_drops_if_the_hive_table_was(
    spark: Any, catalog: Any, namespace: str, tmp_path: Path, purge: str | None
) -> None:
    table = f"{namespace}.t"
    properties = "" if purge is None else f"TBLPROPERTIES ('external.table.purge' = '{purge}')"
    run(
        spark,
        f"CREATE EXTERNAL TABLE {table} (id INT) STORED AS PARQUET LOCATION 'file:{tmp_path}/t' {properties}",
        f"INSERT INTO {table} VALUES (1)",
    )
    migrated(spark, table)
    assert catalog.pointer(table).parameters["external.table.purge"] == "false"
    keep(catalog, table)
    assert catalog.pointer(table).parameters.get("external.table.purge") == purge
    assert catalog.load_table(table).properties.get("gc.enabled") == purge


#: In a hundred years.
LATER = 4_900_000_000_000


@pytest.mark.parametrize("stored_as", ["PARQUET", "ORC"])
@pytest.mark.parametrize("partitioned", [True, False], ids=["partitions", "one folder"])
def test_nobody_who_reads_the_hive_table_sees_a_migration(
    spark: Any, metastore: Any, namespace: str, tmp_path: Path, stored_as: str, partitioned: bool
) -> None:
    table = f"{namespace}.t"
    keys = "PARTITIONED BY (p STRING)" if partitioned else ""
    columns = "id INT, name STRING" if partitioned else "id INT, name STRING, p STRING"
    run(
        spark,
        f"CREATE TABLE {table} ({columns}) {keys} STORED AS {stored_as}",
        f"INSERT INTO {table} VALUES (1, 'one', 'a'), (2, 'two', 'b')",
    )
    expected = ["(1, 'one', 'a')", "(2, 'two', 'b')"]
    before = rows_of(spark, table)
    seen: list[tuple[str, list[str]]] = []

    def on_stage(stage: str) -> None:
        if stage in ("described", "staged"):
            spark.catalog.refreshTable(table)
            assert rows_of(spark, table) == before
            for settings in ({}, RECURSIVE):
                (said,) = run_elsewhere(metastore, "plain", [f"SELECT * FROM {table}"], tmp_path, settings)
                assert said.error is None, said
                seen.append((stage, said.rows))

    report = migrate(spark, table, progress=False, on_stage=on_stage)
    assert (report.outcome, report.records) == ("done", 2)
    assert {stage for stage, _ in seen} == {"described", "staged"}
    assert all(rows == expected for _, rows in seen)
    assert rows_of(spark, table) == before
