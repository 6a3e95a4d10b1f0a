"""Files that exist become files of an Iceberg table that exists; and which files of its folders a table has not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import shown
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.identifiers import Identifier, table_name
from iceberg_hms.migration.column_defaults import EXISTS_DEFAULT
from iceberg_hms.migration.driver import MigrationDriver, driver_of
from iceberg_hms.migration.file_keys import folder_keys, manifest_keys
from iceberg_hms.migration.found_files import folder_groups
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.source import MigrationSource, location_of
from iceberg_hms.migration.takeover import Options, Takeover, with_name_mapping
from iceberg_hms.migration.work import RecursiveDirectory, Side, SourcePartition, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many files an error names.
_NAMED_MAX: Final = 5
#: How many files `LateFiles` names.
LATE_FILES_MAX: Final = 10_000


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
    ignore_keys: Collection[str] = (),
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
    options = Options(recursive_directory, skip_unreadable, progress=progress, ignore_keys=ignore_keys)
    with driver_of(spark, catalog, f"add files to {name}") as driver:
        return take_files(driver, name, source, partition_filter or {}, options)


def take_files(
    driver: MigrationDriver,
    name: TableName,
    source: str | Sequence[str],
    partition_filter: Mapping[str, object],
    options: Options,
) -> MigrationReport:
    """As `add_files`, with a driver that is open."""
    if partition_filter and (not isinstance(source, str) or "/" in source):
        raise InvalidInput(
            "partition_filter is for Hive tables, and the source is a folder or files",
            next_step="name the folders or files that you want",
        )
    if not isinstance(source, str):
        return _append(driver, name, source)
    metadata = with_name_mapping(driver.catalog.load(name).metadata)
    takeover, problems = Takeover(driver, name, metadata, options), Problems()
    folders = _folders(driver, metadata, source, partition_filter, options, problems)
    _refuse_known(driver, takeover.work, metadata, folders)
    with takeover.alone():
        found = takeover.find(folders, problems)
        takeover.check(found)
        made = driver.catalog.commit_change(name, takeover.append(found)) if found.manifests else None
    return takeover.report(found, None if made is None else made.metadata_location)


def late_files(spark: SparkSession, table: Identifier, *, catalog: Catalog | None = None) -> LateFiles:
    """The files in the folders of a migrated table, as its Hive partitions are now, that no snapshot of it has or had:
    they came after the migration had listed their folder, or it left them out; `add_files` takes them. Symbolic links
    are named too, which a migration does not follow.

    Raises NoSuchTable; InvalidInput if no migration made the table, or undo was given up.
    """
    name = table_name(table)
    with driver_of(spark, catalog, f"check {name}") as driver:
        return find_late_files(driver, name)


def find_late_files(driver: MigrationDriver, name: TableName) -> LateFiles:
    """As `late_files`, with a driver that is open."""
    services = driver.services
    row = services.coordinator.kind_changes(services.hive_tables).hive_row(name)
    metadata = driver.catalog.load(name).metadata
    work = Takeover(driver, name, metadata, Options("true")).work
    # Not by `MigrationSource`: a table or a partition that the migration left out for its value has files all the same.
    places = (
        [each.location for each in services.hive_tables.partitions(row)] if row.partition_keys else [location_of(row)]
    )
    listed = Side(partial(folder_keys, work), folder_groups([SourcePartition("", each) for each in places]))
    known = _known(driver, metadata.snapshots, live=False)
    return LateFiles(*driver.executors.compare(listed, known, wanted="missing", named=LATE_FILES_MAX))


def _append(driver: MigrationDriver, name: TableName, files: Sequence[str]) -> MigrationReport:
    report = driver.catalog.load_table(name).append(files)
    return MigrationReport(
        str(name),
        "done",
        files=len(files),
        metadata_location=report.metadata_location,
        snapshot_id=report.snapshot_ids[-1],
    )


def _folders(
    driver: MigrationDriver,
    metadata: TableMetadata,
    source: str,
    partition_filter: Mapping[str, object],
    options: Options,
    problems: Problems,
) -> Sequence[SourcePartition]:
    """Raises InvalidInput for a Hive table that `MigrationSource` refuses, that is partitioned by columns by which the
    Iceberg table is not, or whose columns have other defaults; and for a filter that no partition passes."""
    if "/" in source:
        return [SourcePartition("", source)]
    services = driver.services
    row = services.hive_tables.load_row(table_name(source))
    of = MigrationSource.of(
        row,
        time_zone=driver.time_zone,
        ignored=options.ignore_keys,
        format_version=metadata.format_version,
    )
    _check_defaults(of, metadata)
    wanted = {key.lower(): value for key, value in partition_filter.items()}
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
    chosen = [each for each in services.hive_tables.partitions(row) if of.has(each, wanted)]
    if wanted and not chosen:
        raise InvalidInput(
            f"{row.name} has no partition with {', '.join(f'{key}={value}' for key, value in wanted.items())}",
            next_step="name values that it has: SHOW PARTITIONS",
        )
    names = {column: field.name for column, field in fields.items()}
    return [_renamed(each, names) for each in of.folders(chosen, problems)]


def _check_defaults(source: MigrationSource, metadata: TableMetadata) -> None:
    """Raises InvalidInput for a column that would read otherwise in files that lack it."""
    if EXISTS_DEFAULT.lower() in source.ignored:
        return
    defaults = {field.name.lower(): field.initial_default for field in metadata.schema.fields}
    for field in source.schema.fields:
        default = defaults.get(field.name.lower())
        if default is not None:
            raise InvalidInput(
                f"{source.name}: column {field.name}: files that lack it have null in the Hive table, and would have "
                f"{shown(default)} in the Iceberg table",
                next_step=f"if no file lacks the column, let that pass: ignore_keys=['{EXISTS_DEFAULT}']",
            )


def _renamed(folder: SourcePartition, names: Mapping[str, str]) -> SourcePartition:
    """With the values under the names of the Iceberg table's partition fields."""
    values = None if folder.values is None else {names[name.lower()]: value for name, value in folder.values.items()}
    return SourcePartition(folder.name, folder.location, values, folder.file_format)


def _refuse_known(
    driver: MigrationDriver, work: Work, metadata: TableMetadata, folders: Sequence[SourcePartition]
) -> None:
    current = metadata.current_snapshot
    listed = Side(partial(folder_keys, work), folder_groups(folders))
    known = _known(driver, [] if current is None else [current], live=True)
    count, some = driver.executors.compare(listed, known, wanted="common", named=_NAMED_MAX)
    if count:
        raise InvalidInput(
            f"the table has {count} of these files already: {', '.join(some)}{', ...' if count > len(some) else ''}",
            next_step="name partitions or folders whose files the table has not",
        )


def _known(driver: MigrationDriver, snapshots: Iterable[Snapshot], *, live: bool) -> Side:
    """The data files of snapshots. live: not those that they have deleted."""
    manifests = driver.services.ports.manifests()
    found = {each.manifest_path: each for snapshot in snapshots for each in manifests.list(snapshot)}
    wanted = [each for each in found.values() if each.has_live_files or not live]
    return Side(partial(manifest_keys, driver.services.settings, live), wanted)
