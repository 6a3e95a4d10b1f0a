"""No statement on a Hive table takes rows from an Iceberg table, and no Hive table is hidden by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.spark_statements import outcome

#: Names that Java's client takes for metadata tables.
METADATA_TABLES = (
    "files",
    "entries",
    "data_files",
    "delete_files",
    "history",
    "metadata_log_entries",
    "snapshots",
    "refs",
    "manifests",
    "partitions",
    "all_data_files",
    "all_manifests",
    "all_entries",
    "position_deletes",
)


def run(spark: Any, namespace: str, *statements: str) -> None:
    for statement in statements:
        found = outcome(spark, statement.replace("DB", namespace))
        assert found.error is None, found


def rows_of(spark: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.table(table).collect())


@pytest.mark.parametrize("drop", ["drop_backup => true", "DROP TABLE"], ids=["in migrate", "afterwards"])
@pytest.mark.parametrize(
    "shape",
    [
        "USING parquet PARTITIONED BY (b)",
        pytest.param("STORED AS PARQUET", marks=pytest.mark.slow),
        pytest.param("USING orc", marks=pytest.mark.slow),
        pytest.param("PARTITIONED BY (b) STORED AS AVRO", marks=pytest.mark.slow),
    ],
)
def test_migrated_rows_outlive_the_hive_table(spark: Any, namespace: str, shape: str, drop: str) -> None:
    run(spark, namespace, f"CREATE TABLE DB.t {shape} AS SELECT * FROM VALUES (1, 'x'), (2, 'y') AS v (a, b)")
    option = f", {drop}" if "=>" in drop else ""
    run(spark, namespace, f"CALL system.migrate(table => 'DB.t'{option})")
    if not option:
        run(spark, namespace, "DROP TABLE DB.t_BACKUP_")
    assert outcome(spark, f"SHOW TABLES IN {namespace}").rows == [f"('{namespace}', 't', False)"]
    assert rows_of(spark, f"{namespace}.t") == [(1, "x"), (2, "y")]


def test_rows_of_a_snapshot_and_of_added_files_outlive_the_hive_table(
    spark: Any, namespace: str, tmp_path: Path
) -> None:
    """The last partition lies outside of the Hive table's folder."""
    run(
        spark,
        namespace,
        "CREATE TABLE DB.one STORED AS PARQUET AS SELECT 1 AS a",
        "CREATE TABLE DB.two (a INT, b STRING) USING parquet PARTITIONED BY (b)",
        f"ALTER TABLE DB.two ADD PARTITION (b = 'far') LOCATION 'file:{tmp_path}/far'",
        "INSERT INTO DB.two PARTITION (b = 'far') SELECT 2",
        "CALL system.snapshot('DB.one', 'DB.ice_one')",
        "CREATE TABLE DB.ice_two (a INT, b STRING) USING iceberg PARTITIONED BY (b)",
        "CALL system.add_files(table => 'DB.ice_two', source_table => 'DB.two')",
        "DROP TABLE DB.one",
        "DROP TABLE DB.two",
    )
    assert outcome(spark, f"SHOW TABLES IN {namespace} LIKE 'one|two'").rows == []
    assert rows_of(spark, f"{namespace}.ice_one") == [(1,)]
    assert rows_of(spark, f"{namespace}.ice_two") == [(2, "far")]


def test_a_hive_table_that_no_iceberg_table_reads_is_dropped_with_its_files(spark: Any, namespace: str) -> None:
    """With them in its folder no managed table could take the name again."""
    run(
        spark,
        namespace,
        "CREATE TABLE DB.ice USING iceberg TBLPROPERTIES ('schema.name-mapping.default' = '[]') AS SELECT 1 AS a",
        "CREATE TABLE DB.staging USING parquet AS SELECT 1 AS a",
        "DROP TABLE DB.staging",
        "CREATE TABLE DB.staging USING parquet AS SELECT 2 AS a",
    )
    assert rows_of(spark, f"{namespace}.staging") == [(2,)]


@pytest.mark.parametrize(
    "name", [METADATA_TABLES[0], *(pytest.param(each, marks=pytest.mark.slow) for each in METADATA_TABLES[1:])]
)
def test_a_hive_table_may_have_the_name_of_a_metadata_table(spark: Any, namespace: str, name: str) -> None:
    run(
        spark,
        namespace,
        f"CREATE TABLE DB.{name} (a INT) USING parquet",
        f"INSERT INTO DB.{name} VALUES (1)",
        f"DESCRIBE DB.{name}",
        f"ALTER TABLE DB.{name} ADD COLUMNS (b INT)",
        "USE DB",
        f"INSERT INTO {name} VALUES (2, 3)",
    )
    try:
        assert rows_of(spark, name) == [(1, None), (2, 3)]
        run(spark, namespace, "CREATE TABLE DB.t USING iceberg AS SELECT 7 AS a")
        assert outcome(spark, f"SELECT count(*) >= 0 FROM {namespace}.t.{name}").rows == ["(True,)"]
        assert outcome(spark, "SELECT * FROM t.snapshots").error == "TABLE_OR_VIEW_NOT_FOUND", "as with type=hive"
        run(spark, namespace, f"DROP TABLE {name}")
    finally:
        run(spark, namespace, "USE default")
