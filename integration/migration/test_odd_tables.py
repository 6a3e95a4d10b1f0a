"""Hive tables with odd partitions, and with every type: as Iceberg tables they have the rows that they had."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Partition

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.datafiles.partition_values import HIVE_NULL
from iceberg_hms.errors import CannotMigrate, InvalidInput
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.migration import migrate, undo
from integration.migration.hive_tables import STORED_AS
from integration.migration.readers import add_java, in_order, pyiceberg_files, pyiceberg_rows, rows_of, run

pytestmark = pytest.mark.slow

#: Of one character each that Hive escapes in folders' names, or that means something in a URI; and others.
ODD_TEXTS = [
    *(
        "a b",
        "a/b",
        "50%",
        "a%2Fb",
        "x=y",
        "a:b",
        "a?b",
        "a#b",
        "a+b",
        "a&b",
        "a*b",
        "{x}",
        "[y]",
        "^",
        "~",
        "_x",
        ".x",
    ),
    *("Zürich", "日本", "😀", "\u00e9", "e\u0301"),
    "it's",
    'say "x"',
    "a\\b",
    "a\tb",
    " padded ",
]


def quoted(text: str | None) -> str:
    if text is None:
        return "NULL"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def shape(columns: str, keys: Sequence[str], stored_as: str) -> str:
    """The rest of a CREATE TABLE in the dialect of the format."""
    if stored_as.startswith("STORED"):
        return f"({columns}) PARTITIONED BY ({', '.join(keys)}) {stored_as}"
    names = ", ".join(each.split()[0] for each in keys)
    return f"({columns}, {', '.join(keys)}) {stored_as} PARTITIONED BY ({names})"


def check_migrated(spark: Any, metastore: Any, table: str, before: list[tuple[str | None, ...]]) -> None:
    # What the columns' lengths would change, these rows do not show.
    report = migrate(spark, table, progress=False, ignore_keys=["char(n)", "varchar(n)"])
    assert (report.outcome, report.records) == ("done", len(before))
    assert rows_of(spark, table) == rows_of(spark, f"{add_java(spark, metastore)}.{table}") == before


@pytest.mark.parametrize("stored_as", STORED_AS)
def test_partitions_may_have_any_text_as_their_value(
    spark: Any, metastore: Any, namespace: str, stored_as: str
) -> None:
    table = f"{namespace}.t"
    values = [*ODD_TEXTS, None]
    rows = ", ".join(f"({number}, {quoted(text)})" for number, text in enumerate(values))
    run(
        spark,
        f"CREATE TABLE {table} {shape('id INT', ['p STRING'], stored_as)}",
        f"INSERT INTO {table} PARTITION (p) SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS given (id, p)",
    )
    # Where it reads by Hive's classes, Spark shows the name of the null partition.
    before = in_order((id_, None if p == HIVE_NULL else p) for id_, p in rows_of(spark, table))
    assert len(before) == len({p for _, p in before}) == len(values)
    check_migrated(spark, metastore, table, before)
    paths = {row[0] for row in spark.sql(f"SELECT file_path FROM {table}.files WHERE partition.p = 'a/b'").collect()}
    assert len(paths) == 1
    assert pyiceberg_files(metastore, table, "p == 'a/b'") == paths
    if "AVRO" not in stored_as:
        assert pyiceberg_rows(metastore, table) == before


KEYS = (
    "d DATE",
    "at TIMESTAMP",
    "n DECIMAL(7, 2)",
    "b BOOLEAN",
    "t TINYINT",
    "l BIGINT",
    "v VARCHAR(5)",
    "f DOUBLE",
)
#: By the numbers of the rows.
KEY_ROWS = {
    1: "DATE '2024-02-29', TIMESTAMP '2024-01-31 10:11:12.12345', 12345.6, true, -128Y, 9223372036854775807L, 'x', 2D",
    2: "DATE '0001-01-01', TIMESTAMP '1969-12-31 23:59:59', -0.01, false, 127Y, -9223372036854775808L, 'a b', -1e300D",
    3: "DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59.999999', 0BD, false, 0Y, 0L, 'ü', 0.1D",
    4: "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
}


@pytest.mark.parametrize("stored_as", STORED_AS)
def test_partitions_may_have_values_of_any_type(spark: Any, metastore: Any, namespace: str, stored_as: str) -> None:
    table = f"{namespace}.t"
    # Of a table that it reads by Hive's classes, Spark itself cannot read null as a timestamp's partition.
    rows = {number: row for number, row in KEY_ROWS.items() if number < 4 or stored_as != "STORED AS AVRO"}
    given = ", ".join(f"({number}, {row})" for number, row in rows.items())
    run(
        spark,
        f"CREATE TABLE {table} {shape('id INT', KEYS, stored_as)}",
        f"INSERT INTO {table} PARTITION (d, at, n, b, t, l, v, f) SELECT * FROM VALUES {given}",
    )
    before = rows_of(spark, table)
    assert len(before) == len(rows)
    check_migrated(spark, metastore, table, before)
    for where in ("d = DATE '2024-02-29'", "n = 12345.6", "t = -128", "at < '2024-02-01' AND at > '2024-01-01'"):
        assert [row["id"] for row in spark.sql(f"SELECT id FROM {table} WHERE {where}").collect()] == [1], where


def add_partition(catalog: Any, metastore: Any, table: str, value: str, like: str, folder: str) -> None:
    """Add a partition with a format of its own: `ALTER TABLE ... SET FILEFORMAT` is Hive's alone, and this is the call
    that it makes. like: the table whose format it gets."""
    storage = copy.deepcopy(catalog.services.hive_tables.load_row(TableName(*like.split("."))).table.sd)
    storage.location = folder
    namespace, name = table.split(".")
    pool = ClientPool([metastore.uri])
    try:
        partition = Partition(dbName=namespace, tableName=name, values=[value], parameters={}, sd=storage)
        pool.call_once("add_partition", new_part=partition)
    finally:
        pool.close()


ELSEWHERE = ("PARQUET", "ORC", "AVRO")


@pytest.mark.parametrize("own", ["PARQUET", "ORC", "AVRO"])
def test_partitions_may_have_other_formats_and_lie_elsewhere(
    spark: Any, catalog: Any, metastore: Any, namespace: str, tmp_path: Path, own: str
) -> None:
    table = f"{namespace}.t"
    run(
        spark,
        f"CREATE TABLE {table} (id INT, name STRING) PARTITIONED BY (p STRING) STORED AS {own}",
        f"INSERT INTO {table} PARTITION (p = 'here') VALUES (1, 'one')",
    )
    expected = [("1", "one", "here")]
    for number, each in enumerate(ELSEWHERE, 2):
        other, folder = f"{namespace}.{each.lower()}", f"file:{tmp_path}/folder of {each}"
        run(
            spark,
            f"CREATE EXTERNAL TABLE {other} (id INT, name STRING) STORED AS {each} LOCATION '{folder}'",
            f"INSERT INTO {other} VALUES ({number}, NULL), ({number * 10}, '{each}')",
        )
        add_partition(catalog, metastore, table, each, other, folder)
        expected += [(str(number), None, each), (str(number * 10), each, each)]
    run(spark, f"ALTER TABLE {table} ADD PARTITION (p = 'empty') LOCATION 'file:{tmp_path}/empty'")
    (tmp_path / "empty").mkdir(exist_ok=True)
    check_migrated(spark, metastore, table, in_order(expected))
    formats = spark.sql(f"SELECT partition.p, file_format FROM {table}.files").collect()
    assert {tuple(row) for row in formats} == {("here", own), *((each, each) for each in ELSEWHERE)}


def test_an_orc_partition_whose_timestamps_iceberg_cannot_read_is_refused(
    spark: Any, catalog: Any, metastore: Any, namespace: str, tmp_path: Path
) -> None:
    """In a Parquet table a timestamp has a zone, and in Hive's ORC files it has none: Iceberg reads no such file."""
    table, other, folder = f"{namespace}.t", f"{namespace}.o", f"file:{tmp_path}/orc"
    run(
        spark,
        f"CREATE TABLE {table} (at TIMESTAMP) PARTITIONED BY (p STRING) STORED AS PARQUET",
        f"INSERT INTO {table} PARTITION (p = 'here') VALUES (TIMESTAMP '2024-01-31 10:00:00')",
        f"CREATE EXTERNAL TABLE {other} (at TIMESTAMP) STORED AS ORC LOCATION '{folder}'",
        f"INSERT INTO {other} VALUES (TIMESTAMP '2024-01-31 10:00:00')",
    )
    add_partition(catalog, metastore, table, "orc", other, folder)
    with pytest.raises(CannotMigrate, match=r"partition p=orc.*column at") as caught:
        migrate(spark, table, progress=False)
    assert caught.value.report.problem_count == 1
    row = catalog.services.hive_tables.load_row(TableName(namespace, "t"))
    assert "metadata_location" not in row.parameters


