"""Branches and tags: making, moving, renaming and removing them (Java: UpdateSnapshotReferencesOperation).

Java makes these changes on the state that the table object has, and its commit is refused if any other commit came in
between. Here each assumes only what it uses, so that it replays beside commits to other refs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Manifests, StagedChange, Update
from iceberg_hms.changes.operations.snapshot_operation import (
    BranchState,
    NewSnapshot,
    SnapshotContent,
    SnapshotOperation,
)
from iceberg_hms.changes.operations.snapshots.ref_change import (
    AS_IT_IS,
    RefChange,
    Retention,
    SeenRef,
    Target,
    check_name,
    existing_ref,
    is_ancestor,
    named,
    refuse_existing,
    resolve,
)
from iceberg_hms.changes.requirements import existing_table
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that a ref descends from the branch that is forwarded to it.
FAST_FORWARD: Final = "fast-forward"


@dataclass(frozen=True, kw_only=True)
class _KeptRef(RefChange):
    """A change of a branch or tag that says what an expiration keeps of it. retention: settings that are None stay as
    they are. Raises InvalidInput for a name or settings that the ref cannot have."""

    name: str
    kind: str = updates.BRANCH
    retention: Retention = AS_IT_IS

    def __post_init__(self) -> None:
        check_name(self.name, self.kind)
        self.retention.check(self.name, self.kind)


@dataclass(frozen=True, kw_only=True)
class CreateRef(_KeptRef):
    """Makes a branch or a tag.

    Assumes that the table has no ref of the name and has the snapshot. target: None is main's snapshot when this is
    committed: a branch or tag of the table as it is then, whatever was appended since the caller looked. To name what
    the caller looked at, it gives that snapshot's id.
    """

    target: Target | None = None

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        refuse_existing(base, self.name)
        target = existing_ref(base, MAIN_BRANCH).snapshot_id if self.target is None else resolve(base, self.target)
        return [set_ref(self.name, self.retention.over(Ref(target, self.kind)))]


@dataclass(frozen=True, kw_only=True)
class ReplaceRef(_KeptRef):
    """Moves a branch or a tag to any snapshot. It keeps its settings, but for those of `retention`.

    Assumes that the ref is where the caller saw it: what was committed to a branch since would no longer be in it.
    seen: None moves it from wherever it is, and discards such commits.
    """

    target: Target
    seen: SeenRef | None

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        ref = existing_ref(base, self.name, self.kind)
        if self.seen is not None:
            self.seen.check(base)
        moved = replace(ref, snapshot_id=resolve(base, self.target))
        return [set_ref(self.name, self.retention.over(moved))]


@dataclass(frozen=True, kw_only=True)
class RemoveRef(RefChange):
    """Removes a branch or a tag. Snapshots that no other ref keeps stay until they expire.

    Assumes that the ref is where the caller saw it: what was committed to a branch since would be lost with it.
    seen: None removes it wherever it is. Raises InvalidInput for main.
    """

    name: str
    kind: str = updates.BRANCH
    seen: SeenRef | None

    def __post_init__(self) -> None:
        check_name(self.name, self.kind)
        if self.name == MAIN_BRANCH:
            raise InvalidInput("main cannot be removed: it is the table's main branch")

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        existing_ref(base, self.name, self.kind)
        if self.seen is not None:
            self.seen.check(base)
        return [updates.remove_snapshot_ref(self.name)]


@dataclass(frozen=True, kw_only=True)
class RenameBranch(RefChange):
    """Gives a branch another name. It keeps its settings.

    Assumes that the branch exists and that no ref has the new name. The branch may have moved since the caller looked:
    its commits stay in it. Raises InvalidInput for main.
    """

    name: str
    new_name: str

    def __post_init__(self) -> None:
        check_name(self.name)
        check_name(self.new_name)
        if self.name == MAIN_BRANCH:
            raise InvalidInput("main cannot be renamed: it is the table's main branch")

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        ref = existing_ref(base, self.name, updates.BRANCH)
        refuse_existing(base, self.new_name)
        return [set_ref(self.new_name, ref), updates.remove_snapshot_ref(self.name)]


@dataclass(frozen=True, kw_only=True)
class SetRetention(_KeptRef):
    """Changes what an expiration of snapshots keeps of a branch or tag, wherever the ref is.

    Assumes that the ref exists. Two callers who set different settings both succeed. Raises InvalidInput for none.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.retention == AS_IT_IS:
            raise InvalidInput(f"no setting of {self.kind} {self.name} was given")

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        return [set_ref(self.name, self.retention.over(existing_ref(base, self.name, self.kind)))]


