"""One table, for callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iceberg_hms.catalog.operations.evolution import EvolutionOperations
from iceberg_hms.catalog.operations.files import FileOperations
from iceberg_hms.catalog.operations.maintenance import MaintenanceOperations, ManifestOperations
from iceberg_hms.catalog.operations.refs import RefOperations
from iceberg_hms.catalog.snapshot_changes import SnapshotChanges, changes_between
from iceberg_hms.catalog.table_access import LoadedTable, TableAccess
from iceberg_hms.catalog.time_travel import Timestamp, as_millis, snapshot_as_of
from iceberg_hms.catalog.transaction import Transaction
from iceberg_hms.changes.change import Change
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.staging.staging import RecordedWrites
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema


class Table(
    FileOperations[CommitReport],
    EvolutionOperations[CommitReport],
    MaintenanceOperations,
    ManifestOperations[CommitReport],
    RefOperations[CommitReport],
):
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
        self._take_over(self._access.load(self.name))
        return self

    def transaction(self, *, wait_seconds: float | None = None) -> Transaction:
        """Several operations in one swap: `with table.transaction() as tx: tx.append([...])`. All of them are made, or
        none is. See `Transaction`."""
        return Transaction(self._access, self.name, self.metadata, self._take_over, wait_seconds)

    def history(self) -> list[Mapping[str, int]]:
        """The snapshot log, oldest first: `snapshot-id` became the current snapshot at `timestamp-ms`."""
        return list(self.metadata.snapshot_log)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that the metadata holds, in its order."""
        return list(self.metadata.snapshots)

    @property
    def refs(self) -> Mapping[str, Ref]:
        """The branches and tags by name, with main if the table has a current snapshot."""
        return self.metadata.refs

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """A snapshot; None if the table has none of this id (any more)."""
        return self.metadata.snapshot_by_id(snapshot_id)

    def snapshot_as_of(self, timestamp: Timestamp) -> Snapshot:
        """The snapshot that was current at a time, as `TIMESTAMP AS OF` reads it: by the snapshot log, so that a time
        between a rollback and what it undid finds what was current then.

        timestamp: milliseconds since 1970 UTC, or a datetime with a time zone. Raises InvalidInput for a datetime
        without one, and if the log does not go back so far."""
        return snapshot_as_of(self.metadata, as_millis(timestamp))

    def ancestors(self, of: int | str = MAIN_BRANCH) -> list[Snapshot]:
        """A snapshot and its ancestors, newest first, as far as the table still has them; empty if it has no such
        snapshot or ref. of: a snapshot's id, or a branch or tag."""
        ref = self.metadata.ref(of) if isinstance(of, str) else Ref(of)
        return [] if ref is None else list(self.metadata.ancestors(ref.snapshot_id))

    def changes(self, from_snapshot: int | str | None = None, to_snapshot: int | str = MAIN_BRANCH) -> SnapshotChanges:
        """The files that the snapshots after one, up to and with another one, added and removed.

        from_snapshot, to_snapshot: a snapshot's id, or a branch or tag. from_snapshot may have expired, as long as no
        snapshot after it has; None: since the beginning. Raises InvalidInput if the table has no such snapshot, and if
        the first is no ancestor of the second, or the way between them has expired."""
        return changes_between(self.metadata, from_snapshot, to_snapshot, self._access.services.ports.manifests())

    def _submit(
        self,
        change: Change,
        *,
        wait_seconds: float | None = None,
        size: int = 0,
        prepared: Sequence[str] = (),
    ) -> CommitReport:
        report = self._access.commit(self.name, change, wait_seconds, size=size, prepared=prepared)
        self._take_over(report)
        return report

    def _open_manifests(self) -> RecordedWrites:
        return RecordedWrites(self._access.services.ports.manifests())

    def _nothing_to_do(self) -> CommitReport:
        return CommitReport(self.name, self.metadata_location, self.metadata)

    def _take_over(self, state: LoadedTable | CommitReport) -> None:
        self.metadata = state.metadata
        self.metadata_location = str(state.metadata_location)