@pytest.mark.parametrize(
    ("type_", "value"), [("DATE", "DATE '0001-01-01'"), ("ARRAY<TIMESTAMP>", "array(TIMESTAMP '1582-10-04 10:00:00')")]
)
def test_orc_files_whose_days_iceberg_would_show_as_others_are_refused(
    spark: Any, namespace: str, type_: str, value: str
) -> None:
    table = f"{namespace}.t"
    run(
        spark,
        f"CREATE TABLE {table} (id INT, old {type_}) STORED AS ORC",
        f"INSERT INTO {table} VALUES (1, {value})",
    )
    before = rows_of(spark, table)
    with pytest.raises(CannotMigrate, match="days before October 15, 1582 in old"):
        migrate(spark, table, progress=False)
    spark.catalog.refreshTable(table)
    assert rows_of(spark, table) == before


#: Column -> its type, its smallest value, its largest one, and one more.
#: No map has two entries: readers give them in any order.
TYPES: dict[str, tuple[str, str, str, str]] = {
    "a": ("BOOLEAN", "false", "true", "true"),
    "b": ("TINYINT", "-128Y", "127Y", "1Y"),
    "c": ("SMALLINT", "-32768S", "32767S", "1S"),
    "d": ("INT", "-2147483648", "2147483647", "1"),
    "e": ("BIGINT", "-9223372036854775808L", "9223372036854775807L", "1L"),
    "f": ("FLOAT", "CAST('-Infinity' AS FLOAT)", "CAST('NaN' AS FLOAT)", "CAST(-0.0 AS FLOAT)"),
    "g": ("DOUBLE", "-1.7976931348623157e308D", "CAST('Infinity' AS DOUBLE)", "4.9e-324D"),
    "h": ("DECIMAL(7, 2)", "-99999.99BD", "99999.99BD", "0.01BD"),
    "i": ("DECIMAL(38, 18)", f"-{'9' * 20}.{'9' * 18}BD", f"{'9' * 20}.{'9' * 18}BD", "0BD"),
    "j": ("STRING", "''", f"'{'x' * 1000}'", "'Zürich 😀'"),
    "k": ("CHAR(3)", "''", "'zzz'", "'é'"),
    "l": ("VARCHAR(9)", "''", "'zzzzzzzzz'", "'a b '"),
    "m": ("BINARY", "X''", f"X'{'FF' * 40}'", "X'00FF'"),
    "n": ("DATE", "DATE '0001-01-01'", "DATE '9999-12-31'", "DATE '1969-12-31'"),
    "o": (
        "TIMESTAMP",
        "TIMESTAMP '0001-01-01 00:00:00'",
        "TIMESTAMP '9999-12-31 23:59:59.999999'",
        # Not in the last second before 1970, of which ORC loses the sign.
        "TIMESTAMP '1969-12-31 23:59:58.5'",
    ),
    "p": (
        "ARRAY<STRUCT<x: INT, y: MAP<STRING, DATE>>>",
        "array()",
        "array(named_struct('x', 1, 'y', map('k', DATE '2024-01-31')), NULL, named_struct('x', 2, 'y', NULL))",
        "array(named_struct('x', NULL, 'y', NULL))",
    ),
    "q": (
        "MAP<STRING, ARRAY<ARRAY<DECIMAL(38, 18)>>>",
        "map()",
        "map('k', array(array(1BD, NULL), array(), NULL))",
        "map('', NULL)",
    ),
    "r": (
        "STRUCT<s: STRUCT<t: TINYINT, u: STRING, v: TIMESTAMP>>",
        "named_struct('s', NULL)",
        "named_struct('s', named_struct('t', 127Y, 'u', 'ä', 'v', TIMESTAMP '2024-01-31 10:00:00'))",
        "named_struct('s', named_struct('t', NULL, 'u', NULL, 'v', NULL))",
    ),
}


