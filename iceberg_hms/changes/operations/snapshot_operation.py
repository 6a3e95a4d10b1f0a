"""What all operations that add a snapshot have in common (Java: SnapshotProducer).

An operation says which manifests its snapshot has on a given base (`_content`); this class makes the snapshot of them:
parent, numbers, summary, manifest list, ref. The coordinator stages an operation again each time the table moves.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from iceberg_hms.changes import requirements, updates
from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import ChangeIdentity, Job, Manifests, StagedChange, Update
from iceberg_hms.changes.sequence_numbers import numbered_snapshot
from iceberg_hms.errors import IcebergHmsError, InvalidInput, RequirementFailed
from iceberg_hms.format.cached_property import cached_property
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, kw_only=True)
class NewSnapshot:
    """What an operation's snapshot has from its caller, on any base.

    snapshot_id: a new one (`Clock.snapshot_id()`), the same over all replays.
    table_uuid: of the table that the operation is for; None: whatever table has the name.
    now_ms: the wall clock, in milliseconds.
    branch: an append creates it from main's current snapshot if the table lacks it; all else is refused then, since a
    mistyped name would leave the rows in the branch that is meant.
    stage_only: whether no ref moves to the snapshot: it is published later (write-audit-publish).
    summary: the caller's own summary properties.
    idempotency_key: kept in the summary. If the branch's history already has the key, the operation adds nothing.
    job: what is done under the key; a snapshot of another job with this key refuses the operation. None: nobody says.
    caller: the authenticated caller, for logs and locks.
    start_id: the branch's head in the state of the table that the caller saw: what was committed since may conflict.
    None: the branch had no snapshot.
    earlier_ids: the snapshots that earlier steps of the same transaction add; they never conflict with this one.
    """

    snapshot_id: int
    table_uuid: str | None
    now_ms: Callable[[], int]
    branch: str = MAIN_BRANCH
    stage_only: bool = False
    summary: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    job: Job | None = None
    caller: str = ""
    start_id: int | None = None
    earlier_ids: frozenset[int] = frozenset()

    @cached_property
    def own_summary(self) -> Mapping[str, str]:
        """The summary's properties that are the same on any base. Raises InvalidInput as `summary.check_custom`."""
        job = {} if self.job is None else {summaries.JOB: self.job.digest}
        return {**summaries.check_custom(self.summary, self.idempotency_key), **job}

    @property
    def key(self) -> str | None:
        """The idempotency key, wherever the caller named it. Raises InvalidInput as `summary.check_custom`."""
        return self.own_summary.get(summaries.IDEMPOTENCY_KEY)

    def of_job(self, operation: str, **does: Any) -> Self:
        """The same for the job that an operation does; without a key nothing asks for it. does: see `Job.of`."""
        return self if self.key is None else replace(self, job=Job.of(operation, **does))

    @property
    def identity(self) -> ChangeIdentity:
        return ChangeIdentity(
            snapshot_ids=(self.snapshot_id,),
            ref=None if self.stage_only else self.branch,
            idempotency_key=self.key,
            job=self.job,
            caller=self.caller,
        )


@dataclass(frozen=True, slots=True)
class BranchState:
    """A branch of the table that an operation is staged on.

    ref: None if the table lacks the branch: it starts at main's current snapshot then.
    parent: the new snapshot's parent; None for the first one. manifests: the parent's, in its list's order.
    """

    metadata: TableMetadata
    ref: Ref | None
    parent: Snapshot | None
    manifests: Sequence[ManifestFile]

    @classmethod
    def read(cls, base: TableMetadata, branch: str, manifests: Manifests) -> BranchState:
        ref = base.ref(branch)
        parent = base.current_snapshot if ref is None else base.snapshot_by_id(ref.snapshot_id)
        return cls(base, ref, parent, () if parent is None else tuple(manifests.list(parent)))


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """What a snapshot consists of.

    operation: `append`, `overwrite`, `delete` or `replace` (spec: snapshots).
    manifests: all of its manifests, in the list's order: new ones first, as Java and PyIceberg write them.
    metrics: what it adds and removes, for the summary; without totals.
    kept: how many manifests are its parent's. replaced: how many of its parent's live ones it leaves out.
    written: the locations of those manifests that this operation wrote.
    updates: further updates, which come before the snapshot.
    """

    operation: str
    manifests: Sequence[ManifestFile]
    metrics: Mapping[str, str]
    kept: int
    replaced: int = 0
    written: Sequence[str] = ()
    updates: Sequence[Update] = ()


