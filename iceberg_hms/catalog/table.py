"""One table, for callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.append import Append
from iceberg_hms.changes.change import Change, ChangeIdentity
from iceberg_hms.changes.reruns import Rerun
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.datafiles.footers import DescribedFile, describe_parquet, needed_name_mapping, refuse_extra_columns
from iceberg_hms.datafiles.parquet_columns import NAME_MAPPING
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema

if TYPE_CHECKING:
    from iceberg_hms.catalog.catalog import Catalog

#: About what the record of a data file takes while its append waits: path, counts, and bounds of some columns.
_FILE_BYTES: Final = 1_000


class Table:
    """A table as it was when it was loaded, refreshed, or last committed to through this object.

    A commit never depends on how old this view is: it lands on the table as it is then, or names the assumption that
    broke.
    """

    def __init__(self, catalog: Catalog, name: TableName, metadata: TableMetadata, metadata_location: str) -> None:
        self._catalog = catalog
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
        """The default partition spec, which new files are written with."""
        return self.metadata.spec

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties."""
        return self.metadata.properties

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The head of main; None while the table is empty."""
        return self.metadata.current_snapshot

    def refresh(self) -> Table:
        """Look at the table as it is now; returns itself. Raises NoSuchTable."""
        loaded = self._catalog.load(self.name)
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
        """Add data files that are there already.

        files: locations of Parquet files, whose footers give schema match, counts and bounds, or DataFile records.
        branch: which branch they are added to; it is created from main if it is not there.
        summary: further properties of the snapshot.
        idempotency_key: a job's own key; a rerun with the same key and the same files finds its first commit and adds
        nothing. The key of another job, whose snapshot is in the branch's history and added other files, is refused.
        on_extra_columns: what to do with a file that has a column that the table lacks. "refuse": InvalidInput names
        the columns, since PyIceberg cannot read a table with such a file. "ignore": add it; Spark and Java skip the
        column. A column that was dropped from the table, with its field id, is no extra one. DataFile records are not
        looked at.
        check_duplicates: whether a file that is live in the branch is refused, given as a path or as a record: its rows
        would be there twice. The first append of a process reads every manifest of the branch for that, later ones only
        those that are new.
        Lands on whatever the table is then, as often as it moves. Raises InvalidInput (a file that does not fit the
        table, or is named twice), MissingFile, RequirementFailed (replaced table, dropped schema or spec, a schema that
        gives the files' columns another meaning: see `changes.append.Append.check`, a file that the branch has already,
        another job's key: delete none of the files), CommitStateUnknown.
        """
        if not files:
            raise InvalidInput("there is nothing to append", next_step="give at least one file")
        if on_extra_columns not in ("refuse", "ignore"):
            raise InvalidInput(f'on_extra_columns must be "refuse" or "ignore", but is {on_extra_columns!r}')
        custom = summaries.check_custom(summary or {}, idempotency_key)
        try:
            described = self._described(files, on_extra_columns)
        except IcebergHmsError as error:
            return self._first_run(files, branch, custom.get(summaries.IDEMPOTENCY_KEY), error, wait_seconds)
        data_files = [file if isinstance(file, DataFile) else described[file].data_file for file in files]
        clock = self._catalog.services.world.runtime
        change = Append(
            data_files,
            branch=branch,
            summary=summary,
            idempotency_key=idempotency_key,
            snapshot_id=self._catalog.services.new_snapshot_id(),
            schema_id=self.metadata.current_schema_id,
            spec_id=self.metadata.default_spec_id,
            table_uuid=self.metadata.uuid,
            now_ms=clock.now_ms,
            caller=self._catalog.settings.user,
            name_mapping=needed_name_mapping(self.metadata, list(described.values())),
            check_duplicates=check_duplicates,
            schema=self.metadata.schema,
            spec=self.metadata.spec_by_id(self.metadata.default_spec_id),
        )
        # Here, where no other writer waits for it; the commit looks only through what is new since.
        change.look_ahead(self.metadata, self._catalog.services.world.manifests())
        return self._commit(change, wait_seconds, size=_FILE_BYTES * len(data_files))

    def history(self) -> list[Mapping[str, int]]:
        """The snapshot log, oldest first: from `timestamp-ms` on `snapshot-id` was the current snapshot."""
        return list(self.metadata.snapshot_log)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that the metadata holds, in its order."""
        return list(self.metadata.snapshots)

    def _commit(self, change: Change, wait_seconds: float | None, *, size: int) -> CommitReport:
        report = self._catalog.commit_change(self.name, change, wait_seconds=wait_seconds, size=size)
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
        """The report of a job's first run, for a rerun whose files cannot be described. Raises `error` if there was
        none."""
        if key is None:
            raise error
        paths = (file if isinstance(file, str) else file.file_path for file in files)
        identity = ChangeIdentity(
            snapshot_ids=(self._catalog.services.new_snapshot_id(),),
            ref=branch,
            idempotency_key=key,
            files=frozenset(map(file_key, paths)),
            caller=self._catalog.settings.user,
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
        """Look whether columns came since the table was looked at, which is often older than the files. If so, it is
        as it is now from here on; a table that took the name of this one is not taken for it."""
        loaded, known = self._catalog.load(self.name), self.metadata
        mapping = loaded.metadata.properties.get(NAME_MAPPING)
        same_columns = loaded.metadata.schema.same_as(known.schema) and mapping == known.properties.get(NAME_MAPPING)
        if loaded.metadata.uuid != known.uuid or same_columns:
            return False
        self._take(loaded.metadata, str(loaded.metadata_location))
        return True

    def _describe(self, locations: Sequence[str]) -> dict[str, DescribedFile]:
        """Read footers, `io.threads` at a time."""
        found: dict[str, DescribedFile] = {}
        services = self._catalog.services
        width = services.settings.io_threads
        for start in range(0, len(locations), width):
            batch = locations[start : start + width]
            reads = [partial(describe_parquet, each, self.metadata, services.open_input) for each in batch]
            found.update(zip(batch, services.world.runtime.gather(reads), strict=True))
        return found

    def _take(self, metadata: TableMetadata, location: str) -> None:
        self.metadata = metadata
        self.metadata_location = location
