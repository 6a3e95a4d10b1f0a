"""What a table and a transaction have in common: operations are planned on a state, and submitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.changes.change import Change
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot, SnapshotOperation
from iceberg_hms.changes.summary import with_wap_id
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.staging.staging import RecordedWrites
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: What an operation returns: a CommitReport from a table, None as a step of a transaction.
Result = TypeVar("Result")


class Submitter(ABC, Generic[Result]):
    """Base of the operations' mixins.

    metadata: the state that operations are planned on: the loaded table, or what a transaction has made of it.
    """

    metadata: TableMetadata
    _name: TableName
    _access: TableAccess

    @abstractmethod
    def _submit(
        self,
        change: Change,
        *,
        wait_seconds: float | None = None,
        size: int = 0,
        prepared: Sequence[str] = (),
    ) -> Result:
        """Commit a change, or make it a step.

        wait_seconds: None: long enough to outlive a dead writer's lock. size: about how many bytes the change holds
        while it waits. prepared: what the change wrote already."""

    @abstractmethod
    def _open_manifests(self) -> RecordedWrites:
        """The manifests of the state that operations are planned on; with the lists that earlier steps staged."""

    @abstractmethod
    def _nothing_to_do(self) -> Result:
        """What an operation returns that would change nothing."""

    @property
    def _start_metadata(self) -> TableMetadata:
        """The state that the caller saw, before any step of a transaction."""
        return self.metadata

    @property
    def _earlier_ids(self) -> frozenset[int]:
        """The snapshots that earlier steps of the same transaction add."""
        return frozenset()

    def _new_snapshot(
        self,
        branch: str,
        summary: Mapping[str, str] | None,
        idempotency_key: str | None,
        *,
        stage_only: bool = False,
        wap_id: str | None = None,
    ) -> NewSnapshot:
        """What the snapshot of an operation on this state has from its caller. Raises InvalidInput for an empty WAP id,
        and for a second one in the summary."""
        services = self._access.services
        return NewSnapshot(
            snapshot_id=services.new_snapshot_id(),
            table_uuid=self.metadata.uuid,
            now_ms=services.ports.runtime.now_ms,
            branch=branch,
            stage_only=stage_only or wap_id is not None,
            summary=with_wap_id(summary or {}, wap_id),
            idempotency_key=idempotency_key,
            caller=services.settings.user,
            start_id=head_of(self._start_metadata, branch),
            earlier_ids=self._earlier_ids,
        )

    def _submit_operation(
        self, operation: SnapshotOperation, *, wait_seconds: float | None = None, size: int = 0
    ) -> Result:
        """Look ahead, so that no other writer waits while the operation reads manifests, then submit it."""
        manifests = self._open_manifests()
        earlier = len(manifests.written)
        try:
            operation.look_ahead(self.metadata, manifests)
        except IcebergHmsError:
            delete_files(self._access.services.ports, self._name, manifests.written[earlier:])
            raise
        if operation.is_idle:
            operation.check(self.metadata)
            return self._nothing_to_do()
        return self._submit(operation, wait_seconds=wait_seconds, size=size, prepared=tuple(manifests.written))


def head_of(metadata: TableMetadata, branch: str) -> int | None:
    """The snapshot that the next one of a branch is made on; that of main for a branch that does not exist yet."""
    ref = metadata.ref(branch)
    if ref is not None:
        return ref.snapshot_id
    return None if metadata.current_snapshot is None else metadata.current_snapshot.snapshot_id
