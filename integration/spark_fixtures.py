"""Spark sessions for the integration tests: one in this process, with our session catalog; others in processes of their
own, because the session catalog of a JVM's first session is that of all."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms.spark
from iceberg_hms.local.gateway import QUICK_START
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.spark.configuration import log4j_option
from integration.spark_statements import Outcome

ROOT = Path(__file__).parent.parent

#: Small, quick, on loopback, and quiet.
SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "iceberg-hms integration",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": " ".join([*QUICK_START, log4j_option(ROOT / "conf" / "log4j2.properties")]),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
}
#: A session, its statements and its end.
STATEMENTS_SECONDS = 240


@pytest.fixture(scope="session")
def spark(metastore: LocalMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session whose session catalog is ours, embedded in this process."""
    from pyspark.sql import SparkSession

    # PySpark logs every failed statement with its stack, also those that fail as they should.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark files")))
    interrupt = signal.getsignal(signal.SIGINT)
    session = iceberg_hms.spark.configure(
        builder, metastore_uri=metastore.uri, warehouse=metastore.warehouse
    ).getOrCreate()
    # PySpark's own handler would break into the clean-up of an interrupted run.
    signal.signal(signal.SIGINT, interrupt)
    yield session
    session.stop()


def start_program(
    module: str, work: Mapping[str, Any], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a program that reads its work from its first line. The caller ends it; log: for its standard error."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=environment,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(work) + "\n")
    process.stdin.flush()
    return process


def run_elsewhere(
    metastore: LocalMetastore,
    kind: str,
    statements: Sequence[str],
    folder: Path,
    settings: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """Run SQL statements in a Spark session of another process.

    kind: `plain` is Spark with Hive support alone, `extensions` is our session catalog, `no-extensions` is ours without
    Iceberg's SQL extensions, `stock` is Spark with `settings` alone.
    """
    work = {
        "kind": kind,
        "metastore_uri": metastore.uri,
        "warehouse": metastore.warehouse,
        "settings": {**SETTINGS, "spark.local.dir": str(folder), **(settings or {})},
        "statements": list(statements),
    }
    done = subprocess.run(
        [sys.executable, "-m", "integration.spark_statements"],
        input=json.dumps(work),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=STATEMENTS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [Outcome(**outcome) for outcome in json.loads(done.stdout.splitlines()[-1])]