class SnapshotOperation(ABC):
    """A change that adds one snapshot to a branch. One instance serves one commit: a failure deletes its manifests.

    new: what the snapshot has from its caller.
    Raises InvalidInput for summary properties whose values are computed, and for an empty idempotency key.
    """

    #: Whether the operation creates its branch if the table lacks it.
    _creates_branch: ClassVar[bool] = False

    def __init__(self, new: NewSnapshot) -> None:
        self._new = new
        self._identity = new.identity

    @property
    def identity(self) -> ChangeIdentity:
        return self._identity

    @property
    def snapshot_id(self) -> int:
        """The new snapshot's."""
        return self._new.snapshot_id

    def check(self, base: TableMetadata | None) -> None:
        """Raises RequirementFailed if the table is gone or is another one, or lacks the branch of an operation that
        creates none; InvalidInput if the branch is a tag; and what the operation itself assumes about the metadata."""
        base = requirements.existing_table(base, self._new.table_uuid)
        self._check(base)
        branch = self._new.branch
        ref = base.ref(branch)
        if ref is None and branch != MAIN_BRANCH and not self._creates_branch:
            raise RequirementFailed(
                requirements.ASSERT_REF_SNAPSHOT_ID,
                f"branch {branch} does not exist",
                expected=updates.BRANCH,
                next_step=f"the table has {', '.join(sorted(base.raw_refs)) or 'no refs'}; create_branch() makes one",
            )
        if ref is not None and ref.type != updates.BRANCH:
            raise InvalidInput(f"{branch} is a tag, not a branch. Tags cannot be targets for producing snapshots")

    def look_ahead(self, base: TableMetadata, manifests: Manifests) -> None:
        """Read what `stage` needs before the operation is queued, so that no other commit waits for that: `stage` then
        reads only what is newer than `base`. Refuses nothing, since the operation may already be committed."""
        with contextlib.suppress(IcebergHmsError):
            self._look_ahead(BranchState.read(base, self._new.branch, manifests), manifests)

    @property
    def is_idle(self) -> bool:
        """Whether the operation found, when it looked ahead, that it would change nothing."""
        return False

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """The updates that add the snapshot to this base, with its manifest list staged. Raises RequirementFailed for
        what the operation assumes about the files of the branch."""
        base = requirements.existing_table(base)
        state = BranchState.read(base, self._new.branch, manifests)
        content = self._content(state, manifests)
        snapshot = numbered_snapshot(base, self._snapshot(state, content), content.manifests, manifests)
        staged = [*content.updates, *self._updates_of(snapshot, state.ref)]
        return StagedChange(staged, (*content.written, snapshot["manifest-list"]))

    def stage_unread(self, base: TableMetadata) -> StagedChange:
        """As `stage`, for a base of which an expiration deleted files: the snapshot names a list that is not there. It
        serves the steps of a transaction that come after this one, and is never committed: `stage` makes another one of
        the table as it is."""
        ref = base.ref(self._new.branch)
        parent = base.current_snapshot if ref is None else base.snapshot_by_id(ref.snapshot_id)
        content = SnapshotContent(summaries.APPEND, (), {}, kept=0)
        snapshot = self._snapshot(BranchState(base, ref, parent, ()), content)
        snapshot["manifest-list"] = f"{base.location}/metadata/not-staged-{self.snapshot_id}.avro"
        if base.format_version > 1:
            snapshot["sequence-number"] = base.next_sequence_number
        if base.format_version > 2:
            snapshot |= {"first-row-id": base.next_row_id, "added-rows": 0}
        return StagedChange(self._updates_of(snapshot, ref))

    def _updates_of(self, snapshot: Mapping[str, Any], ref: Ref | None) -> list[Update]:
        added: list[Update] = [updates.add_snapshot(snapshot)]
        if not self._new.stage_only:
            added.append(updates.set_snapshot_ref(self._new.branch, self.snapshot_id, retention=ref))
        return added

    @abstractmethod
    def _content(self, state: BranchState, manifests: Manifests) -> SnapshotContent:
        """The snapshot on this base; raises as `stage`. It keeps nothing that it learned of an older base, except
        files whose content does not depend on the base."""

    def _look_ahead(self, state: BranchState, manifests: Manifests) -> None:  # noqa: B027 - not every one reads
        """Raises as `stage`."""

    def _check(self, base: TableMetadata) -> None:  # noqa: B027 - not every one assumes more
        """What the operation assumes about the metadata; raises RequirementFailed or InvalidInput."""

    def _snapshot(self, state: BranchState, content: SnapshotContent) -> dict[str, Any]:
        parent = state.parent
        created = len(content.manifests) - content.kept
        raw: dict[str, Any] = {"snapshot-id": self.snapshot_id}
        if parent is not None:
            raw["parent-snapshot-id"] = parent.snapshot_id
        raw["timestamp-ms"] = max(self._new.now_ms(), state.metadata.last_updated_ms)
        raw["summary"] = {
            summaries.OPERATION: content.operation,
            **self._new.own_summary,
            **content.metrics,
            **summaries.manifest_counts(created=created, kept=content.kept, replaced=content.replaced),
            **summaries.totals(None if parent is None else parent.summary, content.metrics),
        }
        raw["schema-id"] = state.metadata.current_schema_id
        return raw
