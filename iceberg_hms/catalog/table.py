"""One table, for callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Literal

from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.append import Append
from iceberg_hms.changes.change import Change, ChangeIdentity
from iceberg_hms.changes.reruns import Rerun
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.datafiles.footers import DescribedFile, describe_parquet, needed_name_mapping, refuse_extra_columns
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema

#: About how many bytes the record of a data file takes in the queue: path, counts, bounds of some columns.
_FILE_BYTES: Final = 1_000


class Table:
    """A table's state when this object loaded, refreshed or last committed to it.

    A commit does not depend on how old this state is: it applies to the current table, or raises the requirement that
    failed.
    """

    def __init__(self, access: TableAccess, name: TableName, metadata: TableMetadata, metadata_location: str) -> None:
        self._access = access
        self.name = name
        self.metadata = metadata
        self.metadata_location = metadata_location

    def __repr__(self) -> str:
        return f"Table({self.name}, {self.metadata_location})"

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec, for new files."""
        return self.metadata.spec

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties."""
        return self.metadata.properties

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The head of main; None for a table without snapshots."""
        return self.metadata.current_snapshot

    def refresh(self) -> Table:
        """Load the current state; returns itself. Raises NoSuchTable."""
        loaded = self._access.load(self.name)
        self._take(loaded.metadata, str(loaded.metadata_location))
        return self

    def append(
        self,
        files: Sequence[str | DataFile],
        *,
        branch: str = "main",
        summary: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        check_duplicates: bool = True,
        wait_seconds: float | None = None,
        on_extra_columns: Literal["refuse", "ignore"] = "refuse",
    ) -> CommitReport:
        """Add existing data files.

        files: locations of Parquet files, whose footers give schema match, counts and bounds, or DataFile records.
        branch: the branch to add them to; created from main if it does not exist.
        summary: further properties of the snapshot.
        idempotency_key: a job's own key; a rerun with the same key and the same files finds its first commit and adds
        nothing. The key of another job, whose snapshot is in the branch's history and added other files, is refused.
        on_extra_columns: what to do with a file that has a column that the table lacks. "refuse": InvalidInput names
        the columns, since PyIceberg cannot read a table with such a file. "ignore": add it; Spark and Java skip the
        column. A column that was dropped from the table, with its field id, is no extra one. DataFile records are not
        checked.
        check_duplicates: whether a file that is live in the branch is refused, given as a path or as a record: its rows
        would be there twice. The first append of a process reads every manifest of the branch for that, later ones only
        those that are new.
        Applies to the current table, however often it moves. Raises InvalidInput (a file that does not fit the
        table, or is named twice), MissingFile, RequirementFailed (replaced table, dropped schema or spec, a schema that
        gives the files' columns another meaning: see `changes.append.Append.check`, a file that the branch has already,
        another job's key: delete none of the files), CommitStateUnknown.
        """
        if not files:
            raise InvalidInput("nothing to append", next_step="give at least one file")
        if on_extra_columns not in ("refuse", "ignore"):
            raise InvalidInput(f'on_extra_columns must be "refuse" or "ignore", but is {on_extra_columns!r}')
        custom = summaries.check_custom(summary or {}, idempotency_key)
        try:
            described = self._described(files, on_extra_columns)
        except IcebergHmsError as error:
            return self._first_run(files, branch, custom.get(summaries.IDEMPOTENCY_KEY), error, wait_seconds)
        data_files = [file if isinstance(file, DataFile) else described[file].data_file for file in files]
        clock = self._access.services.ports.runtime
        change = Append(
            data_files,
            branch=branch,
            summary=summary,
            idempotency_key=idempotency_key,
            snapshot_id=self._access.services.new_snapshot_id(),
            schema_id=self.metadata.current_schema_id,
            spec_id=self.metadata.default_spec_id,
            table_uuid=self.metadata.uuid,
            now_ms=clock.now_ms,
            caller=self._access.services.settings.user,
            name_mapping=needed_name_mapping(self.metadata, list(described.values())),
            check_duplicates=check_duplicates,
            schema=self.metadata.schema,
            spec=self.metadata.spec_by_id(self.metadata.default_spec_id),
        )
        # Before the commit, so that no other writer waits for it; the commit then reads only newer manifests.
        change.look_ahead(self.metadata, self._access.services.ports.manifests())
        return self._commit(change, wait_seconds, size=_FILE_BYTES * len(data_files))

    def history(self) -> list[Mapping[str, int]]:
        """The snapshot log, oldest first: `snapshot-id` became the current snapshot at `timestamp-ms`."""
        return list(self.metadata.snapshot_log)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that the metadata holds, in its order."""
        return list(self.metadata.snapshots)

    def _commit(self, change: Change, wait_seconds: float | None, *, size: int) -> CommitReport:
        report = self._access.commit(self.name, change, wait_seconds, size=size)
        self._take(report.metadata, report.metadata_location)
        return report

    def _first_run(
        self,
        files: Sequence[str | DataFile],
        branch: str,
        key: str | None,
        error: IcebergHmsError,
        wait_seconds: float | None,
    ) -> CommitReport:
        """The report of a job's first run, for a rerun whose files cannot be read. Raises `error` if there was no first
        run."""
        if key is None:
            raise error
        paths = (file if isinstance(file, str) else file.file_path for file in files)
        identity = ChangeIdentity(
            snapshot_ids=(self._access.services.new_snapshot_id(),),
            ref=branch,
            idempotency_key=key,
            files=frozenset(map(file_key, paths)),
            caller=self._access.services.settings.user,
        )
        return self._commit(Rerun(identity, error), wait_seconds, size=0)

    def _described(self, files: Sequence[str | DataFile], on_extra_columns: str) -> dict[str, DescribedFile]:
        locations = [file for file in files if isinstance(file, str)]
        described = self._describe(locations)
        if on_extra_columns == "refuse":
            if any(each.extra_columns for each in described.values()) and self._schema_moved():
                described = self._describe(locations)
            refuse_extra_columns(described.values())
        return described

    def _schema_moved(self) -> bool:
        """Reload the table, and return whether its columns changed: the loaded state is often older than the files.
        Takes over the new state then; a replacement table of the same name does not count."""
        loaded, known = self._access.load(self.name), self.metadata
        mapping = loaded.metadata.properties.get(NAME_MAPPING)
        same_columns = loaded.metadata.schema.same_as(known.schema) and mapping == known.properties.get(NAME_MAPPING)
        if loaded.metadata.uuid != known.uuid or same_columns:
            return False
        self._take(loaded.metadata, str(loaded.metadata_location))
        return True

    def _describe(self, locations: Sequence[str]) -> dict[str, DescribedFile]:
        """Read footers, `io.threads` at a time."""
        found: dict[str, DescribedFile] = {}
        services = self._access.services
        width = services.settings.io_threads
        for start in range(0, len(locations), width):
            batch = locations[start : start + width]
            reads = [partial(describe_parquet, each, self.metadata, services.open_input) for each in batch]
            found.update(zip(batch, services.ports.runtime.gather(reads), strict=True))
        return found

    def _take(self, metadata: TableMetadata, location: str) -> None:
        self.metadata = metadata
        self.metadata_location = location
