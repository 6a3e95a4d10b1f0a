"""Check and stage each change of a group on the running metadata, each from a savepoint.

Metadata is immutable, so a savepoint is the metadata before the change: a change that breaks is dropped alone, and the
next one is staged on what stood before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from iceberg_hms.changes.change import Change, Identity, Manifests, Staged
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.coordinator.invariants import check_transition
from iceberg_hms.coordinator.member import Member
from iceberg_hms.errors import CommitStateUnknown, InvalidInput
from iceberg_hms.format.apply import apply
from iceberg_hms.format.metadata import TableMetadata


@dataclass(slots=True)
class Staging:
    """A group on its way to one metadata file.

    metadata: the running metadata; None while a table that is to be created has nothing yet.
    carried: the members whose changes are in it.
    already: members that the base holds already.
    broken: members whose check or staging failed, with the error; no swap carries them.
    files: what each carried member wrote, by member.
    rebased: those of the carried whose snapshot is on a parent that its client had not seen.
    replaced: lists of the carried ones' clients that no snapshot names.
    """

    metadata: TableMetadata | None
    carried: list[Member] = field(default_factory=list)
    already: list[Member] = field(default_factory=list)
    broken: list[tuple[Member, Exception]] = field(default_factory=list)
    files: dict[Member, Sequence[str]] = field(default_factory=dict)
    rebased: set[Member] = field(default_factory=set)
    replaced: list[str] = field(default_factory=list)


def stage_group(
    base: TableMetadata | None, members: Sequence[Member], manifests: Manifests, now_ms: Callable[[], int]
) -> Staging:
    """Stage members in arrival order; whoever breaks is set aside with its own error."""
    staging = Staging(base)
    for member in members:
        try:
            if base is not None and has_landed(member.change.identity, base):
                staging.already.append(member)
                continue
            if staging.metadata is not None and has_landed(member.change.identity, staging.metadata):
                # Its twin is in this group: it shares the group's outcome, whatever that will be.
                staging.carried.append(member)
                continue
            staging.metadata, staged = stage_one(staging.metadata, member.change, manifests, now_ms)
            staging.files[member] = staged.files
            staging.carried.append(member)
            staging.replaced.extend(staged.replaced)
            if staged.rebased:
                staging.rebased.add(member)
        except Exception as error:  # noqa: BLE001 - whatever a change raises is its own member's answer, never the group's
            staging.broken.append((member, error))
    return staging


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
        if len(present) < len(identity.snapshot_ids):
            raise InvalidInput(f"snapshot id {present[0]} is already in the table, others of the same commit are not")
        if identity.ref is None or (head is not None and _is_ancestor(metadata, head.snapshot_id, present[-1])):
            return True
        raise CommitStateUnknown(
            f"snapshot {present[-1]} is in the table but not in the history of {identity.ref}",
            next_step="it was rolled back, or only staged: look at the snapshots, and delete none of its files",
        )
    if identity.idempotency_key is None or head is None:
        return False
    carrying = metadata.snapshot_rows.holding(("summary", IDEMPOTENCY_KEY), identity.idempotency_key)
    return any(_is_ancestor(metadata, head.snapshot_id, row["snapshot-id"]) for row in carrying)


def _is_ancestor(metadata: TableMetadata, head: int, wanted: int) -> bool:
    return any(snapshot.snapshot_id == wanted for snapshot in metadata.ancestors(head))
