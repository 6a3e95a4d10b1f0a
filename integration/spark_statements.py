"""SQL statements in a Spark session, as a program of its own, and what came of each.

    python -m integration.spark_statements < work.json

The work: `kind`, `metastore_uri`, `warehouse`, `settings`, `statements`. The last line of its output: the outcomes.
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """rows: each as text, sorted. error: Spark's error condition, or the exception's type; message: its first line."""

    statement: str
    rows: list[str]
    error: str | None = None
    message: str = ""


def outcome(spark: Any, statement: str) -> Outcome:
    """Run one statement; whatever Spark raises is its outcome."""
    try:
        rows = spark.sql(statement).collect()
    except Exception as error:  # noqa: BLE001 - py4j and Spark raise many types, and any of them is an answer
        condition = getattr(error, "getCondition", lambda: None)()
        # PySpark knows few of Java's exceptions; of others its own text says nothing.
        thrown = getattr(error, "java_exception", None)
        message = str(error) if thrown is None else str(thrown.toString())
        return Outcome(statement, [], condition or type(error).__name__, message.splitlines()[0])
    return Outcome(statement, sorted(str(tuple(row)) for row in rows))


def main(work: dict[str, Any]) -> list[Outcome]:
    from pyspark.sql import SparkSession

    import iceberg_hms.spark

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder
    for key, value in work["settings"].items():
        builder = builder.config(key, value)
    if work["kind"] == "stock":
        pass
    elif work["kind"] == "plain":
        builder = builder.config("spark.hadoop.hive.metastore.uris", work["metastore_uri"])
        builder = builder.config("spark.sql.warehouse.dir", work["warehouse"])
        builder = builder.config("spark.sql.catalogImplementation", "hive")
    else:
        builder = iceberg_hms.spark.configure(
            builder,
            metastore_uri=work["metastore_uri"],
            warehouse=work["warehouse"],
            extensions=work["kind"] == "extensions",
        )
    spark = builder.getOrCreate()
    try:
        return [outcome(spark, statement) for statement in work["statements"]]
    finally:
        spark.stop()


if __name__ == "__main__":
    outcomes = main(json.load(sys.stdin))
    sys.stdout.write(json.dumps([asdict(one) for one in outcomes]) + "\n")
