"""All Hive tables of a database."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CannotMigrate, IcebergHmsError
from iceberg_hms.identifiers import namespace_name
from iceberg_hms.migration.driver import driver_of
from iceberg_hms.migration.in_place import migrate
from iceberg_hms.migration.report import MigrationReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How long to read the rows of a database.
_LIST_SECONDS: Final = 600.0


def migrate_database(
    spark: SparkSession, namespace: str, *, like: str = "*", catalog: Catalog | None = None, **options: Any
) -> list[MigrationReport]:
    """`migrate` for each Hive table of a database, one after the other, by name. A table that fails does not stop the
    others: its report has the outcome `failed`, and the error.

    like: of the tables' names, as a shell matches file names (`fl*`). catalog, options: as those of `migrate`.
    Raises NoSuchNamespace, and ConfigError as `migrate`.
    """
    namespace = namespace_name(namespace)
    with driver_of(spark, catalog, f"migrate {namespace}") as driver:
        names = driver.services.hive_tables.names(namespace, timeout_seconds=_LIST_SECONDS)
        chosen = [TableName(namespace, each) for each in names if fnmatchcase(each, like.lower())]
        return [_report(spark, name, driver.catalog, options) for name in chosen]


def _report(spark: SparkSession, name: TableName, catalog: Catalog, options: dict[str, Any]) -> MigrationReport:
    try:
        return migrate(spark, str(name), catalog=catalog, **options)
    except CannotMigrate as error:
        report: MigrationReport = error.report
        return report
    except IcebergHmsError as error:
        return MigrationReport.failed(str(name), error)
