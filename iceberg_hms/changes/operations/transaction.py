"""Several changes as one: each is staged on what those before it left, and all are in one swap, or none is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iceberg_hms.changes.change import Change, ChangeIdentity, Manifests, StagedChange, Update
from iceberg_hms.changes.operations.ref_change import RefChange
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply


class TransactionChange:
    """The steps of a transaction, in their order.

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
