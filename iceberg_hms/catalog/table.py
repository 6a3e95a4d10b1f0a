"""One table, for callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iceberg_hms.catalog.operations.evolution import EvolutionOperations
from iceberg_hms.catalog.operations.files import FileOperations
from iceberg_hms.catalog.operations.maintenance import MaintenanceOperations, ManifestOperations
from iceberg_hms.catalog.operations.refs import RefOperations
from iceberg_hms.catalog.scan import Scan, scan_of
from iceberg_hms.catalog.snapshot_changes import SnapshotChanges, changes_between
from iceberg_hms.catalog.table_access import LoadedTable, TableAccess
from iceberg_hms.catalog.time_travel import Timestamp, as_millis, snapshot_as_of
from iceberg_hms.catalog.transaction import Transaction
from iceberg_hms.changes.change import Change
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.staging.staging import RecordedWrites
from iceberg_hms.expressions import Expression, as_expression
from iceberg_hms.expressions.expression import ALWAYS_TRUE
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref, Snapshot, SnapshotLogEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortOrder


class Table(
    FileOperations[CommitReport],
    EvolutionOperations[CommitReport],
    MaintenanceOperations,
    ManifestOperations[CommitReport],
    RefOperations[CommitReport],
):
    """A table's state when this object loaded, refreshed or last committed to it. What it tells has PyIceberg's names.

    A commit does not depend on how old this state is: it applies to the current table, or raises the requirement that
    failed.
    """

    def __init__(self, access: TableAccess, name: TableName, metadata: TableMetadata, metadata_location: str) -> None:
        self._access = access
        self._name = name
        self.metadata = metadata
        self.metadata_location = metadata_location

    def __repr__(self) -> str:
        return f"Table({self._name}, {self.metadata_location})"

    def name(self) -> TableName:
        """The namespace and the name; as text "namespace.name"."""
        return self._name

    def location(self) -> str:
        """The folder below which new files are written."""
        return self.metadata.location

    @property
    def format_version(self) -> int:
        """1, 2 or 3."""
        return self.metadata.format_version

    @property
    def last_sequence_number(self) -> int:
        """Of the newest commit that added a snapshot; 0 in format version 1."""
        return self.metadata.last_sequence_number

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties."""
        return self.metadata.properties

    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.schema

    def schemas(self) -> Mapping[int, Schema]:
        """All schemas by id."""
        return self.metadata.schemas_by_id

    def spec(self) -> PartitionSpec:
        """The default partition spec, for new files."""
        return self.metadata.spec

    def specs(self) -> Mapping[int, PartitionSpec]:
        """All partition specs by id."""
        return self.metadata.specs_by_id

    def sort_order(self) -> SortOrder:
        """The default sort order, for new files."""
        return self.metadata.sort_order

    def sort_orders(self) -> Mapping[int, SortOrder]:
        """All sort orders by id."""
        return self.metadata.sort_orders_by_id

    def refresh(self) -> Table:
        """Load the current state; returns itself. Raises NoSuchTable."""
        self._take_over(self._access.load(self._name))
        return self

    def transaction(self, *, wait_seconds: float | None = None) -> Transaction:
        """Several operations in one swap: `with table.transaction() as tx: tx.append([...])`. All of them are made, or
        none is. See `Transaction`."""
        return Transaction(self._access, self._name, self.metadata, self._take_over, wait_seconds)

    def history(self) -> list[SnapshotLogEntry]:
        """The snapshot log, oldest first: which snapshot became the current one, and when."""
        return [SnapshotLogEntry(each["snapshot-id"], each["timestamp-ms"]) for each in self.metadata.snapshot_log]

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that the metadata holds, in its order."""
        return list(self.metadata.snapshots)

    def refs(self) -> Mapping[str, Ref]:
        """The branches and tags by name, with main if the table has a current snapshot."""
        return self.metadata.refs

    def current_snapshot(self) -> Snapshot | None:
        """The head of main; None for a table without snapshots."""
        return self.metadata.current_snapshot

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """A snapshot; None if the table has none of this id (any more)."""
        return self.metadata.snapshot_by_id(snapshot_id)

    def snapshot_by_name(self, name: str) -> Snapshot | None:
        """The head of a branch, or a tag's snapshot; None if the table has no such ref."""
        ref = self.metadata.ref(name)
        return None if ref is None else self.metadata.snapshot_by_id(ref.snapshot_id)

    def snapshot_as_of_timestamp(self, timestamp_ms: Timestamp, inclusive: bool = True) -> Snapshot | None:
        """The snapshot that was current at a time, as `TIMESTAMP AS OF` reads it: by the snapshot log, so that a time
        between a rollback and what it undid finds what was current then. None if the log does not go back so far.

        timestamp_ms: milliseconds since 1970 UTC, or a datetime with a time zone. inclusive: whether what became
        current at that very time counts. Raises InvalidInput for a datetime without a time zone."""
        return snapshot_as_of(self.metadata, as_millis(timestamp_ms, round_up=not inclusive), inclusive=inclusive)

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

    def scan(
        self,
        where: str | Expression | None = None,
        columns: Sequence[str] | None = None,
        *,
        snapshot_id: int | None = None,
        branch: str | None = None,
        as_of: Timestamp | None = None,
        case_sensitive: bool = True,
    ) -> Scan:
        """Which files a reader of the table reads: `table.scan("level = 'ERROR'").plan()` is an Arrow table of them.

        where: rows that are wanted, as text or expression; None: all. Files that can have none are left out.
        columns: names of the columns that are wanted; None: all. They are checked; the files are the same.
        snapshot_id, branch, as_of: what to read: a snapshot, a branch or tag, or what was current at a time
        (milliseconds since 1970 UTC, or a datetime with a time zone). None of them: main, as this object has it.
        Names are those of the table's columns; of an older snapshot, of the columns that it had, if they fit those.
        case_sensitive: whether the filter and `columns` have to spell them as the schema does.
        Raises InvalidInput for a column, a snapshot, a branch or a time that the table does not have."""
        return scan_of(
            str(self._name),
            self.metadata,
            self._access.services,
            where=ALWAYS_TRUE if where is None else as_expression(where),
            columns=columns,
            snapshot_id=snapshot_id,
            branch=branch,
            as_of=as_of,
            case_sensitive=case_sensitive,
        )

    def _submit(
        self,
        change: Change,
        *,
        wait_seconds: float | None = None,
        size: int = 0,
        prepared: Sequence[str] = (),
    ) -> CommitReport:
        report = self._access.commit(self._name, change, wait_seconds, size=size, prepared=prepared)
        self._take_over(report)
        return report

    def _open_manifests(self) -> RecordedWrites:
        return RecordedWrites(self._access.services.ports.manifests())

    def _nothing_to_do(self) -> CommitReport:
        return CommitReport(self._name, self.metadata_location, self.metadata)

    def _take_over(self, state: LoadedTable | CommitReport) -> None:
        self.metadata = state.metadata
        self.metadata_location = str(state.metadata_location)
