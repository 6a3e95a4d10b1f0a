"""A Hive table becomes an Iceberg table where it lies.

The executors list and describe its files, and write manifests; then one change of the metastore's row makes it an
Iceberg table (`coordinator/operations/kind_changes.py`). Until then the Hive table is as it was, and readers of Hive
see nothing of the work: all that a migration writes lies in a folder that they skip. A run that ends half-way leaves
what it has described, which the next one takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.services import Services
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.coordinator.hive_ports import DATA_FOLDER, HIDDEN_FOLDER, HiveRow
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import AlreadyIceberg, EngineError, MissingFile
from iceberg_hms.format.metadata.metadata_file import METADATA_PATH
from iceberg_hms.format.metadata.named_locations import DATA_PATH
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import GC_ENABLED
from iceberg_hms.format.updates.create import new_table_metadata
from iceberg_hms.identifiers import Identifier, table_name
from iceberg_hms.migration.driver import MigrationDriver, driver_of
from iceberg_hms.migration.found_files import nobody_listens
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.source import MigrationSource
from iceberg_hms.migration.takeover import Options, Takeover
from iceberg_hms.migration.work import RecursiveDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def migrate(
    spark: SparkSession,
    identifier: Identifier,
    *,
    recursive_directory: RecursiveDirectory = "fail",
    skip_unreadable: bool = False,
    dry_run: bool = False,
    ignore_keys: Collection[str] = (),
    progress: bool = True,
    catalog: Catalog | None = None,
    on_stage: Callable[[str], None] = nobody_listens,
) -> MigrationReport:
    """Make an Iceberg table of a Hive table, with the files that it has.

    Stop its writers first: a file that comes after its folder was listed is not in the Iceberg table (`late_files`
    finds it, `add_files` takes it).

    recursive_directory: what becomes of files in folders below a partition's own: `true` takes them, as Spark reads
    such a table, `false` leaves them out, and `fail` refuses the table.
    skip_unreadable: leave out files that cannot be taken over, and name them in the report, instead of refusing.
    dry_run: write nothing, and report what is there.
    ignore_keys: names of keys of the row, its partitions or its columns that would refuse the table, and that change no
    row or need not be kept: docs/migration.md has the keys. progress: whether to draw a bar.
    catalog: on the session's metastore; by default one with the session's metastore and warehouse and with the
    settings of the environment (`ICEBERG_HMS_...`). on_stage: hears `read`, `listed`, `described` after each slice of
    files, `staged` and `changed`.

    Returns the report; of a table that a migration has made already, perhaps another one while this one ran, with the
    outcome `already done`.
    Raises NoSuchTable; InvalidInput for a table that cannot be taken over; CannotMigrate, with the report, for files
    that cannot; AlreadyIceberg for an Iceberg table that no migration made; CommitConflict if the table was altered
    meanwhile: nothing has changed then, and the next run goes on from what this one has described. CommitStateUnknown
    as a commit. MetastoreError, StorageError.
    """
    name = table_name(identifier)
    options = Options(recursive_directory, skip_unreadable, dry_run, progress, on_stage, ignore_keys)
    with driver_of(spark, catalog, f"migrate {name}") as driver:
        return migrate_table(driver, name, options)


def migrate_table(driver: MigrationDriver, name: TableName, options: Options) -> MigrationReport:
    """As `migrate`, with a driver that is open."""
    hive = driver.services.hive_tables
    try:
        row = hive.load_row(name)
        try:
            return _migrated(driver, row, options)
        except (EngineError, MissingFile):
            # A migration that is done deletes what the tasks of this one read.
            hive.load_row(name)
            raise
    except AlreadyIceberg as error:
        if error.hive_table is None:
            raise
        location = driver.catalog.pointer(name).metadata_location
        return MigrationReport(str(name), "already done", metadata_location=location)


def _migrated(driver: MigrationDriver, row: HiveRow, options: Options) -> MigrationReport:
    services = driver.services
    source = MigrationSource.of(row, time_zone=driver.time_zone, ignored=options.ignore_keys)
    options.on_stage("read")
    metadata, kinds = _metadata_of(services, source), services.coordinator.kind_changes(services.hive_tables)
    kinds.check(row, metadata)
    takeover = Takeover(driver, row.name, metadata, options, is_new=True, resumes=True)
    problems = Problems()
    names = services.hive_tables.partition_names(row)
    found = takeover.find(source.folders(services.hive_tables.partitions(row), problems), problems)
    if options.dry_run:
        return takeover.report(found)
    takeover.check(found)
    with takeover.creation(found) as updates:
        options.on_stage("staged")
        committed = kinds.to_iceberg(
            row,
            from_request([{"type": "assert-create"}], updates),
            partition_names=names,
            wait_seconds=services.settings.commit_wait_seconds,
        )
    options.on_stage("changed")
    takeover.forget()
    return takeover.report(found, committed.metadata_location)


def _metadata_of(services: Services, source: MigrationSource) -> TableMetadata:
    """Of the table to be, without a snapshot."""
    clock = services.ports.runtime
    hidden = f"{source.location.rstrip('/')}/{HIDDEN_FOLDER}"
    properties = {
        **source.properties,
        # Until undo is given up nothing may delete files that the Iceberg table did not write.
        GC_ENABLED.name: "false",
        METADATA_PATH: hidden,
        # What a writer leaves that failed would else be rows of the Hive table, if it becomes that again.
        DATA_PATH: f"{hidden}/{DATA_FOLDER}",
    }
    return new_table_metadata(
        source.schema, source.spec, None, source.location, properties, uuid=clock.uuid(), now_ms=clock.now_ms()
    )
