"""Scene 2: a Hive table and Iceberg tables side by side in one catalog."""

from __future__ import annotations

from typing import Final

from iceberg_hms.cli.demo import flights
from iceberg_hms.cli.demo.stage import Stage

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


def play(stage: Stage) -> None:
    """Write the flights as a Hive table, load Iceberg tables from it, and join the two kinds."""
    stage.scene(
        2,
        "Hive tables and Iceberg tables in one catalog",
        "336,776 real flights go into an ordinary Hive Parquet table. Beside it, in the same spark_catalog, Iceberg "
        "tables are made and loaded from it. Spark asks iceberg-hms for what is Iceberg; all else goes to Hive as "
        "before.",
    )
    _hive_tables(stage)
    stage.run("CREATE DATABASE logging")
    stage.run(_EVENTS)
    stage.run(_FIRST_EVENTS)
    stage.run(_SECOND_EVENT)
    stage.run(_FLIGHTS)
    stage.run(_LOAD, "Loading the Iceberg table from the Hive table")
    stage.tell("Both kinds in one query: nyc.flights is Iceberg, nyc.airlines_hive is Hive.")
    stage.query(_JOIN)
    stage.query("SHOW TABLES IN nyc")
    same = stage.value("SELECT count(*) FROM nyc.flights") == stage.value("SELECT count(*) FROM nyc.flights_hive")
    stage.check(f"both tables hold all {flights.FLIGHTS:,} flights", same and _complete(stage))


def _hive_tables(stage: Stage) -> None:
    with stage.step("Unpacking the flights"):
        flights_csv, airlines_csv = flights.unpack(stage.folder.path / "data")
    read = stage.spark.read.option("header", "true").option("nullValue", "NA")
    read.schema(flights.FLIGHTS_COLUMNS).csv(f"file:{flights_csv}").createOrReplaceTempView("flights_csv")
    read.schema(flights.AIRLINES_COLUMNS).csv(f"file:{airlines_csv}").createOrReplaceTempView("airlines_csv")
    stage.run("CREATE DATABASE nyc")
    stage.run(
        "CREATE TABLE nyc.flights_hive STORED AS PARQUET PARTITIONED BY (month)\n"
        "AS SELECT /*+ REPARTITION(2, month) */ * FROM flights_csv",
        "Writing the Hive table",
    )
    stage.run("CREATE TABLE nyc.airlines_hive STORED AS PARQUET AS SELECT * FROM airlines_csv")
    for view in ("flights_csv", "airlines_csv"):
        stage.spark.catalog.dropTempView(view)


def _complete(stage: Stage) -> bool:
    return bool(stage.value("SELECT count(*) FROM nyc.flights") == flights.FLIGHTS)
