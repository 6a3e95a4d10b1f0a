"""Check and stage each change of a group on the running metadata, each from a savepoint.

Metadata is immutable, so a savepoint is the metadata before the change: a change that breaks is dropped alone, and the
next one is staged on what stood before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iceberg_hms.changes.change import Change, Identity, Manifests, Staged
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.coordinator.invariants import check_transition
from iceberg_hms.coordinator.member import Member
from iceberg_hms.errors import CommitStateUnknown
from iceberg_hms.format.apply import apply
from iceberg_hms.format.metadata import TableMetadata


class Staging:
    """A group on its way to one metadata file: `begin`, then `finish`.

    metadata: the running metadata; None while a table that is to be created has nothing yet.
    carried: the members whose changes are in it.
    already: members that the base holds already.
    broken: members whose check or staging failed, with the error; no swap carries them.
    files: what each carried member wrote, by member.
    rebased: those of the carried whose snapshot is on a parent that its client had not seen.
    replaced: lists of the carried ones' clients that no snapshot names.
    """

    def __init__(
        self, base: TableMetadata | None, members: Sequence[Member], manifests: Manifests, now_ms: Callable[[], int]
    ) -> None:
        self.base = base
        self.manifests = manifests
        self.metadata = base
        self.carried: list[Member] = []
        self.already: list[Member] = []
        self.broken: list[tuple[Member, Exception]] = []
        self.files: dict[Member, Sequence[str]] = {}
        self.rebased: set[Member] = set()
        self.replaced: list[str] = []
        self._now_ms = now_ms
        self._left = iter(members)

    def begin(self) -> bool:
        """Stage members until one is carried, so that there will be something to swap. False: none is."""
        for member in self._left:
            self._add(member)
            if self.carried:
                return True
        return False

    def finish(self) -> Staging:
        """Stage the rest."""
        for member in self._left:
            self._add(member)
        return self

    def _add(self, member: Member) -> None:
        """Stage a member; if it breaks, it is set aside with its own error."""
        try:
            if self.base is not None and has_landed(member.change.identity, self.base):
                self.already.append(member)
                return
            if self.metadata is not None and has_landed(member.change.identity, self.metadata):
                # Its twin is in this group: it shares the group's outcome, whatever that will be.
                self.carried.append(member)
                return
            self.metadata, staged = stage_one(self.metadata, member.change, self.manifests, self._now_ms)
            self.files[member] = staged.files
            self.carried.append(member)
            self.replaced.extend(staged.replaced)
            if staged.rebased:
                self.rebased.add(member)
        except Exception as error:  # noqa: BLE001 - whatever a change raises is its own member's answer, never the group's
            self.broken.append((member, error))


def stage_one(
    savepoint: TableMetadata | None, change: Change, manifests: Manifests, now_ms: Callable[[], int]
) -> tuple[TableMetadata, Staged]:
    """The metadata after one change, and what the change came to. Raises what the change or an invariant raises."""
    change.check(savepoint)
    staged = change.stage(savepoint, manifests)
    try:
        metadata = apply(savepoint, staged.updates, now_ms=now_ms())
        check_transition(savepoint, metadata)
    except Exception:
        manifests.discard(staged.files)
        raise
    return metadata, staged


def has_landed(identity: Identity, metadata: TableMetadata) -> bool:
    """Whether the table already holds a change: it was sent before and its answer was lost, or its job was run before.

    Raises CommitStateUnknown if the change's snapshot is in the table but not on its ref (it was rolled back, say):
    answering "failed" would make the caller delete files that a kept snapshot names.
    """
    present = [id_ for id_ in identity.snapshot_ids if metadata.snapshot_by_id(id_) is not None]
    head = metadata.refs.get(identity.ref) if identity.ref is not None else None
    if present:
        # A change lands as a whole: of several snapshots the older ones may have expired since.
        last = identity.snapshot_ids[-1]
        is_there = present[-1] == last
        if is_there and (identity.ref is None or (head is not None and _is_ancestor(metadata, head.snapshot_id, last))):
            return True
        raise CommitStateUnknown(
            f"snapshot {present[-1]} is in the table but {last} is not in the history of {identity.ref}",
            next_step="it was rolled back, or only staged: look at the snapshots, and delete none of its files",
        )
    if identity.idempotency_key is None or head is None:
        return False
    carrying = metadata.snapshot_rows.holding(("summary", IDEMPOTENCY_KEY), identity.idempotency_key)
    return any(_is_ancestor(metadata, head.snapshot_id, row["snapshot-id"]) for row in carrying)


def _is_ancestor(metadata: TableMetadata, head: int, wanted: int) -> bool:
    return any(snapshot.snapshot_id == wanted for snapshot in metadata.ancestors(head))
