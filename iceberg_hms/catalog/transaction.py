"""Several operations on one table in one swap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from iceberg_hms.catalog.operations.evolution import EvolutionOperations
from iceberg_hms.catalog.operations.files import FileOperations
from iceberg_hms.catalog.operations.maintenance import ManifestOperations
from iceberg_hms.catalog.operations.refs import RefOperations
from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.changes.change import Change, ChangeIdentity, Manifests, StagedChange, Update
from iceberg_hms.changes.operations.snapshot_operation import SnapshotOperation
from iceberg_hms.changes.operations.snapshots.ref_change import RefChange
from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.staging.staging import RecordedWrites
from iceberg_hms.errors import InvalidInput, MissingFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply


class TransactionChange:
    """The steps of a transaction as one change: each is staged on what those before it left.

    steps: at least one; each was made for the state that the steps before it left. now_ms: the wall clock, in
    milliseconds. Raises InvalidInput for no steps.
    """

    def __init__(self, steps: Sequence[Change], now_ms: Callable[[], int]) -> None:
        if not steps:
            raise InvalidInput("a transaction without a step has nothing to commit")
        self._steps = tuple(steps)
        self._now_ms = now_ms
        with_snapshots = [each.identity for each in steps if each.identity.snapshot_ids]
        # A later step may take the snapshots out of the branch again, or the branch away: nobody would find them there.
        keeps_refs = with_snapshots and not any(isinstance(each, RefChange) for each in steps)
        self._identity = ChangeIdentity(
            snapshot_ids=tuple(id_ for each in with_snapshots for id_ in each.snapshot_ids),
            ref=with_snapshots[-1].ref if keeps_refs else None,
            caller=steps[0].identity.caller,
            location=next((each.identity.location for each in reversed(steps) if each.identity.location), None),
            paths=tuple(path for each in steps for path in each.identity.paths),
        )

    @property
    def identity(self) -> ChangeIdentity:
        return self._identity

    def check(self, base: TableMetadata | None) -> None:
        """Raises what the first step assumes about the table; the others depend on the steps before them."""
        self._steps[0].check(base)

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """The updates of all steps. Raises what any of them raises."""
        running, updates, files, added = base, list[Update](), list[str](), list[int]()
        for step in self._steps:
            step.check(running)
            staged = step.stage(running, manifests)
            running = apply(running, staged.updates, now_ms=self._now_ms())
            updates.extend(staged.updates)
            files.extend(staged.files)
            added.extend(step.identity.snapshot_ids if staged.snapshot_ids is None else staged.snapshot_ids)
        return StagedChange(updates, files, snapshot_ids=tuple(added))


class Transaction(
    FileOperations[None],
    EvolutionOperations[None],
    ManifestOperations[None],
    RefOperations[None],
):
    """Operations that are committed together when the `with` block ends: all of them, or none.

    Each operation is a step: it is checked at once on what the steps before it left (`metadata`), and writes its
    manifests. Nobody sees anything before the commit. If the table moved meanwhile, all steps are staged again on the
    new state, each with its own assumptions. An exception in the block commits nothing and deletes what the steps
    wrote. Where others have expired the state that the caller saw, a step cannot be staged on it, and the commit is the
    first to check what it assumes of the files.

    report: of the commit; None before it, and for a transaction without a step.
    An idempotency key is of one operation with its files, so steps take none.
    """

    def __init__(
        self,
        access: TableAccess,
        name: TableName,
        metadata: TableMetadata,
        committed: Callable[[CommitReport], None],
        wait_seconds: float | None,
    ) -> None:
        self._access = access
        self._name = name
        self.metadata = metadata
        self.report: CommitReport | None = None
        self._start = metadata
        self._committed = committed
        self._wait_seconds = wait_seconds
        self._manifests = RecordedWrites(access.services.ports.manifests())
        self._steps: list[Change] = []
        self._size = 0
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._ended:
            return
        if error is None:
            self.commit()
        else:
            self.abort()

    def commit(self) -> CommitReport | None:
        """Commit the steps; None if there are none. Called at the end of the `with` block. Raises as the operations do,
        and InvalidInput for a transaction that has ended."""
        self._end()
        if not self._steps:
            return None
        change = TransactionChange(self._steps, self._access.services.ports.runtime.now_ms)
        prepared = tuple(self._manifests.written)
        self.report = self._access.commit(self._name, change, self._wait_seconds, size=self._size, prepared=prepared)
        self._committed(self.report)
        return self.report

    def abort(self) -> None:
        """End the transaction without a commit, and delete the manifests that its steps wrote. Raises InvalidInput for
        one that has ended."""
        self._end()
        delete_files(self._access.services.ports, self._name, self._manifests.written)

    def _submit(
        self,
        change: Change,
        *,
        wait_seconds: float | None = None,
        size: int = 0,
        prepared: Sequence[str] = (),  # noqa: ARG002 - the transaction's own manifests recorded it
    ) -> None:
        if self._ended:
            raise InvalidInput("the transaction has ended", next_step="begin another one")
        if wait_seconds is not None:
            raise InvalidInput("a step does not wait", next_step="pass wait_seconds to transaction()")
        if change.identity.idempotency_key is not None:
            raise InvalidInput("a step of a transaction takes no idempotency key")
        change.check(self.metadata)
        staged = self._staged(change)
        now_ms = self._access.services.ports.runtime.now_ms()
        self.metadata = apply(self.metadata, staged.updates, now_ms=now_ms)
        self._steps.append(change)
        self._size += size

    def _staged(self, change: Change) -> StagedChange:
        """The step on what those before it left."""
        try:
            return change.stage(self.metadata, self._manifests)
        except MissingFile:
            # Others may have expired the state that the caller saw. Later steps are planned on that state all the same:
            # what the caller has not seen must not count as seen. The commit stages each step on the table as it is.
            if not isinstance(change, SnapshotOperation):
                raise
            return change.stage_unread(self.metadata)

    def _open_manifests(self) -> RecordedWrites:
        return self._manifests

    def _nothing_to_do(self) -> None:
        return None

    @property
    def _start_metadata(self) -> TableMetadata:
        return self._start

    @property
    def _earlier_ids(self) -> frozenset[int]:
        return frozenset(id_ for step in self._steps for id_ in step.identity.snapshot_ids)

    def _end(self) -> None:
        if self._ended:
            raise InvalidInput("the transaction has ended", next_step="begin another one")
        self._ended = True
