"""What Spark's tables are as Iceberg tables, by the rows that Spark really makes in a metastore."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.coordinator.hive_ports import HiveRow
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.source import MigrationSource
from integration.migration.hive_tables import DAYS, MONTHS, STORED_AS, flights_statements, write_flights
from integration.spark_fixtures import run_elsewhere
from integration.spark_statements import outcome

pytestmark = pytest.mark.slow


class Rows:
    """The rows of one database, and their partitions."""

    def __init__(self, metastore: Any, namespace: str) -> None:
        self._catalog = iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse)
        self._namespace = namespace

    def row(self, table: str) -> HiveRow:
        return self._catalog.services.hive_tables.load_row(TableName(self._namespace, table))

    def source(self, table: str) -> MigrationSource:
        return MigrationSource.of(self.row(table), ignored=["char(n)"])

    def folders(self, table: str) -> dict[str, Any]:
        """Name of a partition -> its values."""
        source = self.source(table)
        found = source.folders(self._catalog.services.hive_tables.partitions(source.row), Problems())
        assert {each.file_format for each in found} == {source.file_format}
        return {each.name: each.values for each in found}

    def metadata(self, table: str) -> TableMetadata:
        return self._catalog.load_table(f"{self._namespace}.{table}").metadata

    def close(self) -> None:
        self._catalog.close()


@pytest.fixture
def rows(metastore: Any, namespace: str) -> Iterator[Rows]:
    rows = Rows(metastore, namespace)
    yield rows
    rows.close()


def run(spark: Any, *statements: str) -> None:
    for statement in statements:
        done = outcome(spark, statement)
        assert done.error is None, done


def fields(source: MigrationSource) -> dict[str, str]:
    return {field.name: str(field.type) for field in source.schema.fields}


KINDS = ("MANAGED_TABLE", "EXTERNAL_TABLE")


@pytest.mark.parametrize(("stored_as", "kind"), list(product(STORED_AS, KINDS)))
def test_flights_have_their_columns_and_partitions(
    spark: Any, namespace: str, rows: Rows, flights_csv: Path, tmp_path: Path, stored_as: str, kind: str
) -> None:
    location = f"file:{tmp_path}/flights" if kind == "EXTERNAL_TABLE" else None
    assert write_flights(spark, flights_csv, f"{namespace}.flights", stored_as, location=location) > 1_000
    source = rows.source("flights")
    assert (source.row.table_type, source.file_format) == (kind, stored_as.split()[-1].lower())
    if location is not None:
        assert source.location == location
    names = {"INT": "int", "STRING": "string", "BIGINT": "long"}
    sparks = {
        each.name: names.get(each.dataType.simpleString().upper())
        for each in spark.table(f"{namespace}.flights").schema
    }
    if "time_hour" in sparks:
        sparks["time_hour"] = "timestamp" if source.file_format == "orc" else "timestamptz"
    assert fields(source) == sparks
    assert list(sparks)[-2:] == ["month", "day"]
    assert rows.folders("flights") == {
        f"month={month}/day={day}": {"month": month, "day": day} for month in MONTHS for day in DAYS
    }


def test_a_plain_session_makes_the_same_table(
    metastore: Any, namespace: str, rows: Rows, flights_csv: Path, tmp_path: Path
) -> None:
    statements = flights_statements(flights_csv, f"{namespace}.flights", "STORED AS AVRO", days=[9])
    outcomes = run_elsewhere(metastore, "plain", statements, tmp_path)
    assert [each.error for each in outcomes] == [None] * len(statements), outcomes
    assert rows.source("flights").file_format == "avro"
    assert list(rows.folders("flights")) == ["month=1/day=9", "month=2/day=9"]


def test_a_table_has_sparks_names_in_hives_columns_and_where_hive_has_none(
    spark: Any, namespace: str, rows: Rows
) -> None:
    run(
        spark,
        f"CREATE TABLE {namespace}.hives (Id TINYINT, Place STRUCT<Lat: DOUBLE, `E mail`: STRING>, Code CHAR(3)) "
        "PARTITIONED BY (Region VARCHAR(20)) STORED AS PARQUET",
        f"CREATE TABLE {namespace}.sparks (Region STRING, Id SMALLINT, `a,b` STRUCT<`e-mail`: INT>, At TIMESTAMP_NTZ) "
        "USING parquet PARTITIONED BY (Region)",
        f"INSERT INTO {namespace}.hives VALUES (1, NULL, 'abc', 'north/east'), (2, NULL, 'x', NULL)",
        f"INSERT INTO {namespace}.sparks VALUES (1, NULL, NULL, 'north/east'), (2, NULL, NULL, NULL)",
    )
    hives, sparks = rows.source("hives").schema, rows.source("sparks").schema
    assert list(hives.names()) == ["Id", "Place", "Place.Lat", "Place.E mail", "Code", "Region"]
    assert list(sparks.names()) == ["Id", "a,b", "a,b.e-mail", "At", "Region"]
    assert [str(field.type) for field in hives.fields if field.name != "Place"] == ["int", "string", "string"]
    assert [str(field.type) for field in sparks.fields if field.name != "a,b"] == ["int", "timestamp", "string"]
    assert [column.name for column in rows.row("hives").columns] == ["id", "place", "code"]
    assert [column.name for column in rows.row("sparks").columns] == ["col"]
    for table in ("hives", "sparks"):
        assert rows.folders(table) == {
            "region=north%2Feast": {"Region": "north/east"},
            "region=__HIVE_DEFAULT_PARTITION__": {"Region": None},
        }


#: A column of each type that both of Spark's dialects have.
EVERY_TYPE = (
    "A BOOLEAN, B TINYINT, C SMALLINT, D INT COMMENT 'of d', E BIGINT, F FLOAT, G DOUBLE, H DECIMAL(7, 2), I DECIMAL, "
    "J STRING, K CHAR(3), L VARCHAR(9), M BINARY, N DATE, O TIMESTAMP, P ARRAY<STRUCT<X: INT, Y: MAP<STRING, DATE>>>, "
    "Q MAP<INT, ARRAY<ARRAY<DECIMAL(38, 18)>>>, R STRUCT<S: STRUCT<T: TINYINT, U: CHAR(2)>>, V INT"
)


@pytest.mark.parametrize(
    "shape",
    [
        f"({EVERY_TYPE}) PARTITIONED BY (Day DATE, Part STRING) STORED AS PARQUET",
        f"({EVERY_TYPE}, Day DATE, Part STRING) USING parquet PARTITIONED BY (Day, Part)",
    ],
    ids=["hives", "sparks"],
)
def test_the_schema_and_the_partitions_are_those_of_icebergs_own_spark_integration(
    spark: Any, namespace: str, rows: Rows, shape: str
) -> None:
    """Field ids too: both give fresh ones. Iceberg's takes the table's comments and names from Spark."""
    run(
        spark,
        f"CREATE TABLE {namespace}.t {shape}",
        f"INSERT INTO {namespace}.t (V, Day, Part) VALUES (1, DATE '2024-01-31', 'x')",
        f"CALL system.snapshot('{namespace}.t', '{namespace}.theirs')",
    )
    theirs = rows.metadata("theirs")
    source = rows.source("t")
    assert source.schema.same_as(theirs.schema), f"{source.schema}\n{theirs.schema}"
    assert source.spec.fields == theirs.spec.fields
    ours, mapping = (json.loads(each["schema.name-mapping.default"]) for each in (source.properties, theirs.properties))
    assert ours == mapping


def test_what_spark_makes_and_cannot_be_migrated_is_refused(spark: Any, namespace: str, rows: Rows) -> None:
    run(
        spark,
        f"CREATE TABLE {namespace}.csvs (a INT) USING csv",
        f"CREATE TABLE {namespace}.texts (a INT) STORED AS TEXTFILE",
        f"CREATE TABLE {namespace}.buckets (a INT) USING parquet CLUSTERED BY (a) INTO 4 BUCKETS",
        f"CREATE TABLE {namespace}.intervals (a INTERVAL DAY TO SECOND) USING parquet",
        f"CREATE VIEW {namespace}.sight AS SELECT 1 AS a",
    )
    for table, message in {
        "csvs": "Spark reads it by csv",
        "texts": "its files are not Parquet, ORC or Avro",
        "buckets": "Iceberg counts buckets by another hash",
        "intervals": "Column a: Iceberg has no type for Spark's 'interval day to second'",
        "sight": "it is a view",
    }.items():
        with pytest.raises(InvalidInput, match=message):
            rows.source(table)
