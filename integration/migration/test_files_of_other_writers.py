"""Hive tables whose files Spark's own writers did not write, or wrote when the table had other columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_hms.errors import CannotMigrate
from iceberg_hms.migration import add_files, migrate, snapshot
from iceberg_hms.migration.report import MigrationReport
from integration.migration.readers import (
    add_java,
    facts_of,
    in_order,
    java_files,
    pyiceberg_files,
    pyiceberg_rows,
    pyiceberg_table,
    rows_of,
    run,
)
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


def test_each_verb_takes_what_every_reader_reads_and_names_what_one_misreads(
    spark: Any, metastore: Any, namespace: str, tmp_path: Path
) -> None:
    """A file in milliseconds, of which Java's filters lose rows."""
    hive, target = f"{namespace}.hive", f"{namespace}.target"
    times = pa.array([1_709_210_096_000], pa.timestamp("ms", "UTC"))
    for name, kind in (("good", pa.timestamp("us", "UTC")), ("bad", times.type)):
        pq.write_table(pa.table({"at": times.cast(kind)}), tmp_path / name)
    run(
        spark,
        f"CREATE EXTERNAL TABLE {hive} (at TIMESTAMP) STORED AS PARQUET LOCATION 'file:{tmp_path}'",
        f"CREATE TABLE {target} (at TIMESTAMP) USING iceberg",
    )
    before = rows_of(spark, hive)
    assert len(before) == 2
    verbs: dict[str, Callable[[], MigrationReport]] = {
        "add_files": lambda: add_files(spark, target, hive, progress=False),
        "snapshot": lambda: snapshot(spark, hive, f"{namespace}.copy", progress=False),
        "migrate": lambda: migrate(spark, hive, progress=False),
    }
    for verb in verbs.values():
        with pytest.raises(CannotMigrate, match="column at is Timestamp milliseconds in UTC") as refused:
            verb()
        (problem,) = refused.value.report.problems
        assert problem.location == f"file:{tmp_path}/bad"
        assert "pyarrow.timestamp('us', 'UTC')" in str(problem.next_step)
    assert (rows_of(spark, hive), rows_of(spark, target)) == (before, [])
    (tmp_path / "bad").unlink()
    for verb in verbs.values():
        assert verb().records == 1
    for name in ("target", "copy", "hive"):
        table = f"{namespace}.{name}"
        assert rows_of(spark, table) == pyiceberg_rows(metastore, table) == [("2024-02-29 12:34:56",)]


WRITERS = {"PARQUET": pq.write_table, "ORC": orc.write_table}


def write_cased(spark: Any, folder: Path, stored_as: str, flights: str) -> None:
    """A file by Spark, whose columns have capital letters. flights: rows of number, carrier and gate, in SQL."""
    rows = spark.sql(
        "SELECT Id, flightNo, named_struct('gateNo', gate) AS Place "
        f"FROM VALUES {flights} AS given (Id, flightNo, gate)"
    )
    rows.coalesce(1).write.format(stored_as.lower()).save(str(folder))


@pytest.mark.parametrize("stored_as", ["PARQUET", "ORC"])
def test_columns_whose_names_differ_by_case_are_found(
    spark: Any, metastore: Any, namespace: str, tmp_path: Path, stored_as: str
) -> None:
    """Hive folds the case of names, which Iceberg's readers tell apart."""
    table, java = f"{namespace}.t", f"{add_java(spark, metastore)}.{namespace}.t"
    write_cased(spark, tmp_path / "one", stored_as, "(1, 'UA 1', 10), (2, NULL, 20)")
    write_cased(spark, tmp_path / "two", stored_as, "(3, 'AA 3', 30)")
    run(
        spark,
        f"CREATE EXTERNAL TABLE {table} (id INT, flightno STRING, place STRUCT<gateno: INT>) "
        f"PARTITIONED BY (p STRING) STORED AS {stored_as} LOCATION 'file:{tmp_path}/table'",
        f"ALTER TABLE {table} ADD PARTITION (p = 'a') LOCATION 'file:{tmp_path}/one' "
        f"PARTITION (p = 'b') LOCATION 'file:{tmp_path}/two'",
        f"INSERT INTO {table} PARTITION (p = 'c') VALUES (4, 'DL 4', named_struct('gateno', 40))",
    )
    expected = [
        ("1", "UA 1", "{10}", "a"),
        ("2", None, "{20}", "a"),
        ("3", "AA 3", "{30}", "b"),
        ("4", "DL 4", "{40}", "c"),
    ]
    assert rows_of(spark, table) == expected
    assert migrate(spark, table, progress=False).records == 4
    assert rows_of(spark, table) == rows_of(spark, java) == expected
    by_pyiceberg = pyiceberg_table(metastore, table).scan().to_arrow().to_pylist()
    assert in_order(tuple(str(each) for each in row.values()) for row in by_pyiceberg) == [
        (row[0], str(row[1]), f"{{'gateno': {row[0]}0}}", row[3]) for row in expected
    ]

    # The bounds are those of the right columns, and readers filter the rows of a file by them.
    (two,) = [path for path in facts_of(spark, table) if "/two/" in path]
    assert pyiceberg_files(metastore, table, "id = 3") == {two}
    assert java_files(spark, metastore, table, "flightno", "equal", "AA 3") == {two}
    assert java_files(spark, metastore, table, "place.gateno", "equal", 30) == {two}
    assert [row[0] for row in spark.sql(f"SELECT id FROM {table} WHERE place.gateno = 20").collect()] == [2]
    found = pyiceberg_table(metastore, table).scan(row_filter="flightno = 'UA 1'", selected_fields=("id",)).to_arrow()
    assert found.to_pydict() == {"id": [1]}

    # A column that is renamed keeps all its names, and what Spark writes again has its own.
    run(
        spark,
        f"ALTER TABLE {table} RENAME COLUMN flightno TO number",
        f"UPDATE {table} SET number = 'UA 2' WHERE id = 2",
    )
    changed = [(row[0], row[1] or "UA 2", row[2], row[3]) for row in expected]
    assert rows_of(spark, table) == rows_of(spark, java) == changed


@pytest.mark.parametrize("stored_as", ["PARQUET", "ORC", "AVRO"])
def test_columns_that_hive_takes_for_one_or_for_none_are_refused(
    spark: Any, metastore: Any, namespace: str, tmp_path: Path, stored_as: str
) -> None:
    """Two that differ by case alone; and any other case in Avro files, where Hive and Spark read nulls."""
    table = f"{namespace}.t"
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "000000_0"
    if stored_as == "AVRO":
        columns = [{"name": name, "type": ["null", "string"], "default": None} for name in ("id", "Name")]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": columns}, [{"id": "1", "Name": "one"}])
    else:
        WRITERS[stored_as](pa.table({"id": ["1"], "Name": ["one"], "NAME": ["two"]}), str(path))
    run(
        spark,
        f"CREATE EXTERNAL TABLE {table} (id STRING, name STRING) STORED AS {stored_as} "
        f"LOCATION 'file:{tmp_path}/files'",
    )
    if stored_as == "AVRO":
        assert rows_of(spark, table) == [("1", None)]
    with pytest.raises(
        CannotMigrate, match="Name .*they tell cases apart" if stored_as == "AVRO" else "NAME is column"
    ):
        migrate(spark, table, progress=False)


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
