"""An Iceberg table over the files of a Hive table, which stays as it is: to try Iceberg out, and to compare."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.metadata.table_properties import GC_ENABLED
from iceberg_hms.identifiers import Identifier, table_name
from iceberg_hms.migration.driver import MigrationDriver, driver_of
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.source import MigrationSource
from iceberg_hms.migration.takeover import Options, Takeover
from iceberg_hms.migration.work import RecursiveDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def snapshot(
    spark: SparkSession,
    source: Identifier,
    table: Identifier,
    *,
    location: str | None = None,
    recursive_directory: RecursiveDirectory = "fail",
    skip_unreadable: bool = False,
    ignore_keys: Collection[str] = (),
    progress: bool = True,
    catalog: Catalog | None = None,
) -> MigrationReport:
    """Make a new Iceberg table of the files that a Hive table has now. The Hive table stays as it is, and the new table
    never deletes its files (`gc.enabled=false`); what is written to the new table lies in its own folder.

    source: the Hive table. table: the new one. location: of the new one, as for `Catalog.create_table`. The others: as
    those of `migrate`. Raises AlreadyExists, NoSuchNamespace, NoSuchTable, CannotMigrate, CommitStateUnknown.
    """
    name = table_name(source)
    options = Options(recursive_directory, skip_unreadable, progress=progress, ignore_keys=ignore_keys)
    with driver_of(spark, catalog, f"snapshot {name}") as driver:
        return make_snapshot(driver, name, table, location, options)


def make_snapshot(
    driver: MigrationDriver, source: TableName, table: Identifier, location: str | None, options: Options
) -> MigrationReport:
    """As `snapshot`, with a driver that is open."""
    services = driver.services
    row = services.hive_tables.load_row(source)
    of = MigrationSource.of(row, time_zone=driver.time_zone, ignored=options.ignore_keys)
    properties = {**of.properties, GC_ENABLED.name: "false"}
    staged = driver.catalog.stage_table(table, of.schema, location, of.spec, properties=properties)
    takeover, problems = Takeover(driver, staged.name, staged.metadata, options, is_new=True), Problems()
    with takeover.alone():
        found = takeover.find(of.folders(services.hive_tables.partitions(row), problems), problems)
        takeover.check(found)
        with takeover.creation(found) as updates:
            made = driver.catalog.commit(staged.name, [{"type": "assert-create"}], updates)
    return takeover.report(found, made.metadata_location)
