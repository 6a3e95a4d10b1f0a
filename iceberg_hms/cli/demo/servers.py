"""Scene 1: a metastore, a ZooKeeper, and a Spark session whose session catalog is iceberg-hms."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from iceberg_hms.cli.demo.stage import Stage
from iceberg_hms.local.gateway import QUICK_START
from iceberg_hms.spark.configuration import log4j_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""

_CODE: Final = """\
import iceberg_hms.spark
from pyspark.sql import SparkSession

spark = iceberg_hms.spark.configure(
    SparkSession.builder,
    metastore_uri="{uri}",
    warehouse="{warehouse}",
).getOrCreate()
"""

#: What the demo adds for itself: two cores, UTC, a quiet console. None of it is needed.
_OF_THE_DEMO: Final = {
    "spark.master": "local[2]",
    "spark.app.name": "iceberg-hms demo",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
}


def play(stage: Stage, stack: contextlib.ExitStack) -> None:
    """Start the servers and the session; `stack` ends them, last first."""
    from iceberg_hms.assembly import connect
    from iceberg_hms.local.metastore import LocalMetastore
    from iceberg_hms.local.zookeeper import LocalZooKeeper

    stage.scene(
        1,
        "A metastore and a Spark session",
        "A real Hive Metastore 2.3.10 and a real ZooKeeper, from the jars inside the pyspark package, both on "
        "loopback; then a PySpark session with the stock Iceberg runtime. Its session catalog is iceberg-hms: a "
        "coordinator inside the driver that speaks Iceberg's REST protocol to Spark and commits through the "
        "metastore.",
    )
    location = f"file:{stage.folder.warehouse}"
    with stage.step("Starting the Hive Metastore"):
        metastore = stack.enter_context(LocalMetastore(stage.folder.path / "metastore", warehouse=location))
    with stage.step("Starting ZooKeeper"):
        zookeeper = stack.enter_context(LocalZooKeeper(stage.folder.path / "zookeeper"))
    stage.metastore_uri, stage.warehouse = metastore.uri, location
    stage.opened = stack.enter_context(connect(metastore_uri=metastore.uri, warehouse=location))
    with stage.step("Starting Spark (the first time it fetches the Iceberg runtime, 50 MB)"):
        stage.session = _start_spark(stage, stack)
    stage.table(
        "",
        ["server", "address"],
        [
            ["Hive Metastore", metastore.uri],
            ["ZooKeeper", zookeeper.hosts],
            ["iceberg-hms in the driver", stage.spark.conf.get("spark.sql.catalog.spark_catalog.uri")],
            ["warehouse", location],
            ["logs", str(stage.folder.logs)],
        ],
    )
    stage.tell("The session was made by these lines:")
    stage.code(_CODE.format(uri=metastore.uri, warehouse=location).rstrip())


def _start_spark(stage: Stage, stack: contextlib.ExitStack) -> SparkSession:
    from pyspark.sql import SparkSession

    import iceberg_hms.spark

    log4j = stage.folder.logs / "log4j2.properties"
    log4j.write_text(_LOG4J, encoding="utf-8")
    builder = SparkSession.builder
    for key, value in _OF_THE_DEMO.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.local.dir", str(stage.folder.path / "spark"))
    builder = builder.config("spark.driver.extraJavaOptions", " ".join([*QUICK_START, log4j_option(log4j)]))
    before = signal.getsignal(signal.SIGINT)
    with _standard_error_to(stage.folder.logs / "spark.log"):
        session = iceberg_hms.spark.configure(
            builder, metastore_uri=stage.metastore_uri, warehouse=stage.warehouse
        ).getOrCreate()
    # PySpark puts a handler of its own in place, which would break into the clean-up of an interrupted run.
    signal.signal(signal.SIGINT, before)
    stack.callback(_stop_quietly, session)
    return session


def _stop_quietly(session: Any) -> None:
    # An interrupted call leaves py4j's connection half-read: it complains, and the JVM ends with us in any case.
    try:
        session.stop()
    except Exception:
        logging.getLogger(__name__).exception("the Spark session did not stop in order")


@contextlib.contextmanager
def _standard_error_to(file: Path) -> Iterator[None]:
    """Let processes that start meanwhile write their standard error into `file`, for all their lives.

    The JVM inherits it: Ivy's and Spark's own messages go there, which no log setting reaches.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
        os.close(target)
