"""What chapters call on DataFrames beyond one expression."""

from __future__ import annotations

from typing import Any

#: How long a stream of a few rows may take; seconds.
STREAM_SECONDS = 120
REWRITE_POSITIONS = "spark_catalog.system.rewrite_position_delete_files"
ALL = "map('rewrite-all', 'true')"


def evaluate(spark: Any, expression: str, folder: str) -> Any:
    """The value of a Python expression about the session. Its names: spark, F, Row, and this module's functions."""
    from pyspark.sql import Row, functions

    names = {
        "spark": spark,
        "F": functions,
        "Row": Row,
        "two": lambda: spark.createDataFrame([(1, "x"), (2, "y")], "id INT, name STRING"),
        "one": lambda number, name="z": spark.createDataFrame([(number, name)], "id INT, name STRING"),
        "stream": lambda source, target, **options: stream(spark, source, target, folder, options),
        "registered": lambda *arguments: register(spark, *arguments),
        "rewritten": lambda table: spark.sql(f"CALL {REWRITE_POSITIONS}(table => '{table}', options => {ALL})"),
        "merge": lambda *arguments: merge(spark, *arguments),
        "column_names": lambda name: [column.name for column in spark.catalog.listColumns(name)],
        "listed": lambda *arguments: sorted(each.name for each in spark.catalog.listTables(*arguments)),
    }
    return eval(expression, names)  # the chapters are our own


def stream(spark: Any, source: str, target: str, folder: str, options: dict[str, str]) -> Any:
    """Stream what is in one table into another, to its end. The checkpoint is that of the target: a second call goes on
    where the first one ended."""
    reader = spark.readStream.format("iceberg").options(**options).load(source)
    writer = reader.writeStream.format("iceberg").outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint of {target}").toTable(target)
    if not query.awaitTermination(STREAM_SECONDS):
        query.stop()
        raise TimeoutError(f"the stream into {target} did not end")
    return spark.table(target)


def register(spark: Any, source: str, target: str) -> None:
    """Drop a table, and register its last metadata file under another name."""
    last = spark.table(f"{source}.metadata_log_entries").orderBy("timestamp").collect()[-1]["file"]
    spark.sql(f"DROP TABLE {source}")
    spark.sql(f"CALL spark_catalog.system.register_table('{target}', '{last}')")


def merge(spark: Any, target: str, rows: Any) -> Any:
    """`DataFrame.mergeInto`: update rows of the same id, and insert the others."""
    from pyspark.sql import functions

    frame = rows.alias("s")
    condition = functions.expr(f"{target.rpartition('.')[2]}.id = s.id")
    frame.mergeInto(target, condition).whenMatched().updateAll().whenNotMatched().insertAll().merge()
    return spark.table(target)
