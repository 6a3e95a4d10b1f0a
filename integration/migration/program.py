"""A Hive table becomes an Iceberg table and a Hive table again in a Spark session of its own, as a program.

    python -m integration.migration.program < work.json

The work is what `migrate_elsewhere` gives it. The last line of its output: the rows before, while it was an Iceberg
table, and after.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import iceberg_hms
import iceberg_hms.spark
from iceberg_hms.migration import migrate, undo
from integration.migration.readers import rows_of, run
from integration.spark_fixtures import ROOT, SETTINGS

_SECONDS: Final = 400


def migrate_elsewhere(
    metastore: Any,
    folder: Path,
    table: str,
    *,
    statements: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    library: Mapping[str, Any] | None = None,
    reads_hive: bool = True,
    undo: bool = True,
) -> dict[str, Any]:
    """Run this program. folder: for Spark's files. statements: make the table. settings: more of the session's.
    library: more settings of the library. reads_hive: whether Spark can read the Hive table. undo: whether it becomes a
    Hive table again."""
    work = {
        "metastore_uri": metastore.uri,
        "warehouse": metastore.warehouse,
        "table": table,
        "statements": list(statements),
        "settings": {**SETTINGS, "spark.local.dir": str(folder), **(settings or {})},
        "library": dict(library or {}),
        "reads_hive": reads_hive,
        "undo": undo,
    }
    done = subprocess.run(
        [sys.executable, "-m", "integration.migration.program"],
        input=json.dumps(work),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(work: dict[str, Any]) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder
    for key, value in work["settings"].items():
        builder = builder.config(key, value)
    where = {"metastore_uri": work["metastore_uri"], "warehouse": work["warehouse"], **work["library"]}
    table = work["table"]
    spark = iceberg_hms.spark.configure(builder, **where).getOrCreate()
    try:
        with iceberg_hms.connect(**where) as catalog:
            run(spark, *work["statements"])
            found: dict[str, Any] = {"before": rows_of(spark, table)} if work["reads_hive"] else {}
            report = migrate(spark, table, progress=False, catalog=catalog)
            found |= {"iceberg": rows_of(spark, table), "records": report.records, "outcome": report.outcome}
            found["files"] = [row[0] for row in spark.sql(f"SELECT file_path FROM {table}.files").collect()]
            if work["undo"]:
                undo(catalog, table)
                spark.catalog.refreshTable(table)
                found["after"] = rows_of(spark, table)
            return found
    finally:
        spark.stop()


if __name__ == "__main__":
    done = main(json.load(sys.stdin))
    sys.stdout.write(json.dumps(done) + "\n")