def types_of(stored_as: str) -> dict[str, list[str]]:
    """TYPES, as far as tables of a format keep them: in ORC and Avro files Hive and Spark count the days before October
    15, 1582 in another calendar, and so does Hive in Parquet files; Hive stores CHAR without the blanks with which its
    readers pad it; and Java reads no timestamp with a time zone from others' Avro files. stored_as: one of STORED_AS,
    or another text for Hive's own writers."""
    given = {name: list(each) for name, each in TYPES.items()}
    if stored_as not in ("STORED AS PARQUET", "STORED AS ORC", "USING parquet", "USING orc"):
        del given["k"]
    if not stored_as.endswith("parquet") and stored_as != "STORED AS PARQUET":
        given["n"][1], given["o"][1] = "DATE '1582-10-15'", "TIMESTAMP '1582-10-15 00:00:00'"
    if stored_as == "STORED AS AVRO":
        del given["o"]
        given["r"] = [each.replace("TIMESTAMP", "DATE").replace(" 10:00:00", "") for each in given["r"]]
    return given


def test_avros_timestamps_are_named_since_java_reads_none_with_a_zone(spark: Any, catalog: Any, namespace: str) -> None:
    table = f"{namespace}.t"
    run(spark, f"CREATE TABLE {table} (at TIMESTAMP) STORED AS AVRO", f"INSERT INTO {table} VALUES (now())")
    with pytest.raises(CannotMigrate, match=r"column at is timestamp-millis \(long\) in the file and timestamptz"):
        migrate(spark, table, progress=False)


