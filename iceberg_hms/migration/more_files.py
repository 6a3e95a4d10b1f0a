"""Files that exist become files of an Iceberg table that exists; and which files of its folders a table has not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.identifiers import Identifier, table_name
from iceberg_hms.migration.driver import MigrationDriver, driver_of
from iceberg_hms.migration.found_files import FoundFiles, folder_groups
from iceberg_hms.migration.listing import listed_files
from iceberg_hms.migration.progress import delete_progress
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.source import MigrationSource
from iceberg_hms.migration.takeover import Options, Takeover, with_name_mapping
from iceberg_hms.migration.work import RecursiveDirectory, Side, SourcePartition, Work
from iceberg_hms.stores import open_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many files an error names, and `LateFiles`.
_NAMED_MAX: Final = 5
_LATE_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class LateFiles:
    """Files in the folders of a migrated table that the Iceberg table has not. count: of all; files: the locations of
    the first ones, in order."""

    count: int
    files: Sequence[str]


def add_files(
    spark: SparkSession,
    table: Identifier,
    source: str | Sequence[str],
    *,
    partition_filter: Mapping[str, object] | None = None,
    recursive_directory: RecursiveDirectory = "fail",
    skip_unreadable: bool = False,
    progress: bool = True,
    catalog: Catalog | None = None,
) -> MigrationReport:
    """Append files that exist to an Iceberg table. Files that the table has already refuse the whole, before a footer
    is read; those that another writer adds at the same time are not compared.

    source: a Hive table (`db.table`), the location of a folder, or locations of files, as `late_files` gives them. A
    Hive table's files are placed by its partitions, others by their footers and by folders `column=value`.
    partition_filter: partition column -> value of a Hive table, as `{"month": 1}`: only partitions with these.
    The others: as those of `migrate`; of single files all must be readable.

    Raises NoSuchTable, InvalidInput; CannotMigrate, with the report, for files that cannot be taken over;
    CommitStateUnknown as a commit.
    """
    name = table_name(table)
    options = Options(recursive_directory, skip_unreadable, progress=progress)
    with driver_of(spark, catalog, f"add files to {name}") as driver:
        if not isinstance(source, str):
            return _append(driver, name, source)
        metadata = with_name_mapping(driver.catalog.load(name).metadata)
        takeover = Takeover(driver, name, metadata, options)
        folders = _folders(driver, metadata, source, partition_filter or {})
        _refuse_known(driver, takeover.work, metadata, folders)
        found = takeover.find(folders)
        try:
            return _committed(driver, name, takeover, found)
        finally:
            delete_progress(driver.services.ports.files, takeover.work.progress_folder)


def late_files(spark: SparkSession, table: Identifier, *, catalog: Catalog | None = None) -> LateFiles:
    """The files in the folders of a migrated table, as its Hive partitions are now, that are in none of its current
    snapshot's manifests: they came after the migration had listed their folder, or it left them out; `add_files` takes
    them. Raises NoSuchTable; InvalidInput if no migration made the table, or undo was given up."""
    name = table_name(table)
    with driver_of(spark, catalog, f"check {name}") as driver:
        services = driver.services
        row = services.coordinator.kind_changes(services.hive_tables).hive_row(name)
        source = MigrationSource.of(row, time_zone=driver.time_zone)
        metadata = driver.catalog.load(name).metadata
        work = Takeover(driver, name, metadata, Options("true")).work
        folders = source.folders(services.hive_tables.partitions(row))
        listed = Side(partial(_listed_keys, work), list(folder_groups(folders)))
        known = _known(driver, metadata)
        return LateFiles(*driver.executors.compare(listed, known, wanted="missing", named=_LATE_MAX))


def _append(driver: MigrationDriver, name: TableName, files: Sequence[str]) -> MigrationReport:
    report = driver.catalog.load_table(name).append(files)
    return MigrationReport(
        str(name),
        "done",
        files=len(files),
        metadata_location=report.metadata_location,
        snapshot_id=report.snapshot_ids[-1],
    )


def _committed(driver: MigrationDriver, name: TableName, takeover: Takeover, found: FoundFiles) -> MigrationReport:
    try:
        report = driver.catalog.commit_change(name, takeover.append(found))
    except CommitStateUnknown:
        raise
    except IcebergHmsError:
        delete_files(driver.services.ports.files, [each.manifest_path for each in found.manifests])
        raise
    return takeover.report(found, report.metadata_location)


def _folders(
    driver: MigrationDriver, metadata: TableMetadata, source: str, partition_filter: Mapping[str, object]
) -> Sequence[SourcePartition]:
    """Raises InvalidInput for a Hive table that is partitioned by columns by which the Iceberg table is not."""
    if "/" in source:
        if partition_filter:
            raise InvalidInput(
                f"{source} is a folder, and partition_filter is for Hive tables", next_step="name the folders you want"
            )
        return [SourcePartition("", source)]
    services = driver.services
    row = services.hive_tables.load_row(table_name(source))
    of = MigrationSource.of(row, time_zone=driver.time_zone)
    wanted = {key.lower(): str(value) for key, value in partition_filter.items()}
    keys = [each.name for each in row.partition_keys]
    if unknown := sorted(wanted.keys() - set(keys)):
        raise InvalidInput(
            f"{row.name} is not partitioned by {', '.join(unknown)}", next_step=f"its partition columns: {keys}"
        )
    # The metastore folds case.
    fields = {str(metadata.schema.name_of(each.source_id)).lower(): each for each in metadata.spec.fields}
    plain = {name for name, field in fields.items() if str(field.transform) == "identity"}
    if keys and (set(keys) != set(fields) or plain != set(fields)):
        raise InvalidInput(
            f"{row.name} is partitioned by {', '.join(keys)}, and the Iceberg table by "
            f"{', '.join(map(str, metadata.spec.fields)) or 'nothing'}",
            next_step="make the Iceberg table with the same partition columns, by identity",
        )
    chosen = (
        each
        for each in services.hive_tables.partitions(row)
        if all(dict(zip(keys, each.values, strict=True))[key] == value for key, value in wanted.items())
    )
    names = {column: field.name for column, field in fields.items()}
    return [_renamed(each, names) for each in of.folders(chosen)]


def _renamed(folder: SourcePartition, names: Mapping[str, str]) -> SourcePartition:
    """With the values under the names of the Iceberg table's partition fields."""
    values = None if folder.values is None else {names[name.lower()]: value for name, value in folder.values.items()}
    return SourcePartition(folder.name, folder.location, values, folder.file_format)


