"""What all changes of branches and tags share: how they assume where a ref is, and which snapshots exist.

Such a change says in its docstring whether it is meant for a ref where its caller saw it (`SeenRef`), or for the ref as
it is when the change is committed. The rule: a change that could take acknowledged commits out of a branch applies to
the branch that its caller looked at. All others apply to the branch as it is, so that they replay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Final

from iceberg_hms.changes import requirements, updates
from iceberg_hms.changes.change import ChangeIdentity, Manifests, StagedChange, Update
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that the table has a snapshot.
SNAPSHOT_EXISTS: Final = "snapshot-exists"
#: How many snapshots an error names.
_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Retention:
    """Settings of a ref that say what an expiration of snapshots keeps (spec: Snapshot Retention Policy).

    min_snapshots_to_keep: a count. max_snapshot_age_ms, max_ref_age_ms: milliseconds. None: as the ref has it; a new
    one has the table's defaults.
    """

    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None

    def check(self, name: str, kind: str) -> None:
        """Raises InvalidInput for values below 1, for settings of branches on a tag, and for a maximum age of main:
        main never expires, so readers ignore it (Java stores it)."""
        if name == MAIN_BRANCH and self.max_ref_age_ms is not None:
            raise InvalidInput("main never expires, so it has no max-ref-age-ms")
        Ref.parse(self.over(Ref(0, kind)).to_json(), name)

    def over(self, ref: Ref) -> Ref:
        """A ref with these settings; those that are None stay as they are."""
        return replace(ref, **{name: value for name, value in asdict(self).items() if value is not None})


#: A new ref has the table's defaults; an old one keeps what it has.
AS_IT_IS: Final = Retention()


@dataclass(frozen=True, slots=True)
class SeenRef:
    """Where a caller's state of the table has a branch or tag.

    snapshot_id: None if that state has no such ref. own_ids: the snapshots that earlier steps of the caller's
    transaction add; under_id: the first ancestor that is not one of them. Replayed steps move with the branch, so that
    its head alone would not show what others committed beneath them.
    """

    name: str
    snapshot_id: int | None
    own_ids: frozenset[int] = frozenset()
    under_id: int | None = None

    @classmethod
    def of(cls, metadata: TableMetadata, name: str, own_ids: frozenset[int] = frozenset()) -> SeenRef:
        ref = metadata.ref(name)
        head = None if ref is None else ref.snapshot_id
        return cls(name, head, own_ids, _under(metadata, head, own_ids))

    def check(self, base: TableMetadata) -> None:
        """Raises RequirementFailed if the table now has the ref somewhere else, or others committed to it since; it
        names what the caller has not seen."""
        ref = base.ref(self.name)
        found = None if ref is None else ref.snapshot_id
        under = _under(base, found, self.own_ids)
        if found == self.snapshot_id and (not self.own_ids or under == self.under_id):
            return
        rests_on: frozenset[int] = frozenset()
        if ref is None:
            what = f"branch or tag {self.name} was removed since the table was read"
        elif self.snapshot_id is None:
            what = f"{ref.type} {self.name} was created since the table was read, at snapshot {ref.snapshot_id}"
            rests_on = frozenset({ref.snapshot_id})
        else:
            moved_to = ref.snapshot_id if under is None else under
            what = f"{ref.type} {self.name} has moved since the table was read, to snapshot {moved_to}"
            unseen = commits_since(base, moved_to, self.under_id if self.own_ids else self.snapshot_id)
            rests_on = frozenset(unseen or (moved_to,))
            if unseen:
                what += f", with {named(unseen)}"
        raise RequirementFailed(
            requirements.ASSERT_REF_SNAPSHOT_ID,
            what,
            expected=self.snapshot_id,
            found=found,
            next_step="refresh the table, look at what was committed, and decide again",
            rests_on=rests_on,
        )


#: A snapshot id; or a ref that must still be where the caller saw it.
Target = int | SeenRef


@dataclass(frozen=True, kw_only=True)
class RefChange(ABC):
    """A change that moves, makes or removes refs, and writes no file.

    table_uuid: of the table that the caller sees. caller: the authenticated caller, for logs and locks.
    """

    table_uuid: str | None
    caller: str = ""

    @property
    def identity(self) -> ChangeIdentity:
        return ChangeIdentity(caller=self.caller)

    def check(self, base: TableMetadata | None) -> None:
        """Raises RequirementFailed if the table is gone, is another one, or breaks an assumption of the class;
        InvalidInput where a branch is meant and the name is a tag's, or the reverse."""
        self.ref_updates(requirements.existing_table(base, self.table_uuid))

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:  # noqa: ARG002 - as the port says
        """Raises as `check`."""
        return StagedChange(self.ref_updates(requirements.existing_table(base, self.table_uuid)))

    @abstractmethod
    def ref_updates(self, base: TableMetadata) -> Sequence[Update]:
        """The updates for this base; none if nothing would change. Raises as `check`."""


