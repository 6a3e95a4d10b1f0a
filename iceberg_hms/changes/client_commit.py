"""Commits as their clients sent them, and what they come to on a table that moved.

A commit replays whenever its requirements hold on the table as it is now, with new numbers where its own are stale
(`numbers.py`). If all that does not hold is the place of the branch that it adds a snapshot to, the snapshot may be put
on another parent (`rebase.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from iceberg_hms.changes import rebase as rebasing
from iceberg_hms.changes import referenced_specs
from iceberg_hms.changes import requirements as requirements_
from iceberg_hms.changes import updates as updates_
from iceberg_hms.changes.blind_append import Default
from iceberg_hms.changes.change import ChangeIdentity, Manifests, Requirement, Staged, Update
from iceberg_hms.changes.lineage import Lineage, Presence
from iceberg_hms.changes.manifest_delta import NotMergeable
from iceberg_hms.changes.sequence_numbers import made_on_another, renumbered
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: The assumption of every snapshot that it was not committed before.
NEW_SNAPSHOT: Final = "new-snapshot"
#: The assumption of every snapshot that the one it was made on is in the table.
PARENT_IS_THERE: Final = "snapshot-parent"


@dataclass(frozen=True)
class ClientCommit:
    """A commit that is applied as it was sent, but for its numbers, on any base that meets its requirements.

    known_specs: what was read of the table's lists to see whether the commit removes a partition spec that is in use.
    """

    identity: ChangeIdentity
    requirements: tuple[Requirement, ...]
    updates: tuple[Update, ...]
    known_specs: referenced_specs.Known = field(default_factory=dict, repr=False, compare=False)

    def check(self, base: TableMetadata | None) -> None:
        """Raises RequirementFailed for the first requirement that does not hold, see `requirements.check`; for a ref
        that names a snapshot which the updates remove; and for a snapshot that may have been committed before, where no
        requirement tells."""
        requirements_.check(self.requirements, base)
        if base is not None:
            _keep_refs(base, self.updates)
            self._refuse_known(base)
        elif not requirements_.is_create(self.requirements):
            raise RequirementFailed(requirements_.ASSERT_TABLE_UUID, "table does not exist")

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> Staged:
        """The updates as sent, but for stale numbers. The files are the client's, but for lists that were made anew.
        Raises RequirementFailed for a parent that the table lacks, for the removal of a partition spec that a snapshot
        uses, and as `renumbered`."""
        if base is None:
            return Staged(self.updates)
        _keep_parents(base, self.updates)
        referenced_specs.check_removed(base, self.updates, manifests, self.known_specs)
        return renumbered(base, self.updates, manifests)

    def _refuse_known(self, base: TableMetadata) -> None:
        # Whoever asserts the place of its branch does not find the branch there once it has landed. CREATE OR REPLACE
        # asserts none, and would take away what came after it.
        if self.identity.seen is None or self._asserts_place():
            return
        if Lineage(self.identity, base).presence is not Presence.ABSENT:
            raise RequirementFailed(
                NEW_SNAPSHOT,
                f"snapshot {self.identity.snapshot_ids[-1]} may be one of those that have expired since it was made",
                expected="a snapshot that was not committed before",
            )

    def _asserts_place(self) -> bool:
        wanted = (requirements_.ASSERT_REF_SNAPSHOT_ID, self.identity.ref)
        return any((each["type"], each.get("ref")) == wanted for each in self.requirements)


@dataclass(frozen=True)
class AddedSnapshot:
    """A commit that adds one snapshot to a branch, and may be put on another parent.

    moved: its requirement of the branch's place; the others stand in `request` with it. default: which appends may be
    rebased where the table does not say.
    """

    request: ClientCommit
    snapshot: Snapshot
    moved: Requirement
    default: Default

    @property
    def identity(self) -> ChangeIdentity:
        return self.request.identity

    def check(self, base: TableMetadata | None) -> None:
        """Raises RequirementFailed for a requirement that does not hold, unless it is `moved` and the snapshot may be
        rebased; the message then says why it may not."""
        others = tuple(each for each in self.request.requirements if each is not self.moved)
        requirements_.check(others, base)
        broken = self._moved(base)
        if broken is None:
            return
        if base is None or not self._finds_branch(base):
            raise broken
        reason = rebasing.why_not(base, self.snapshot, self.default)
        if reason is not None:
            raise _not_rebased(broken, reason)

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> Staged:
        """The updates as sent where `moved` holds, else the snapshot rebased. Raises RequirementFailed if what lies
        between does not allow it; CommitStateUnknown if the snapshot was on the branch before and has expired;
        StorageError, CorruptFile or MissingFile where a list cannot be read."""
        broken = self._moved(base)
        if broken is None or base is None:
            return self.request.stage(base, manifests)
        name = self.moved["ref"]
        ref = base.refs[name]
        head = base.snapshot_by_id(ref.snapshot_id)
        is_new = Lineage(self.identity, base).presence is Presence.ABSENT
        rebased = rebasing.rebase(base, self.snapshot, head, manifests, is_new=is_new)
        if isinstance(rebased, NotMergeable):
            raise _not_rebased(broken, rebased.reason)
        made = {
            "add-snapshot": updates_.add_snapshot(rebased.snapshot),
            "set-snapshot-ref": updates_.set_snapshot_ref(name, self.snapshot.snapshot_id, retention=ref),
        }
        updates = [made.get(update["action"], update) for update in self.request.updates]
        replaced = [location for location in (self.snapshot.manifest_list,) if location is not None]
        return Staged(updates, (rebased.snapshot["manifest-list"],), rebased=True, replaced=replaced)

    def _moved(self, base: TableMetadata | None) -> RequirementFailed | None:
        try:
            requirements_.check((self.moved,), base)
        except RequirementFailed as broken:
            return broken
        return None if base is None else made_on_another(base, self.snapshot)

    def _finds_branch(self, base: TableMetadata) -> bool:
        ref = base.ref(self.moved["ref"])
        return ref is not None and ref.is_branch


def _keep_refs(base: TableMetadata, updates: Sequence[Update]) -> None:
    """Raise RequirementFailed if `remove-snapshots` would take a branch or tag of `base` along that the updates neither
    remove nor leave at a snapshot that stays."""
    # Clients that expire snapshots require the table's uuid alone, so no requirement tells of a ref that appeared or
    # moved since.
    removed = {id_ for update in updates if update["action"] == "remove-snapshots" for id_ in update["snapshot-ids"]}
    if not removed:
        return
    targets: dict[str, int | None] = {name: ref.snapshot_id for name, ref in base.refs.items()}
    for update in updates:
        if update["action"] == "set-snapshot-ref":
            targets[update["ref-name"]] = update["snapshot-id"]
        elif update["action"] == "remove-snapshot-ref":
            targets[update["ref-name"]] = None
    for name, ref in base.refs.items():
        found = targets[name]
        if found in removed:
            raise RequirementFailed(
                requirements_.ASSERT_REF_SNAPSHOT_ID,
                f"{ref.type} {name} names snapshot {found}, which is to be removed",
                expected="a snapshot that stays",
                found=found,
            )


def _keep_parents(base: TableMetadata, updates: Sequence[Update]) -> None:
    """Raise RequirementFailed for a snapshot that was made on one which is neither in `base` nor added before it."""
    # A snapshot that is only staged, or that begins a branch, asserts no place. If its parent has expired meanwhile,
    # what it carries over are manifests and files that the expiry deletes.
    there: set[int] = set()
    for update in updates:
        if update["action"] != "add-snapshot":
            continue
        id_, parent = update["snapshot"]["snapshot-id"], update["snapshot"].get("parent-snapshot-id")
        if parent is not None and parent not in there and parent not in base.raw_snapshots_by_id:
            raise RequirementFailed(
                PARENT_IS_THERE,
                f"snapshot {id_} was made on snapshot {parent}, which is not in the table",
                expected=parent,
            )
        there.add(id_)


def _not_rebased(broken: RequirementFailed, reason: str) -> RequirementFailed:
    message = f"{broken.what}; not rebased, because {reason}"
    return RequirementFailed(broken.name, message, expected=broken.expected, found=broken.found)
