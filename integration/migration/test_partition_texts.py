"""What Spark makes of the texts of partitions, and of names of folders and files: tests/datafiles keeps it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.migration import add_files, migrate
from integration.migration.readers import run
from integration.spark_fixtures import ROOT
from tests.datafiles.test_folder_names import ESCAPES, READ

pytestmark = pytest.mark.slow

RECORD = ROOT / "tests" / "datafiles" / "spark_partition_values.json"


@contextmanager
def configured(spark: Any, **settings: str) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def cast(spark: Any, of: str, texts: list[str]) -> dict[str, str | None]:
    value = f"try_cast(text AS {of})"
    if of == "TIMESTAMP":
        value = f"unix_micros({value})"
    rows = spark.createDataFrame([(each,) for each in texts], "text string").coalesce(1)
    return {row["text"]: row["value"] for row in rows.selectExpr("text", f"CAST({value} AS STRING) AS value").collect()}


def test_the_record_says_what_spark_s_cast_makes_of_each_text(spark: Any) -> None:
    record = json.loads(RECORD.read_text())
    with configured(spark, **{"spark.sql.session.timeZone": record["time-zone"]}):
        found = {of: cast(spark, of, list(values)) for of, values in record["values"].items()}
    # `T10:00:00` is a time of the day on which it is read.
    for values in (*found.values(), *record["values"].values()):
        for text in ("T10:00:00", "10:00:00"):
            values.pop(text, None)
    assert found == record["values"]


def test_a_partition_has_the_value_that_the_cast_gives_its_text(
    spark: Any, metastore: Any, catalog: Any, namespace: str
) -> None:
    from integration.migration.test_odd_tables import add_partition

    for of, text, wanted in (("BOOLEAN", "1", "true"), ("DATE", "2021-4-1 00:00:00", "2021-04-01"), ("INT", " 7", "7")):
        table = f"{namespace}.t_{of.lower()}"
        folder = Path(metastore.warehouse.removeprefix("file:")) / namespace / of
        run(
            spark,
            f"CREATE TABLE {table} (id INT) PARTITIONED BY (p {of}) STORED AS PARQUET",
            f"CREATE TABLE {table}_like (id INT) STORED AS PARQUET LOCATION 'file:{folder}'",
            f"INSERT INTO {table}_like SELECT /*+ COALESCE(1) */ 1",
        )
        add_partition(catalog, metastore, table, text, f"{table}_like", f"file:{folder}")
        query = f"SELECT id, CAST(p AS STRING) FROM {table}"
        before = spark.sql(query).collect()
        assert before == [(1, wanted)]
        assert migrate(spark, table, progress=False).outcome == "done"
        assert spark.sql(query).collect() == before


def test_the_record_says_what_spark_and_hive_make_of_a_folder_s_name(spark: Any) -> None:
    spark_utils = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    hive_utils = spark._jvm.org.apache.hadoop.hive.common.FileUtils
    for text, (sparks, hives) in ESCAPES.items():
        if sparks is None:
            with pytest.raises(Exception, match="out of bounds"):
                spark_utils.unescapePathName(text)
        else:
            assert spark_utils.unescapePathName(text) == sparks, text
        assert hive_utils.unescapePathName(text) == hives, text


def test_the_record_says_which_files_spark_and_hive_read(
    spark: Any, metastore: Any, namespace: str, tmp_path: Path
) -> None:
    spark.range(1).selectExpr("1 AS id").coalesce(1).write.parquet(f"file:{tmp_path}/one")
    (file,) = (tmp_path / "one").glob("part-*.parquet")
    run(
        spark,
        f"CREATE EXTERNAL TABLE {namespace}.t (id INT) PARTITIONED BY (p INT) STORED AS PARQUET "
        f"LOCATION 'file:{tmp_path}/t'",
        *(f"ALTER TABLE {namespace}.t ADD PARTITION (p = {number})" for number, _ in enumerate(READ)),
    )
    for number, name in enumerate(READ):
        shutil.copy(file, tmp_path / "t" / f"p={number}" / name)
    for at, by_spark in enumerate(("true", "false")):
        with configured(spark, **{"spark.sql.hive.convertMetastoreParquet": by_spark}):
            spark.catalog.refreshTable(f"{namespace}.t")
            read = {row["p"] for row in spark.sql(f"SELECT p FROM {namespace}.t").collect()}
        assert read == {number for number, name in enumerate(READ) if READ[name][at]}, by_spark


@pytest.mark.parametrize("column", ["_day", "day"])
def test_files_in_folders_of_hidden_partition_columns_are_added(
    spark: Any, namespace: str, tmp_path: Path, column: str
) -> None:
    table = f"{namespace}.t"
    spark.sql(f"SELECT id, CAST(id % 2 AS INT) AS `{column}` FROM range(4)").write.partitionBy(column).parquet(
        f"file:{tmp_path}/source"
    )
    run(spark, f"CREATE TABLE {table} (id BIGINT, `{column}` INT) USING iceberg PARTITIONED BY (`{column}`)")
    report = add_files(spark, table, f"file:{tmp_path}/source", recursive_directory="true", progress=False)
    assert (report.outcome, report.records) == ("done", 4)
    spark.catalog.refreshTable(table)
    assert sorted(spark.table(table).collect()) == [(each, each % 2) for each in range(4)]
