"""A Spark session that works without a pause while its server restarts, as a program of its own.

    python -m integration.restless_spark < work.json

The work: `settings` of the session, `database`, `folder`. Prints a line of JSON for each statement that ended: its
kind, when it began and ended (monotonic seconds, the same for all processes of the machine), and its error or null.

    hive, select, insert    a SELECT on a Hive table, a SELECT on and an INSERT into an Iceberg table: each in a loop
    job                     an INSERT whose task runs until somebody opens the pipe `job` in `folder` for writing
    stream                  a structured stream: a line only when it died; it is started again

It ends when its standard input does.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final

#: So much of an error says what happened.
_ERROR_MAX: Final = 300
#: The statements that are made one after the other; nobody opens the pipe of the last `job`.
LOOPS: Final = ("hive", "select", "insert")
_PRINTING: Final = threading.Lock()


def tell(kind: str, begun: float, error: Exception | None) -> None:
    """Print what came of a statement."""
    text = None
    if error is not None:
        thrown = getattr(error, "java_exception", None)
        text = str(error if thrown is None else thrown.toString())[:_ERROR_MAX]
    line = {"kind": kind, "begun": begun, "ended": time.monotonic(), "error": text}
    with _PRINTING:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def repeat(kind: str, work: Callable[[int], object], over: threading.Event) -> None:
    """Do it until it is over, whatever it raises."""
    for number in count():
        if over.is_set():
            return
        begun = time.monotonic()
        try:
            work(number)
        except Exception as error:  # noqa: BLE001 - py4j and Spark raise many types, and any of them is an answer
            tell(kind, begun, error)
        else:
            tell(kind, begun, None)


def stream(spark: Any, table: str, folder: Path, over: threading.Event) -> None:
    """Run a stream, and start it again where it stopped when it died."""
    source = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    while not over.is_set():
        begun = time.monotonic()
        try:
            writer = source.writeStream.format("iceberg").trigger(processingTime="250 milliseconds")
            query = writer.option("checkpointLocation", f"{folder}/checkpoint").toTable(table)
            tell("stream started", begun, None)
            while not over.is_set() and not query.awaitTermination(1):
                pass
            query.stop()
        except Exception as error:  # noqa: BLE001 - as above
            tell("stream", begun, error)
            over.wait(0.1)
        else:
            tell("stream", begun, None)


def read_pipe(path: str) -> int:
    """The task of the long job."""
    with Path(path).open() as pipe:
        return len(pipe.read())


def main(work: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder
    for key, value in work["settings"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    database, folder, over = work["database"], Path(work["folder"]), threading.Event()
    for statement in (
        "CREATE TABLE {}.hive (a INT) STORED AS PARQUET",
        "INSERT INTO {}.hive VALUES (1), (2)",
        "CREATE TABLE {}.iceberg (a BIGINT) USING iceberg",
        "CREATE TABLE {}.jobs (a INT) USING iceberg",
        "CREATE TABLE {}.streamed (timestamp TIMESTAMP, value BIGINT) USING iceberg",
    ):
        spark.sql(statement.format(database))
    spark.udf.register("read_pipe", read_pipe, "int")
    loops: dict[str, Callable[[int], object]] = {
        "hive": lambda _: spark.sql(f"SELECT * FROM {database}.hive").collect(),
        "select": lambda _: spark.sql(f"SELECT count(*) FROM {database}.iceberg").collect(),
        "insert": lambda number: spark.sql(f"INSERT INTO {database}.iceberg VALUES ({number})"),
        "job": lambda _: spark.sql(f"INSERT INTO {database}.jobs SELECT read_pipe('{folder}/job')"),
    }
    threads = [threading.Thread(target=repeat, args=(kind, each, over), daemon=True) for kind, each in loops.items()]

    def end_with_input() -> None:
        sys.stdin.read()
        over.set()

    threads.append(threading.Thread(target=end_with_input, daemon=True))
    for thread in threads:
        thread.start()
    # In this thread: Spark looks up the table of a stream in the catalog of the thread's own session.
    stream(spark, f"{database}.streamed", folder, over)
    for thread in threads[: len(LOOPS)]:
        thread.join(60)
    rows = {name: spark.table(f"{database}.{name}").count() for name in ("iceberg", "jobs", "streamed")}
    with _PRINTING:
        sys.stdout.write(json.dumps({"kind": "rows", **rows}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.stdin.readline()))
