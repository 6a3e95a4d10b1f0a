"""A Spark session of each kind of session catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import iceberg_hms.spark
from iceberg_hms.spark.configuration import (
    CATALOG,
    EXTENSIONS,
    ICEBERG_RUNTIME,
    METASTORE_URIS,
    PACKAGES,
    SESSION_CATALOG,
    SQL_EXTENSIONS,
    WAREHOUSE,
    warehouse_location,
)
from integration.command_line import running


def hive_configuration(metastore_uri: str, warehouse: str) -> dict[str, str]:
    """The settings of a session whose session catalog is Iceberg's with Java's HiveCatalog, as Iceberg documents it."""
    return {
        PACKAGES: ICEBERG_RUNTIME,
        SQL_EXTENSIONS: EXTENSIONS,
        "spark.sql.catalogImplementation": "hive",
        CATALOG: SESSION_CATALOG,
        f"{CATALOG}.type": "hive",
        METASTORE_URIS: metastore_uri,
        WAREHOUSE: warehouse_location(warehouse),
    }


@contextmanager
def served(metastore: Any, log: Path, *options: str) -> Iterator[str]:
    """A server for the stand-alone sessions on a metastore; its address. log: the file for its log."""
    where = ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse, "--port", "0", "--exit-with-stdin"]
    with log.open("w") as errors, running("serve", *where, "--no-auth", *options, stderr=errors) as (_, event):
        yield str(event["uri"])


def session_work(
    metastore: Any, kind: str, server_uri: str | None, settings: Mapping[str, str], **more: Any
) -> dict[str, Any]:
    """What a program reads that opens a session of this kind, and `more`."""
    where = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse, "server_uri": server_uri}
    return {"kind": kind, **where, "settings": dict(settings), **more}


def open_session(work: Mapping[str, Any]) -> Any:
    """A session as `session_work` says. kind: `embedded`, `stand-alone` (the server at server_uri), or `hive`. The
    caller stops the session."""
    from pyspark.sql import SparkSession

    kind, metastore_uri, warehouse = work["kind"], work["metastore_uri"], work["warehouse"]
    builder = SparkSession.builder
    for key, value in work["settings"].items():
        builder = builder.config(key, value)
    if kind == "hive":
        for key, value in hive_configuration(metastore_uri, warehouse).items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    return iceberg_hms.spark.configure(
        builder,
        metastore_uri=metastore_uri,
        warehouse=warehouse,
        server_uri=work["server_uri"] if kind == "stand-alone" else None,
    ).getOrCreate()


def java_exception(error: Exception) -> Any:
    """The exception that the JVM threw; None if it threw none. PySpark knows few of Java's exceptions; of others its
    own text says nothing."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)