@pytest.mark.parametrize("stored_as", STORED_AS)
def test_every_type_with_its_extremes_and_nulls(spark: Any, metastore: Any, namespace: str, stored_as: str) -> None:
    table = f"{namespace}.t"
    given = types_of(stored_as)
    columns = ", ".join(f"{name} {type_}" for name, (type_, *_) in given.items())
    run(spark, f"CREATE TABLE {table} ({columns}, id INT) {stored_as}")
    # A file each, so that each has bounds of its own.
    for number in range(1, 4):
        run(spark, f"INSERT INTO {table} VALUES ({', '.join(each[number] for each in given.values())}, {number})")
    run(spark, f"INSERT INTO {table} (id) VALUES (4)")
    before = rows_of(spark, table)
    assert len(before) == 4
    check_migrated(spark, metastore, table, before)
    for name, (type_, *values) in given.items():
        assert ids(spark, table, f"{name} IS NULL") == [4], name
        # Avro files have no bounds, and milliseconds alone.
        if "<" not in type_ and "AVRO" not in stored_as:
            for number, value in enumerate(values, 1):
                # A wrong bound makes a reader leave the file out.
                same = f"CAST({value} AS {type_})" if type_ != "CHAR(3)" else f"rpad({value}, 3, ' ')"
                assert number in ids(spark, table, f"{name} = {same}"), (name, value)


def ids(spark: Any, table: str, where: str) -> list[int]:
    return [row["id"] for row in spark.sql(f"SELECT id FROM {table} WHERE {where} ORDER BY id").collect()]


@pytest.mark.parametrize("stored_as", ["STORED AS PARQUET", "USING orc"])
def test_a_table_in_a_folder_with_an_odd_name(
    spark: Any, metastore: Any, catalog: Any, namespace: str, tmp_path: Path, stored_as: str
) -> None:
    table, folder = f"{namespace}.t", tmp_path / "50% 1 a+b ü;x=y %20"
    external = "EXTERNAL " if stored_as.startswith("STORED") else ""
    run(
        spark,
        f"CREATE {external}TABLE {table} {shape('id INT', ['p CHAR(3)'], stored_as)} LOCATION 'file:{folder}/'",
        f"INSERT INTO {table} PARTITION (p) VALUES (1, 'a'), (2, 'abc'), (3, NULL)",
    )
    before = rows_of(spark, table)
    files = {each for each in folder.rglob("*") if each.is_file()}
    assert len({each for each in files if not each.name.startswith((".", "_"))}) == 3
    check_migrated(spark, metastore, table, before)
    undo(catalog, table)
    assert {each for each in folder.rglob("*") if each.is_file()} == files


@pytest.mark.parametrize("name", ["a#b", "a?b"])
def test_a_table_in_a_folder_in_which_pyiceberg_opens_no_file_is_refused(
    spark: Any, namespace: str, tmp_path: Path, name: str
) -> None:
    table = f"{namespace}.t"
    run(
        spark,
        f"CREATE EXTERNAL TABLE {table} (id INT) STORED AS PARQUET LOCATION 'file:{tmp_path}/{name}'",
        f"INSERT INTO {table} VALUES (1)",
    )
    with pytest.raises(CannotMigrate, match="not every reader opens it"):
        migrate(spark, table, progress=False)


@pytest.mark.parametrize("keys", ["", "PARTITIONED BY (p STRING)"], ids=["one folder", "partitions"])
def test_an_empty_table(spark: Any, metastore: Any, catalog: Any, namespace: str, keys: str) -> None:
    table = f"{namespace}.t"
    columns = "id INT" if keys else "id INT, p STRING"
    run(spark, f"CREATE TABLE {table} ({columns}) {keys} STORED AS PARQUET")
    for _ in range(2):
        check_migrated(spark, metastore, table, [])
        assert pyiceberg_rows(metastore, table) == []
        undo(catalog, table)
        spark.catalog.refreshTable(table)
        assert rows_of(spark, table) == []
    check_migrated(spark, metastore, table, [])
    run(spark, f"INSERT INTO {table} VALUES (1, 'a')")
    assert rows_of(spark, table) == pyiceberg_rows(metastore, table) == [("1", "a")]
    with pytest.raises(InvalidInput, match="came after its migration"):
        undo(catalog, table)