def check_name(name: object, kind: str = updates.BRANCH) -> None:
    """Raises InvalidInput for a name that no ref can have: an empty one, and main for a tag."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"a {kind} needs a name, but it is {name!r}")
    if name == MAIN_BRANCH and kind != updates.BRANCH:
        raise InvalidInput("main is the table's main branch: no tag can have that name")


def existing_ref(base: TableMetadata, name: str, kind: str | None = None) -> Ref:
    """A ref of the table. kind: what it must be; None: either. Raises RequirementFailed if there is none of the name,
    InvalidInput if it is of the other kind."""
    ref = base.ref(name)
    if ref is None:
        raise RequirementFailed(
            requirements.ASSERT_REF_SNAPSHOT_ID,
            f"{kind or 'branch or tag'} {name} does not exist",
            expected=kind or "a branch or tag",
            next_step=f"the table has {', '.join(sorted(base.raw_refs)) or 'no refs'}",
        )
    if kind not in (None, ref.type):
        raise InvalidInput(f"{name} is a {ref.type}, not a {kind}")
    return ref


def refuse_existing(base: TableMetadata, name: str) -> None:
    """Raises RequirementFailed if the table has a ref of this name."""
    ref = base.ref(name)
    if ref is not None:
        raise RequirementFailed(
            requirements.ASSERT_REF_SNAPSHOT_ID,
            f"{ref.type} {name} already exists, at snapshot {ref.snapshot_id}",
            found=ref.snapshot_id,
            next_step="choose another name, or replace it",
            rests_on=frozenset({ref.snapshot_id}),
        )


def existing_snapshot(base: TableMetadata, snapshot_id: int) -> Snapshot:
    """A snapshot of the table. Raises RequirementFailed if it has none of this id."""
    snapshot = base.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise RequirementFailed(
            SNAPSHOT_EXISTS,
            f"snapshot {snapshot_id} is not in the table: it has expired, or never was there",
            expected=snapshot_id,
            next_step="refresh the table; snapshots() lists what it has",
        )
    return snapshot


def resolve(base: TableMetadata, target: Target) -> int:
    """The snapshot that a target names. Raises RequirementFailed if it is not in the table, or if its ref is not where
    the caller saw it, or does not exist."""
    if isinstance(target, SeenRef):
        target.check(base)
        return existing_ref(base, target.name).snapshot_id
    return existing_snapshot(base, target).snapshot_id


def is_ancestor(base: TableMetadata, snapshot_id: int, head: int | None) -> bool:
    """Whether a snapshot is `head` or an ancestor of it, as far as the table still has the history."""
    return any(each.snapshot_id == snapshot_id for each in base.ancestors(head))


def commits_since(base: TableMetadata, head: int, seen: int | None) -> list[int]:
    """The snapshots from `head` back to `seen`, without it, newest first; none if `seen` is no ancestor of `head`."""
    found: list[int] = []
    for each in base.ancestors(head):
        if each.snapshot_id == seen:
            return found
        found.append(each.snapshot_id)
    return []


def _under(base: TableMetadata, head: int | None, own_ids: frozenset[int]) -> int | None:
    """The first of `head` and its ancestors that is not one of the caller's own."""
    return next((each.snapshot_id for each in base.ancestors(head) if each.snapshot_id not in own_ids), None)


def named(snapshot_ids: Sequence[int]) -> str:
    """Some snapshots, for a message."""
    listed = ", ".join(map(str, islice(snapshot_ids, _NAMED_MAX)))
    more = len(snapshot_ids) - _NAMED_MAX
    if more > 0:
        return f"snapshots {listed} and {more} more"
    return f"snapshots {listed}" if len(snapshot_ids) > 1 else f"snapshot {listed}"
