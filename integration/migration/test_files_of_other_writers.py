"""Hive tables whose files Spark's own writers did not write, or wrote when the table had other columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_hms.errors import CannotMigrate
from iceberg_hms.migration import migrate
from integration.migration.readers import add_java, in_order, pyiceberg_rows, rows_of, run
from integration.migration.test_odd_tables import check_migrated, types_of

pytestmark = pytest.mark.slow


@contextmanager
def session(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """With other settings of the session until the block ends."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


@pytest.mark.parametrize("stored_as", ["PARQUET", "ORC"])
def test_hives_own_writers(spark: Any, metastore: Any, namespace: str, stored_as: str) -> None:
    """Hive's classes give lists and maps other inner levels than Spark's, and no file says that it is theirs."""
    table = f"{namespace}.t"
    given = types_of(f"{stored_as} by Hive")
    columns = ", ".join(f"{name} {type_}" for name, (type_, *_) in given.items())
    by_hive = {f"spark.sql.hive.convertMetastore{each}": "false" for each in ("Parquet", "Orc")}
    with session(spark, by_hive):
        run(spark, f"CREATE TABLE {table} ({columns}, id INT) STORED AS {stored_as}")
        for number in range(1, 4):
            run(spark, f"INSERT INTO {table} VALUES ({', '.join(each[number] for each in given.values())}, {number})")
        run(spark, f"INSERT INTO {table} (id) VALUES (4)")
        before = rows_of(spark, table)
    assert len(before) == 4
    check_migrated(spark, metastore, table, before)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_a_session_in_another_time_zone(spark: Any, metastore: Any, namespace: str, zone: str) -> None:
    table = f"{namespace}.t"
    with session(spark, {"spark.sql.session.timeZone": zone}):
        run(
            spark,
            f"CREATE TABLE {table} (id INT, at TIMESTAMP) PARTITIONED BY (p TIMESTAMP) STORED AS PARQUET",
            f"INSERT INTO {table} PARTITION (p) VALUES "
            "(1, TIMESTAMP '2024-01-31 23:00:00', TIMESTAMP '2024-07-31 23:00:00.5'), "
            "(2, TIMESTAMP '2024-11-03 01:30:00', TIMESTAMP '2024-03-10 03:00:00')",
        )
        before = rows_of(spark, table)
        check_migrated(spark, metastore, table, before)
        assert [row[0] for row in spark.sql(f"SELECT id FROM {table} WHERE p = '2024-03-10 03:00:00'").collect()] == [2]


@pytest.mark.parametrize("stored_as", ["PARQUET", "ORC"])
def test_files_from_before_a_column_was_added(spark: Any, metastore: Any, namespace: str, stored_as: str) -> None:
    table = f"{namespace}.t"
    run(
        spark,
        f"CREATE TABLE {table} (id INT) PARTITIONED BY (p STRING) STORED AS {stored_as}",
        f"INSERT INTO {table} PARTITION (p = 'old') VALUES (1)",
        f"ALTER TABLE {table} ADD COLUMNS (name STRING, place STRUCT<x: INT, y: STRING>)",
        f"INSERT INTO {table} PARTITION (p = 'new') VALUES (2, 'two', named_struct('x', 1, 'y', NULL))",
    )
    check_migrated(spark, metastore, table, in_order([("1", None, None, "old"), ("2", "two", "{1, null}", "new")]))


WRITERS = {"PARQUET": pq.write_table, "ORC": orc.write_table}


@pytest.mark.parametrize("stored_as", WRITERS)
def test_columns_whose_names_differ_in_case_are_never_read_as_nulls(
    spark: Any, metastore: Any, namespace: str, tmp_path: Path, stored_as: str
) -> None:
    """Hive finds a column by its name in any case, and Iceberg by its exact name."""
    table = f"{namespace}.t"
    (tmp_path / "files").mkdir()
    rows = pa.table({"Id": pa.array([1, 2], pa.int32()), "NAME": ["one", None]})
    WRITERS[stored_as](rows, str(tmp_path / "files" / "000000_0"))
    run(
        spark,
        f"CREATE EXTERNAL TABLE {table} (id INT, name STRING) STORED AS {stored_as} LOCATION 'file:{tmp_path}/files'",
    )
    expected = [("1", "one"), ("2", None)]
    assert rows_of(spark, table) == expected
    with pytest.raises(CannotMigrate, match="Id"):
        migrate(spark, table, progress=False)
    assert rows_of(spark, table) == expected


@pytest.mark.parametrize("stored_as", WRITERS)
def test_files_that_carry_the_partition_column_too(
    spark: Any, metastore: Any, namespace: str, tmp_path: Path, stored_as: str
) -> None:
    table = f"{namespace}.t"
    for value, inside in {"a": "a", "b": "z"}.items():
        folder = tmp_path / f"p={value}"
        folder.mkdir()
        rows = pa.table({"id": pa.array([1], pa.int32()), "p": [inside]})
        WRITERS[stored_as](rows, str(folder / "000000_0"))
    run(
        spark,
        f"CREATE EXTERNAL TABLE {table} (id INT) PARTITIONED BY (p STRING) STORED AS {stored_as} "
        f"LOCATION 'file:{tmp_path}'",
        f"ALTER TABLE {table} ADD PARTITION (p = 'a') PARTITION (p = 'b')",
    )
    with pytest.raises(CannotMigrate, match=r"\(partition p=b\)"):
        migrate(spark, table, progress=False)
    run(spark, f"ALTER TABLE {table} DROP PARTITION (p = 'b')")
    java = add_java(spark, metastore)
    assert migrate(spark, table, progress=False).records == 1
    assert (
        rows_of(spark, table) == rows_of(spark, f"{java}.{table}") == pyiceberg_rows(metastore, table) == [("1", "a")]
    )
