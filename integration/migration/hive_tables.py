"""The flights that left New York City in 2013 as Hive tables, partitioned by month and day, by Spark's SQL.

The statements run in any session: `write_flights` in this process, `spark_fixtures.run_elsewhere` in another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from iceberg_hms.cli.demo.loading import FLIGHTS_COLUMNS, unpack
from integration.spark_statements import outcome

#: How a statement names a format. The first three tables are Hive's own, the others have Spark's schema too.
STORED_AS: Final = ("STORED AS PARQUET", "STORED AS ORC", "STORED AS AVRO", "USING parquet", "USING orc")
#: A few days of each, so that a table is written within seconds.
MONTHS: Final = (1, 2)
DAYS: Final = (1, 2, 3)

_KEYS: Final = ("month", "day")
_PAIRS: Final = [tuple(column.split()) for column in FLIGHTS_COLUMNS.split(", ")]
#: Java reads no timestamp with a time zone from Avro files that Hive and Spark write.
_NOT_IN_AVRO: Final = "time_hour"


def unpack_flights(folder: Path) -> Path:
    """Put the CSV file with all flights into a folder."""
    flights, _ = unpack(folder)
    return flights


def flights_statements(
    csv: Path,
    table: str,
    stored_as: str,
    *,
    location: str | None = None,
    months: Sequence[int] = MONTHS,
    days: Sequence[int] = DAYS,
) -> list[str]:
    """What makes a table and fills it, a file in each partition. table: its full name. stored_as: one of STORED_AS.
    location: of an external table; None: a managed one, in the folder of its database."""
    left_out = {*_KEYS, _NOT_IN_AVRO} if stored_as.endswith("AVRO") else {*_KEYS}
    columns = ", ".join(name for name, _ in _PAIRS if name not in left_out)
    declared = ", ".join(f"{name} {type_}" for name, type_ in _PAIRS if name not in left_out)
    place = "" if location is None else f" LOCATION '{location}'"
    kind = "" if location is None or stored_as.startswith("USING") else "EXTERNAL "
    # The table's columns come before its format in both of Spark's dialects, and the keys' types in one of them only.
    keys = "month INT, day INT"
    if stored_as.startswith("USING"):
        shape = f"({declared}, {keys}) {stored_as} PARTITIONED BY (month, day)"
    else:
        shape = f"({declared}) PARTITIONED BY ({keys}) {stored_as}"
    chosen = f"month IN ({_listed(months)}) AND day IN ({_listed(days)})"
    return [
        f"CREATE OR REPLACE TEMPORARY VIEW flights_csv ({FLIGHTS_COLUMNS}) USING csv "
        f"OPTIONS (path 'file:{csv}', header 'true', nullValue 'NA')",
        f"CREATE {kind}TABLE {table} {shape}{place}",
        f"INSERT INTO {table} PARTITION (month, day) SELECT {columns}, month, day FROM flights_csv WHERE {chosen} "
        "DISTRIBUTE BY month, day",
        "DROP VIEW flights_csv",
    ]


def write_flights(spark: Any, csv: Path, table: str, stored_as: str, **options: Any) -> int:
    """As `flights_statements`, in a session; returns how many flights the table has."""
    for statement in flights_statements(csv, table, stored_as, **options):
        done = outcome(spark, statement)
        assert done.error is None, done
    return int(spark.table(table).count())


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
