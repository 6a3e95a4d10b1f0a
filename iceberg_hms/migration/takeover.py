"""What all migrations have in common: files that exist become data files of an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import iceberg_hms
from iceberg_hms.catalog.services import Services
from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.files.append_manifests import AppendManifests
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.hive_ports import PROGRESS_FOLDER
from iceberg_hms.coordinator.log_and_continue import SWEEP, log_and_continue
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CannotMigrate, IcebergHmsError
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, mapping_text
from iceberg_hms.format.updates.create import create_updates
from iceberg_hms.migration.driver import MigrationDriver
from iceberg_hms.migration.found_files import FoundFiles, find_files, nobody_listens
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.progress import delete_progress
from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.work import RecursiveDirectory, SourcePartition, Work


@dataclass(frozen=True, slots=True)
class Options:
    """How files are taken over; the arguments of `migrate`. A run with `dry_run` writes nothing."""

    recursive_directory: RecursiveDirectory = "fail"
    skip_unreadable: bool = False
    dry_run: bool = False
    progress: bool = True
    on_stage: Callable[[str], None] = nobody_listens
    ignore_keys: Collection[str] = ()


class Takeover:
    """Files become those of one table.

    table: which gets them. metadata: of that table, with a name mapping: by them the files are described.
    is_new: whether the table is to be made (`creation`): its name mapping gets the names of files' columns.
    resumes: whether it goes on from an earlier run. That is for a table that is to be made: elsewhere an earlier run
    may have committed its manifests, and others may run at the same time."""

    def __init__(
        self,
        driver: MigrationDriver,
        table: TableName,
        metadata: TableMetadata,
        options: Options,
        *,
        is_new: bool = False,
        resumes: bool = False,
    ) -> None:
        self._driver = driver
        self._services: Services = driver.services
        self._table = table
        self._metadata = metadata
        self._options = options
        self._started = self._services.ports.runtime.now()
        self._snapshot_id = self._services.new_snapshot_id()
        self._manifests: list[str] = []
        folder = metadata_file.folder(metadata)
        progress = f"{folder}/{PROGRESS_FOLDER}"
        self.work = Work(
            settings=self._services.settings,
            metadata=metadata_file.encode(metadata),
            snapshot_id=self._snapshot_id,
            manifest_folder=folder,
            progress_folder=progress if resumes else f"{progress}/{self._snapshot_id}",
            recursive_directory=options.recursive_directory,
            skip_unreadable=options.skip_unreadable,
            dry_run=options.dry_run,
            adds_names=is_new,
            release=iceberg_hms.__version__,
        )

    def find(self, folders: Sequence[SourcePartition], problems: Problems) -> FoundFiles:
        """List and describe the files in folders. problems: of partitions whose folders are not among these."""
        options = self._options
        found = find_files(
            self._driver.executors, self.work, folders, problems, progress=options.progress, on_stage=options.on_stage
        )
        self._manifests += [each.manifest_path for each in found.manifests]
        return found

    def check(self, found: FoundFiles) -> None:
        """Raises CannotMigrate, with the report, if a file cannot be taken over, unless such files are left out."""
        if found.problem_count and not self._options.skip_unreadable:
            raise self._refused(found)

    def forget(self) -> None:
        """Delete the progress, which no run goes on from."""
        with log_and_continue(f"deleting the progress of the migration of {self._table}", SWEEP):
            delete_progress(self._services.ports, self._table, self.work.progress_folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """For a run that no other goes on from: its progress is deleted in the end, and so are its manifests if it is
        proved that the block failed."""
        try:
            with self._deleting(self._manifests):
                yield
        finally:
            self.forget()

    @contextmanager
    def _deleting(self, written: Sequence[str]) -> Iterator[None]:
        """Deletes files if it is proved that the block failed."""
        try:
            yield
        except IcebergHmsError as error:
            if error.proved_failed:
                delete_files(self._services.ports, self._table, written)
            raise

    @contextmanager
    def creation(self, found: FoundFiles) -> Iterator[list[Update]]:
        """The updates that make the table with these files. Their manifest list is written, and deleted if it is proved
        that the block failed."""
        metadata = self._metadata.replace(
            properties={**self._metadata.properties, NAME_MAPPING: mapping_text(self._metadata.schema, found.names)}
        )
        updates: list[Update] = [*create_updates(metadata)]
        written: list[str] = []
        with self._deleting(written):
            if found.manifests:
                manifests = self._services.ports.manifests()
                staged = self._append(found, metadata).stage(metadata, manifests)
                written += staged.files
                manifests.flush()
                updates += staged.updates
            yield updates

    def append(self, found: FoundFiles) -> AppendManifests:
        """The operation that adds the files to the table, if it can still read them."""
        return self._append(found, self._metadata)

    def _append(self, found: FoundFiles, metadata: TableMetadata) -> AppendManifests:
        new = NewSnapshot(
            snapshot_id=self._snapshot_id,
            table_uuid=metadata.uuid,
            now_ms=self._services.ports.runtime.now_ms,
            caller=self._services.settings.user,
        )
        fit = NewDataFiles(
            (),
            snapshot_id=self._snapshot_id,
            schema_id=metadata.current_schema_id,
            schema=metadata.schema,
            specs={metadata.default_spec_id: metadata.spec},
            name_mapping=metadata.properties.get(NAME_MAPPING),
        )
        return AppendManifests(
            new,
            fit,
            [replace(each, added_snapshot_id=self._snapshot_id) for each in found.manifests],
            format_version=metadata.format_version,
            files=found.files,
            records=found.records,
            size=found.size,
            partitions=found.filled_partitions,
        )

    def report(self, found: FoundFiles, metadata_location: str | None = None) -> MigrationReport:
        """What was done so far. metadata_location: of the table, once it has the files."""
        is_made = metadata_location is not None and bool(found.manifests)
        return MigrationReport(
            str(self._table),
            "dry run" if self._options.dry_run else "done",
            partitions=found.partitions,
            files=found.files,
            records=found.records,
            size=found.size,
            reused_files=found.reused,
            problems=found.problems,
            problem_count=found.problem_count,
            metadata_location=metadata_location,
            snapshot_id=self._snapshot_id if is_made else None,
            seconds=self._services.ports.runtime.now() - self._started,
        )

    def _refused(self, found: FoundFiles) -> CannotMigrate:
        first = found.problems[0]
        where = f"{first.location} (partition {first.partition})" if first.partition else first.location
        more = f"; and {found.problem_count - 1} more problems" if found.problem_count > 1 else ""
        message = f"{self._table} cannot take over {where}: {first.reason}{more}"
        report = replace(self.report(found), outcome="failed", error=message)
        return CannotMigrate(message, next_step=first.next_step or None, report=report)


def with_name_mapping(metadata: TableMetadata) -> TableMetadata:
    """With the names by which readers find the columns of files without field ids, if it has none yet."""
    return metadata.replace(properties={NAME_MAPPING: mapping_text(metadata.schema), **metadata.properties})
