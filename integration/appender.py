"""One writer, as a program of its own: appends small Parquet files to a table.

    python -m integration.appender URI WAREHOUSE TABLE FOLDER WRITER COUNT [CLIENT]

FOLDER is a local one, or a location on S3, which the settings in the environment (ICEBERG_HMS_S3_*) then reach.
CLIENT is what appends: `library` (the default) is ours; `same` is ours with files that are there already, the same
for all writers; `unlocked` is ours with its lock switched off; `hive` is PyIceberg's Hive catalog; `rest` is
PyIceberg's REST catalog, and URI then a server of ours; `spark` is stock Spark's INSERT through such a server into a
table on S3, for which AWS's bundle must be in Maven's cache.

It writes `ready`, waits for a line on its input so that all writers start together, and then writes one JSON line for
each append: {"path": ..., "error": null or text, "refused": whether the error proves that nothing of it is in the
table, "snapshot_id": of a success, if the client returns it}. Spark names its files itself, so the path of its appends
is `row ID`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import requests

import iceberg_hms
from iceberg_hms.config import Settings
from iceberg_hms.spark.configuration import ICEBERG_RUNTIME
from iceberg_hms.spark.s3 import AWS_BUNDLE, s3_properties
from iceberg_hms.stores import open_files
from integration import interop, maven_packages
from integration.faults import rewired, until
from integration.spark_fixtures import SETTINGS

#: Appends what `appended` names; returns its snapshot, None if the client does not return it.
Append = Callable[[str], int | None]
#: What `appended` begins with for Spark; the row's id follows.
ROW = "row "
#: The clients that are not ours.
STOCK = ("hive", "rest", "spark")
#: Java's error when nothing changed; Spark's message has its stack.
COMMIT_FAILED = "org.apache.iceberg.exceptions.CommitFailedException"


def appended(client: str, folder: str, writer: int, number: int) -> str:
    """The path of a writer's nth append."""
    if client == "spark":
        return f"{ROW}{row_id(writer, number)}"
    name = f"{number}.parquet" if client == "same" else f"{writer}-{number}.parquet"
    return f"{folder}/{name}" if "://" in folder else f"file:{folder}/{name}"


def row_id(writer: int, number: int) -> int:
    """The one row of a writer's nth append."""
    return writer * 1_000_000 + number


@contextmanager
def library(uri: str, warehouse: str, table_name: str, *, locked: bool = True) -> Iterator[Append]:
    with iceberg_hms.connect(metastore_uri=uri, warehouse=warehouse) as connected:
        table = (connected if locked else unlocked(connected)).load_table(table_name)
        yield lambda location: table.append([location]).snapshot_ids[0]


def unlocked(catalog: Any) -> Any:
    """A catalog with a lock that only this process sees, which no setting allows on a table with other writers."""
    from iceberg_hms.testing.memory_lock import MemoryTableLock

    return rewired(catalog, lock=MemoryTableLock())


@contextmanager
def pyiceberg(kind: str, uri: str, warehouse: str, table_name: str) -> Iterator[Append]:
    from pyiceberg.catalog import load_catalog

    with closing(load_catalog(kind, type=kind, uri=uri, warehouse=warehouse)) as catalog:
        table = catalog.load_table(table_name)

        def append(location: str) -> int | None:
            try:
                table.add_files([location], check_duplicate_files=False)
            except requests.ConnectionError:
                until(lambda: works(table.refresh, requests.ConnectionError), "the server is back")
                raise
            current = table.current_snapshot()
            # A server may answer with a table that has later appends of the same group in it.
            return current.snapshot_id if current is not None and kind == "hive" else None

        yield append


@contextmanager
def spark(uri: str, table_name: str) -> Iterator[Append]:
    from pyspark.sql import SparkSession

    table = f"stock.{table_name}"
    catalog = {
        "type": "rest",
        "uri": uri,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        **s3_properties(Settings.load({})),
    }
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            **SETTINGS,
            "spark.master": "local[1]",
            "spark.local.dir": folder,
            "spark.jars": ",".join(str(maven_packages.jar(each)) for each in (ICEBERG_RUNTIME, AWS_BUNDLE)),
            "spark.sql.catalog.stock": interop.SPARK_CATALOG,
            **{f"spark.sql.catalog.stock.{key}": value for key, value in catalog.items()},
        }
        builder = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        with builder.getOrCreate() as session:
            session.sparkContext.setLogLevel("OFF")
            session.table(table).count()

            def append(path: str) -> None:
                try:
                    session.sql(f"INSERT INTO {table} VALUES ({path.removeprefix(ROW)}, 'spark')")
                except Exception:
                    until(lambda: works(lambda: session.sql(f"REFRESH TABLE {table}")), "the server is back")
                    raise

            yield append


def works(call: Callable[[], object], expected: type[Exception] = Exception) -> bool:
    """Whether a call succeeds. expected: how it may fail."""
    try:
        call()
    except expected:
        return False
    return True


def is_refusal(error: Exception) -> bool:
    """Whether an error proves that nothing changed: all of our errors but one do, and only one of Iceberg's."""
    from pyiceberg.exceptions import CommitFailedException

    if isinstance(error, iceberg_hms.IcebergHmsError):
        return not isinstance(error, iceberg_hms.CommitStateUnknown)
    return isinstance(error, CommitFailedException) or f"Caused by: {COMMIT_FAILED}" in str(error)


def write(location: str, ids: list[int]) -> None:
    """Write a Parquet file of a few rows."""
    if location.startswith("file:"):
        interop.small_parquet(Path(location.removeprefix("file:")), ids)
        return
    with tempfile.TemporaryDirectory() as folder:
        data = interop.small_parquet(Path(folder) / "data", ids).read_bytes()
    open_files(Settings.load({})).write(location, data)


def main(uri: str, warehouse: str, table: str, folder: str, writer: int, count: int, client: str = "library") -> None:
    # Of other clients any error is counted, whatever it is; of ours, only those that we declare.
    errors = Exception if client in STOCK else iceberg_hms.IcebergHmsError
    with opened(client, uri, warehouse, table) as append:
        _say("ready")
        sys.stdin.readline()
        for number in range(count):
            path = appended(client, folder, writer, number)
            result: dict[str, Any] = {"path": path, "error": None, "refused": False, "snapshot_id": None}
            try:
                if client not in ("same", "spark"):
                    write(path, [row_id(writer, number)])
                result["snapshot_id"] = append(path)
            except errors as raised:
                result |= {"error": f"{type(raised).__name__}: {raised}", "refused": is_refusal(raised)}
            _say(json.dumps(result))


def opened(client: str, uri: str, warehouse: str, table: str) -> AbstractContextManager[Append]:
    """A client's table."""
    if client == "spark":
        return spark(uri, table)
    if client in STOCK:
        return pyiceberg(client, uri, warehouse, table)
    return library(uri, warehouse, table, locked=client != "unlocked")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uri, warehouse, table, folder, writer, count, *client = sys.argv[1:]
    main(uri, warehouse, table, folder, int(writer), int(count), *client)
