"""Check and stage each change of a group on the running metadata, each from a savepoint.

Metadata is immutable, so a savepoint is the metadata before the change: a change that breaks is dropped alone, and the
next one is staged on what stood before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from iceberg_hms.changes.change import Change, ChangeIdentity, Manifests, StagedChange
from iceberg_hms.changes.referenced_specs import check_added
from iceberg_hms.changes.reruns import refuse_another_job
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.coordinator.protocol.invariants import added_snapshots, check_clock, check_transition
from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit
from iceberg_hms.errors import CommitStateUnknown
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.apply import apply


class Staging:
    """A group on its way to one metadata file: `begin`, then `finish`.

    metadata: the running metadata; None while a table that is to be created has nothing yet.
    carried: the members whose changes are in it.
    already: members that the base holds already.
    broken: members whose check or staging failed, with the error; no swap carries them.
    files: what each member wrote, by member; also one that broke: what it wrote is named again when it is staged again.
    landed_as: the snapshots of members that had landed before they were staged, as the table has them.
    rebased: those of the carried whose snapshot is on a parent that its client had not seen.
    replaced: lists of the carried ones' clients that no snapshot names.
    """

    def __init__(
        self,
        base: TableMetadata | None,
        members: Sequence[PendingCommit],
        manifests: Manifests,
        now_ms: Callable[[], int],
    ) -> None:
        self.base = base
        self.manifests = manifests
        self.metadata = base
        self.carried: list[PendingCommit] = []
        self.already: list[PendingCommit] = []
        self.broken: list[tuple[PendingCommit, Exception]] = []
        self.files: dict[PendingCommit, Sequence[str]] = {}
        self.landed_as: dict[PendingCommit, tuple[int, ...]] = {}
        self.rebased: set[PendingCommit] = set()
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

    def _add(self, member: PendingCommit) -> None:
        """Stage a member; if it breaks, it is set aside with its own error."""
        noted = Noted(self.manifests)
        try:
            if self.base is not None and self._has_landed(member, self.base):
                self.already.append(member)
                return
            if self.metadata is not None and self._has_landed(member, self.metadata):
                # Its twin is in this group: it shares the group's outcome, whatever that will be.
                self.carried.append(member)
                return
            self.metadata, staged = stage_one(self.metadata, member.change, noted, self._now_ms)
            self.files[member] = staged.files
            self.carried.append(member)
            self.replaced.extend(staged.replaced)
            if staged.rebased:
                self.rebased.add(member)
        except Exception as error:  # noqa: BLE001 - whatever a change raises is its own member's answer, never the group's
            self.files[member] = tuple(noted.written)
            self.broken.append((member, error))

    def _has_landed(self, member: PendingCommit, metadata: TableMetadata) -> bool:
        identity = member.change.identity
        found = landed_as(identity, metadata)
        if found is None:
            return False
        if found != identity.snapshot_ids and (first := metadata.snapshot_by_id(found[-1])) is not None:
            refuse_another_job(identity, first, self.manifests)
        self.landed_as[member] = found
        return True


class Noted:
    """The group's Manifests for one change: notes what it writes and stages, so that this is known even if it breaks
    before it can tell.

    written: locations of manifests, which are on disk. lists: locations of lists, which are not.
    """

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests
        self.written: list[str] = []
        self.lists: list[str] = []
        self.list = manifests.list
        self.added = manifests.added
        self.entries = manifests.entries
        self.live = manifests.live
        self.flush = manifests.flush
        self.discard = manifests.discard

    def write(
        self,
        metadata: TableMetadata,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
    ) -> Sequence[ManifestFile]:
        """As the port says."""
        written = self._manifests.write(metadata, schema, spec, snapshot_id, entries)
        self.written.extend(each.manifest_path for each in written)
        return written

    def stage_list(self, metadata: TableMetadata, snapshot: Snapshot, files: Sequence[ManifestFile]) -> str:
        """As the port says."""
        location = self._manifests.stage_list(metadata, snapshot, files)
        self.lists.append(location)
        return location


def stage_one(
    savepoint: TableMetadata | None, change: Change, noted: Noted, now_ms: Callable[[], int]
) -> tuple[TableMetadata, StagedChange]:
    """The metadata after one change, and what the change came to. Raises what the change or an invariant raises; no
    list that the change staged is written then."""
    change.check(savepoint)
    try:
        staged = change.stage(savepoint, noted)
        now = now_ms()
        metadata = apply(savepoint, staged.updates, now_ms=now)
        check_transition(savepoint, metadata)
        added = added_snapshots(savepoint, metadata)
        check_clock(savepoint, added, now)
        check_added(metadata, added, noted)
    except Exception:
        noted.discard(noted.lists)
        raise
    return metadata, staged


def landed_as(identity: ChangeIdentity, metadata: TableMetadata) -> tuple[int, ...] | None:
    """The snapshots as which the table already holds a change: its own if it was sent before and its answer was lost,
    another's if its job was run before under the same idempotency key. None: the table does not hold it.

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
            return identity.snapshot_ids
        raise CommitStateUnknown(
            f"snapshot {present[-1]} is in the table but {last} is not in the history of {identity.ref}",
            next_step="it was rolled back, or only staged: look at the snapshots, and delete none of its files",
        )
    if identity.idempotency_key is None or head is None:
        return None
    carrying = metadata.snapshot_rows.where(("summary", IDEMPOTENCY_KEY), identity.idempotency_key)
    ids = (row["snapshot-id"] for row in carrying)
    return next(((id_,) for id_ in ids if _is_ancestor(metadata, head.snapshot_id, id_)), None)


def _is_ancestor(metadata: TableMetadata, head: int, wanted: int) -> bool:
    return any(snapshot.snapshot_id == wanted for snapshot in metadata.ancestors(head))