@dataclass(frozen=True, kw_only=True)
class FastForward(RefChange):
    """Moves a branch forward to where another ref is, and makes the branch if there is none, as Java does.

    Assumes that `to` is where the caller saw it, since what was committed there later was not audited; and that it
    descends from the branch as it is when this is committed. So the branch may have moved meanwhile, and keeps every
    commit.
    """

    branch: str
    to: SeenRef

    def __post_init__(self) -> None:
        check_name(self.branch)

    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        target = resolve(base, self.to)
        if base.ref(self.branch) is None:
            return [set_ref(self.branch, Ref(target))]
        ref = existing_ref(base, self.branch, updates.BRANCH)
        if not is_ancestor(base, ref.snapshot_id, target):
            history = {each.snapshot_id for each in base.ancestors(target)}
            own = [each.snapshot_id for each in base.ancestors(ref.snapshot_id)]
            missing = own[: next((at for at, id_ in enumerate(own) if id_ in history), len(own))]
            raise RequirementFailed(
                FAST_FORWARD,
                f"{self.to.name} does not descend from {self.branch}: its history lacks {named(missing)}",
                expected=ref.snapshot_id,
                found=target,
                next_step="cherry-pick the snapshots instead, or write them again on the branch as it is",
                rests_on=frozenset(missing),
            )
        return [updates.set_snapshot_ref(self.branch, target, retention=ref)]


class StartBranch(SnapshotOperation):
    """Makes a branch of main as it is when this is committed; of a table without snapshots, with an empty snapshot, as
    Java does.

    new: that snapshot; its branch is the new one. Assumes that the table has no ref of the name.
    Raises InvalidInput for a name or settings that the branch cannot have.
    """

    _creates_branch: ClassVar[bool] = True

    def __init__(self, new: NewSnapshot, retention: Retention) -> None:
        check_name(new.branch)
        retention.check(new.branch, updates.BRANCH)
        super().__init__(new)
        self._retention = retention

    def _check(self, base: TableMetadata) -> None:
        refuse_existing(base, self._new.branch)

    def look_ahead(self, base: TableMetadata, manifests: Manifests) -> None:
        """Reads nothing: `stage` needs nothing of the branch."""

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """Raises StorageError if the list of the empty snapshot cannot be staged."""
        main = existing_table(base).ref(MAIN_BRANCH)
        if main is not None:
            return StagedChange([self._made_at(main.snapshot_id)], snapshot_ids=())
        staged = super().stage(base, manifests)
        return StagedChange([*staged.updates, self._made_at(self.snapshot_id)], staged.files)

    def _content(self, state: BranchState, manifests: Manifests) -> SnapshotContent:  # noqa: ARG002 - no file
        return SnapshotContent(summaries.APPEND, (), summaries.file_metrics(()), kept=0)

    def _made_at(self, snapshot_id: int) -> Update:
        return set_ref(self._new.branch, self._retention.over(Ref(snapshot_id)))


def set_ref(name: str, ref: Ref) -> Update:
    """The update that makes or moves a ref, with all of its settings."""
    return updates.set_snapshot_ref(name, ref.snapshot_id, kind=ref.type, retention=ref)
