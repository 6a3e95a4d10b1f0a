"""Spark on two local cores, as benchmarks run it beside this package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.instruments import ROOT
from iceberg_hms.spark.configuration import EXTENSIONS, ICEBERG_RUNTIME, log4j_option
from integration import maven_packages


def local_settings(folder: Path, memory: str) -> Mapping[str, str]:
    """Settings of a session without a catalog. folder: for its files. memory: of its JVM, such as `2g`."""
    return {
        "spark.master": "local[2]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": log4j_option(ROOT / "conf" / "log4j2.properties"),
        "spark.local.dir": str(folder),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def stock_session(folder: Path) -> Any:
    """A session in this process with Iceberg's runtime, whose jar has been fetched. folder: for its files."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.sql.extensions", EXTENSIONS)
    builder = builder.config("spark.jars", str(maven_packages.jar(ICEBERG_RUNTIME)))
    for key, value in local_settings(folder, "4g").items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
