"""Reads the branches of tables by Spark: from copies of their metadata files in folders as Iceberg's file system tables
have them, so that no catalog is needed."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from iceberg_hms.spark.configuration import ICEBERG_RUNTIME, PACKAGES
from tests.random_operations.independent_reader import require
from tests.random_operations.places import local_path
from tests.random_operations.runs import LastState
from tests.random_operations.shapes import ID
from tests.random_operations.specification_values import comparable, stored

_SETTINGS: Final[Mapping[str, str]] = {
    PACKAGES: ICEBERG_RUNTIME,
    "spark.master": "local[2]",
    "spark.app.name": "iceberg-hms random operations",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
}


def session() -> Any:
    """A Spark session of this process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def compare(spark: Any, last: LastState, folder: Path) -> int:
    """How many branches Spark read. folder: a new one, for the copy. Raises Broken for one of which it reads other rows
    than are expected."""
    metadata = folder / "metadata"
    metadata.mkdir(parents=True)
    data = local_path(last.location).read_bytes()
    (metadata / "v1.metadata.json").write_bytes(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    (metadata / "version-hint.text").write_text("1", encoding="utf-8")
    at = [id_ for id_, _, _ in last.columns].index(ID)
    for branch, expected in last.branches.items():
        rows = spark.read.format("iceberg").option("branch", branch).load(f"file:{folder}")
        names = [name for _, name, _ in last.columns]
        require(rows.columns == names, f"Spark reads the columns {rows.columns} of {branch}, not {names}")
        found = sorted((_stored(last, row) for row in rows.collect()), key=lambda row: row[at])
        require(found == expected, f"Spark reads {branch} of {last.location} as {found}, not {expected}")
    return len(last.branches)


def _stored(last: LastState, row: Any) -> tuple[Any, ...]:
    return tuple(comparable(stored(value, type_)) for value, (_, _, type_) in zip(row, last.columns, strict=True))
