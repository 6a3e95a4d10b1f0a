"""Real flights in Hive tables of Spark's become Iceberg tables: other engines read the same rows, of the same files."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.migration import MigrationReport, migrate
from integration.migration.hive_tables import DAYS, MONTHS, STORED_AS, write_flights
from integration.migration.readers import (
    FACTS,
    add_java,
    facts_of,
    java_files,
    pyiceberg_files,
    pyiceberg_rows,
    rows_of,
    run,
)

pytestmark = pytest.mark.slow

KINDS = ("managed", "external")


def write(spark: Any, csv: Path, table: str, stored_as: str, kind: str, folder: Path) -> int:
    location = f"file:{folder}/flights of {kind} table" if kind == "external" else None
    return write_flights(spark, csv, table, stored_as, location=location)


def migrated(spark: Any, table: str) -> MigrationReport:
    report = migrate(spark, table, progress=False)
    assert (report.outcome, report.problem_count) == ("done", 0)
    return report


def paths_of(spark: Any, table: str, where: str) -> set[str]:
    return {row[0] for row in spark.sql(f"SELECT file_path FROM {table}.files WHERE {where}").collect()}


@pytest.mark.parametrize(("stored_as", "kind"), list(product(STORED_AS, KINDS)))
def test_all_engines_read_the_rows_as_they_were_and_only_the_files_that_they_need(
    spark: Any, metastore: Any, namespace: str, flights_csv: Path, tmp_path: Path, stored_as: str, kind: str
) -> None:
    table = f"{namespace}.flights"
    count = write(spark, flights_csv, table, stored_as, kind, tmp_path)
    before = rows_of(spark, table)
    latest = {
        (row["month"], row["day"]): row["latest"]
        for row in spark.sql(f"SELECT month, day, max(dep_delay) AS latest FROM {table} GROUP BY month, day").collect()
    }
    java = add_java(spark, metastore)

    report = migrated(spark, table)
    assert (report.records, report.files, len(report.partitions)) == (count, len(MONTHS) * len(DAYS), 6)
    assert spark.table(f"{table}.snapshots").count() == 1
    assert rows_of(spark, table) == rows_of(spark, f"{java}.{table}") == before

    of_one_day = paths_of(spark, table, "partition.month = 2 AND partition.day = 3")
    assert len(of_one_day) == 1
    bound = sorted(latest.values())[-2]
    delayed = [
        f"partition.month = {month} AND partition.day = {day}" for (month, day), at in latest.items() if at >= bound
    ]
    # An Avro file has no statistics, so that no filter can do without it.
    is_avro = stored_as.endswith("AVRO")
    of_delays = paths_of(spark, table, "true" if is_avro else " OR ".join(delayed))
    assert len(of_delays) == (6 if is_avro else 2)
    assert java_files(spark, metastore, table, "dep_delay", "greaterThanOrEqual", bound) == of_delays
    assert java_files(spark, metastore, table, "day", "equal", 3) == paths_of(spark, table, "partition.day = 3")
    assert pyiceberg_files(metastore, table, f"dep_delay >= {bound}") == of_delays
    assert pyiceberg_files(metastore, table, "month == 2 and day == 3") == of_one_day
    if not is_avro:
        assert pyiceberg_rows(metastore, table) == before


@pytest.mark.parametrize("stored_as", STORED_AS)
def test_what_is_known_of_each_file_is_what_icebergs_own_spark_finds(
    spark: Any, namespace: str, flights_csv: Path, tmp_path: Path, stored_as: str
) -> None:
    table, theirs = f"{namespace}.flights", f"{namespace}.theirs"
    write(spark, flights_csv, table, stored_as, "managed", tmp_path)
    run(spark, f"CALL spark_catalog.system.snapshot(source_table => '{table}', table => '{theirs}')")
    migrated(spark, table)
    ours, expected = facts_of(spark, table), facts_of(spark, theirs)
    assert ours.keys() == expected.keys()
    assert len(ours) == len(MONTHS) * len(DAYS)
    for path, facts in ours.items():
        if not stored_as.endswith(("ORC", "orc")):
            _take_counts_of_int96(spark, table, facts)
        for name in FACTS:
            assert facts[name] == expected[path][name], (name, path)
        if not stored_as.endswith("AVRO"):
            assert len(facts["lower_bounds"]) == len(facts["upper_bounds"]) >= 16


def _take_counts_of_int96(spark: Any, table: str, facts: dict[str, Any]) -> None:
    """Spark writes timestamps as INT96. Iceberg's Spark knows of such columns the size alone; here they are counted."""
    if not facts["value_counts"]:
        return
    time_hour = spark.table(table).columns.index("time_hour") + 1
    assert facts["value_counts"].pop(time_hour) == facts["record_count"]
    assert facts["null_value_counts"].pop(time_hour, 0) == 0
    assert time_hour not in facts["lower_bounds"]
