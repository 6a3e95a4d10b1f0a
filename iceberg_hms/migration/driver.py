"""What a migration works with in the driver: a catalog on the session's metastore, and the session's executors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from iceberg_hms.assembly import assemble
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.services import Services
from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError, EngineError
from iceberg_hms.migration.spark_executors import SparkExecutors
from iceberg_hms.migration.work import Executors
from iceberg_hms.spark.configuration import WAREHOUSE, metastore_of

_TIME_ZONE: Final = "spark.sql.session.timeZone"
_OFFSET: Final = re.compile(r"(?:UTC|GMT|Z)|(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class MigrationDriver:
    """catalog: on the metastore. executors: where tasks run. time_zone: the session's."""

    catalog: Catalog
    executors: Executors
    time_zone: tzinfo

    @property
    def services(self) -> Services:
        return self.catalog.services


@contextmanager
def driver_of(spark: SparkSession, catalog: Catalog | None, what: str) -> Iterator[MigrationDriver]:
    """For one operation. catalog: the caller's, which stays open; None: one with the session's metastore and warehouse,
    and otherwise the settings of the environment and of its file. what: the operation, for Spark's pages.
    Raises ConfigError if the session names no metastore, and nothing else does, or for its time zone."""
    context = spark.sparkContext
    own = catalog is None
    if catalog is None:
        present = dict(context.getConf().getAll())
        found = {"metastore_uri": metastore_of(present), "warehouse": present.get(WAREHOUSE)}
        catalog = assemble(Settings.load({name: value for name, value in found.items() if value}))
    try:
        executors = SparkExecutors(context, catalog.services.ports.runtime, what=what)
        yield MigrationDriver(catalog, executors, time_zone_of(str(spark.conf.get(_TIME_ZONE))))
    finally:
        if own:
            catalog.close()


def time_zone_of(text: str) -> tzinfo:
    """The time zone of a session: the name of a region, or hours from UTC as `+02:00` and `GMT+2`. Raises
    ConfigError."""
    offset = _OFFSET.fullmatch(text)
    try:
        if offset is None:
            return ZoneInfo(text)
        sign, hours, minutes = offset.groups(default="0")
        from_utc = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-from_utc if sign == "-" else from_utc)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"`{_TIME_ZONE}` is {text!r}, which this machine does not know", next_step="set the name of a region"
        ) from error


@contextmanager
def spark_session(master: str | None) -> Iterator[SparkSession]:
    """A session whose executors do the work of one command; it knows no catalog. master: as `spark-submit --master`;
    None: what spark-defaults.conf says, else the cores of this machine. Raises EngineError without Java."""
    builder = SparkSession.builder.appName("iceberg-hms migrate").config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise EngineError(f"Spark does not start: {error}", next_step="install Java 17, and set JAVA_HOME") from error
    try:
        yield session
    finally:
        session.stop()
