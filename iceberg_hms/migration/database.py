"""All Hive tables of a database."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CannotMigrate, IcebergHmsError
from iceberg_hms.identifiers import namespace_name
from iceberg_hms.migration.driver import MigrationDriver, driver_of
from iceberg_hms.migration.in_place import migrate_table
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.takeover import Options
from iceberg_hms.migration.work import RecursiveDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How long to read the rows of a database.
_LIST_SECONDS: Final = 600.0


def migrate_database(
    spark: SparkSession,
    namespace: str,
    *,
    like: str = "*",
    recursive_directory: RecursiveDirectory = "fail",
    skip_unreadable: bool = False,
    dry_run: bool = False,
    ignore_keys: Collection[str] = (),
    progress: bool = True,
    catalog: Catalog | None = None,
) -> list[MigrationReport]:
    """`migrate` for each Hive table of a database, one after the other, by name. A table that fails does not stop the
    others: its report has the outcome `failed`, and the error.

    like: of the tables' names, as a shell matches file names (`fl*`). The others: as those of `migrate`.
    Raises NoSuchNamespace, and ConfigError as `migrate`.
    """
    namespace = namespace_name(namespace)
    options = Options(recursive_directory, skip_unreadable, dry_run, progress, ignore_keys=ignore_keys)
    with driver_of(spark, catalog, f"migrate {namespace}") as driver:
        return migrate_tables(driver, namespace, like, options)


def migrate_tables(driver: MigrationDriver, namespace: str, like: str, options: Options) -> list[MigrationReport]:
    """As `migrate_database`, with a driver that is open."""
    names = driver.services.hive_tables.names(namespace, timeout_seconds=_LIST_SECONDS)
    chosen = [TableName(namespace, each) for each in names if fnmatchcase(each, like.lower())]
    return [_report(driver, name, options) for name in chosen]


def _report(driver: MigrationDriver, name: TableName, options: Options) -> MigrationReport:
    try:
        return migrate_table(driver, name, options)
    except CannotMigrate as error:
        report: MigrationReport = error.report
        return report
    except IcebergHmsError as error:
        return MigrationReport.failed(str(name), error)