def _refuse_known(
    driver: MigrationDriver, work: Work, metadata: TableMetadata, folders: Sequence[SourcePartition]
) -> None:
    listed = Side(partial(_listed_keys, work), list(folder_groups(folders)))
    count, some = driver.executors.compare(listed, _known(driver, metadata), wanted="common", named=_NAMED_MAX)
    if count:
        raise InvalidInput(
            f"the table has {count} of these files already: {', '.join(some)}{', ...' if count > len(some) else ''}",
            next_step="name partitions or folders whose files the table has not",
        )


def _known(driver: MigrationDriver, metadata: TableMetadata) -> Side:
    """The live data files of a table's current snapshot."""
    snapshot = metadata.current_snapshot
    manifests = [] if snapshot is None else driver.services.ports.manifests().list(snapshot)
    return Side(partial(_known_keys, driver.services.settings), [each for each in manifests if each.has_live_files])


def _known_keys(settings: Settings, manifest: ManifestFile) -> Iterator[str]:
    stores = open_stores(settings)
    try:
        for entry in stores.manifests.open().entries([manifest]):
            if entry.is_live:
                yield file_key(entry.data_file.file_path)
    finally:
        stores.runtime.close()


def _listed_keys(work: Work, folders: Sequence[SourcePartition]) -> Iterator[str]:
    for each in listed_files(work, folders):
        yield file_key(each.location)
