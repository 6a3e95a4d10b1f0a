"""One table, for callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iceberg_hms.catalog.operations.files import FileOperations
from iceberg_hms.catalog.operations.manifests import ManifestOperations
from iceberg_hms.catalog.operations.submitter import head_of
from iceberg_hms.catalog.table_access import LoadedTable, TableAccess
from iceberg_hms.catalog.transaction import Transaction
from iceberg_hms.changes.change import Change
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.coordinator.protocol.staging import RecordedWrites
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema


class Table(FileOperations[CommitReport], ManifestOperations[CommitReport]):
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

    def transaction(self, *, wait_seconds: float | None = None) -> Transaction:
        """Several operations in one swap: `with table.transaction() as tx: tx.append([...])`. All of them are made, or
        none is. See `Transaction`."""
        return Transaction(self._access, self.name, self.metadata, self._take_report, wait_seconds)

    def history(self) -> list[Mapping[str, int]]:
        """The snapshot log, oldest first: `snapshot-id` became the current snapshot at `timestamp-ms`."""
        return list(self.metadata.snapshot_log)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that the metadata holds, in its order."""
        return list(self.metadata.snapshots)

    def _submit(
        self,
        change: Change,
        *,
        wait_seconds: float | None = None,
        size: int = 0,
        prepared: Sequence[str] = (),
    ) -> CommitReport:
        report = self._access.commit(self.name, change, wait_seconds, size=size, prepared=prepared)
        self._take_report(report)
        return report

    def _open_manifests(self) -> RecordedWrites:
        return RecordedWrites(self._access.services.ports.manifests())

    def _nothing_to_do(self) -> CommitReport:
        return CommitReport(self.name, self.metadata_location, self.metadata)

    def _start_id(self, branch: str) -> int | None:
        return head_of(self.metadata, branch)

    def _take_over(self, loaded: LoadedTable) -> None:
        self._take(loaded.metadata, str(loaded.metadata_location))

    def _take_report(self, report: CommitReport) -> None:
        self._take(report.metadata, report.metadata_location)

    def _take(self, metadata: TableMetadata, location: str) -> None:
        self.metadata = metadata
        self.metadata_location = location
