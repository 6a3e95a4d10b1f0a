"""ORC and Avro files through the Python API: our records beside those of Java's writers, and what engines read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.format.manifests.manifest import DataFile
from integration import interop

COLUMNS = (
    "flag boolean, i int, l bigint, f float, d double, dec decimal(20,3), day date, t timestamp_ntz, tz timestamp, "
    "s string, bin binary, n struct<a:int,b:string>, arr array<int>, m map<string,int>"
)
ROWS = """
    (true, -5, 1099511627776L, float(1.5), -2.25D, 14.200BD, date'1969-12-31',
     timestamp_ntz'1969-12-31 23:59:59.999999', timestamp'2024-02-29 12:00:00.000001Z',
     'a string of more than sixteen', X'00ff', named_struct('a', 1, 'b', 'x'), array(1, null), map('k', 1)),
    (false, 7, 3L, float(2.5), 0.5D, -1.500BD, date'2024-05-01', timestamp_ntz'2024-05-01 00:00:00',
     timestamp'1969-07-20 20:17:40.5Z', 'naïve ☕', X'', named_struct('a', null, 'b', 'y'), array(), map()),
    (null, null, null, null, null, null, null, null, null, null, null, named_struct('a', 2, 'b', null), null, null)
"""
METRICS = ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as connected:
        yield connected


def of_java(spark: Any, table: str) -> dict[str, Any]:
    """The record of a table's only data file."""
    (row,) = spark.sql(f"SELECT * FROM {table}.files").collect()
    return dict(row.asDict())


def ours(catalog: Catalog, table: str, location: str) -> DataFile:
    described = describe(
        location, TableOfFiles(catalog.load_table(table).metadata), lambda path: pa.OSFile(local(path), "rb")
    )
    assert described.has_field_ids
    assert described.extra_columns == ()
    return described.data_file


def local(location: str) -> str:
    return location.removeprefix("file://").removeprefix("file:")


def plain(metrics: Any) -> dict[int, Any] | None:
    return None if metrics is None else {key: bytes(v) if isinstance(v, bytearray) else v for key, v in metrics.items()}


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "mode", ["truncate(16)", *(pytest.param(each, marks=pytest.mark.slow) for each in ("full", "counts", "none"))]
)
def test_an_orc_files_record_is_that_of_javas_writer(
    spark: Any, catalog: Catalog, namespace: str, mode: str, version: int
) -> None:
    """Without timestamps in version 3, where PyIceberg reads none from ORC."""
    table = f"{namespace}.t"
    columns = [each for each in COLUMNS.split(", ") if version == 2 or "timestamp" not in each]
    names = ", ".join(each.split()[0] for each in columns)
    spark.sql(
        f"CREATE TABLE {table} ({', '.join(columns)}) USING iceberg TBLPROPERTIES ('write.format.default'='orc', "
        f"'format-version'='{version}', 'write.metadata.metrics.default'='{mode}')"
    )
    given = ", ".join(each.split()[0] for each in COLUMNS.split(", "))
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ {names} FROM VALUES {ROWS} AS given ({given})")
    theirs = of_java(spark, table)
    found = ours(catalog, table, theirs["file_path"])
    assert (found.file_format, found.record_count) == (theirs["file_format"], theirs["record_count"])
    assert found.file_size_in_bytes == theirs["file_size_in_bytes"]
    assert list(found.split_offsets or []) == list(theirs["split_offsets"] or [])
    for name in METRICS:
        # Java says 0 bytes where the footer says nothing.
        known = {key: value for key, value in (plain(theirs[name]) or {}).items() if value != 0 or "count" in name}
        assert dict(getattr(found, name) or {}) == known, name


def test_an_avro_files_record_is_that_of_javas_writer(spark: Any, catalog: Catalog, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING iceberg TBLPROPERTIES ('write.format.default'='avro')")
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES {ROWS}")
    theirs = of_java(spark, table)
    found = ours(catalog, table, theirs["file_path"])
    assert (found.file_format, found.record_count) == (theirs["file_format"], theirs["record_count"])
    assert found.file_size_in_bytes == theirs["file_size_in_bytes"]
    assert [getattr(found, name) for name in METRICS] == [plain(theirs[name]) or None for name in METRICS]


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_spark_reads_its_own_files_that_we_appended_to_another_table(
    spark: Any, catalog: Catalog, namespace: str, tmp_path: Path, file_format: str
) -> None:
    for name in ("s", "t"):
        spark.sql(
            f"CREATE TABLE {namespace}.{name} ({COLUMNS}) USING iceberg "
            f"TBLPROPERTIES ('write.format.default'='{file_format}')"
        )
    spark.sql(f"INSERT INTO {namespace}.s SELECT /*+ COALESCE(1) */ * FROM VALUES {ROWS}")
    named = tmp_path / "000000_0"
    shutil.copy(local(of_java(spark, f"{namespace}.s")["file_path"]), named)
    catalog.load_table(f"{namespace}.t").append([f"file:{named}"])
    expected = spark.sql(f"SELECT * FROM {namespace}.s ORDER BY i").collect()
    assert spark.sql(f"SELECT * FROM {namespace}.t ORDER BY i").collect() == expected
    for column, value in (("s", "'naïve ☕'"), ("l", "3L"), ("dec", "-1.500BD"), ("day", "date'2024-05-01'")):
        query = f"SELECT i FROM {namespace}.t WHERE {column} = {value}"
        assert [row.i for row in spark.sql(query).collect()] == [7]
    # Of ORC files Java finds no timestamp of the last second before 1970, in tables that Spark wrote either.
    query = f"SELECT i FROM {namespace}.%s WHERE t = timestamp_ntz'1969-12-31 23:59:59.999999'"
    assert spark.sql(query % "t").collect() == spark.sql(query % "s").collect()


def written_by_others(folder: Path) -> dict[str, str]:
    """Files without field ids, as pyarrow and fastavro write them; each with a row of its own."""
    found = {}
    orc.write_table(pa.table({"id": [1], "name": ["orc"], "level": ["a"]}), folder / "1.orc")
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
    with (folder / "2.avro").open("wb") as target:
        fastavro.writer(target, {"type": "record", "name": "t", "fields": fields}, [{"id": 2, "name": "avro"}])
    for name in ("1.orc", "2.avro"):
        path = folder / "level=a" / name
        path.parent.mkdir(exist_ok=True)
        shutil.move(folder / name, path)
        found[name] = f"file:{path}"
    return found


@pytest.mark.parametrize("terms", [None, ["level"]], ids=["unpartitioned", "partitioned"])
@pytest.mark.slow
def test_engines_read_files_without_field_ids_by_the_name_mapping(
    spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path, terms: list[str] | None
) -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("level", pa.string())])
    table = catalog.create_table(f"{namespace}.t", columns, partition_spec=terms)
    files = written_by_others(tmp_path)
    table.append(list(files.values()))
    avro_level = "a" if terms else None
    rows = [{"id": 1, "name": "orc", "level": "a"}, {"id": 2, "name": "avro", "level": avro_level}]
    spark.sql(f"REFRESH TABLE {namespace}.t")
    assert interop.spark_rows(spark, f"SELECT * FROM {namespace}.t") == rows
    assert interop.spark_rows(spark, f"SELECT * FROM {namespace}.t WHERE id = 1") == rows[:1]
    spark.sql(f"DELETE FROM {namespace}.t WHERE id = 2")
    assert interop.pyiceberg_rows(metastore, f"{namespace}.t") == rows[:1]
