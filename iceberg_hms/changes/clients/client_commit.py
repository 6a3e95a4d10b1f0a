"""Clients' commits, and how they replay on a table that moved.

A commit replays if its requirements hold on the table's current metadata; stale numbers are replaced
(`sequence_numbers.py`). If only the requirement on the branch that it adds a snapshot to fails, the snapshot may be put
on another parent (`rebase.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from iceberg_hms.changes import referenced_specs
from iceberg_hms.changes import requirements as requirements_
from iceberg_hms.changes import updates as updates_
from iceberg_hms.changes.change import ChangeIdentity, Manifests, Requirement, StagedChange, Update
from iceberg_hms.changes.clients import rebase as rebasing
from iceberg_hms.changes.clients.appended_files import AppendedFiles
from iceberg_hms.changes.clients.blind_append import PolicyLookup
from iceberg_hms.changes.clients.lineage import Lineage, Presence
from iceberg_hms.changes.manifest_delta import NotRebasable
from iceberg_hms.changes.sequence_numbers import parent_conflict, renumber
from iceberg_hms.changes.summary import whole_number
from iceberg_hms.errors import InvalidInput, RequirementFailed, own_copy
from iceberg_hms.format.metadata.rows import SOURCE_SNAPSHOT_ID
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: Assumed by every snapshot: it was not committed before.
NEW_SNAPSHOT: Final = "new-snapshot"
#: Assumed by every snapshot: nobody has committed since its client read the numbers that follow the table's.
NUMBERS_ARE_FRESH: Final = "snapshot-numbers"
#: Assumed by every snapshot: its parent is in the table.
PARENT_EXISTS: Final = "snapshot-parent"


@dataclass(frozen=True)
class ClientCommit:
    """A commit that is applied as sent, except for stale numbers, to any base that meets its requirements.

    known_specs: the partition specs of snapshots, read on earlier bases to check that the commit removes none in use.
    too_large: the refusal of a commit with too many updates; None: it may be made.
    """

    identity: ChangeIdentity
    requirements: tuple[Requirement, ...]
    updates: tuple[Update, ...]
    known_specs: referenced_specs.KnownSpecs = field(default_factory=dict, repr=False, compare=False)
    too_large: InvalidInput | None = field(default=None, repr=False, compare=False)

    def check(self, base: TableMetadata | None) -> None:
        """Raises InvalidInput as `check_size`, and for the cherry-pick of a snapshot that the table lacks;
        RequirementFailed for the first requirement that fails (`requirements.check`), for a ref to a snapshot that the
        updates remove, and for a snapshot that may have been committed before, if no requirement excludes that."""
        self.check_size()
        _check_picked_exist(base, self.updates)
        requirements_.check(self.requirements, base)
        if base is not None:
            _check_refs_kept(base, self.updates)
            self._check_new(base)
        elif not requirements_.is_create(self.requirements):
            raise RequirementFailed(requirements_.ASSERT_TABLE_UUID, "table does not exist")

    def check_size(self) -> None:
        """Raises InvalidInput for a commit with too many updates."""
        if self.too_large is not None:
            raise own_copy(self.too_large)

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """The client's updates, with stale numbers and the manifest lists that state them replaced.
        Raises RequirementFailed for a parent that the table lacks, for the removal of a partition spec that a snapshot
        uses, and as `renumber`."""
        if base is None:
            return StagedChange(self.updates)
        _check_parents_exist(base, self.updates)
        referenced_specs.check_removed(base, self.updates, manifests, self.known_specs)
        with _numbering():
            return renumber(base, self.updates, manifests)

    def _check_new(self, base: TableMetadata) -> None:
        # If the commit asserts its branch's snapshot and was committed before, that requirement fails. CREATE OR
        # REPLACE asserts none, and committing it again would undo the commits since.
        if self.identity.client_base is None or self._asserts_branch():
            return
        if Lineage(self.identity, base).presence is not Presence.ABSENT:
            raise RequirementFailed(
                NEW_SNAPSHOT,
                f"snapshot {self.identity.snapshot_ids[-1]} may be one of those that have expired since it was made",
                expected="a snapshot that was not committed before",
            )

    def _asserts_branch(self) -> bool:
        wanted = (requirements_.ASSERT_REF_SNAPSHOT_ID, self.identity.ref)
        return any((each["type"], each.get("ref")) == wanted for each in self.requirements)


@dataclass(frozen=True)
class RebasableCommit:
    """A commit that adds one snapshot to a branch, and may be put on another parent.

    commit: as the client sent it. ref_requirement: the one of its requirements that asserts the branch's snapshot.
    default: the rebase policy of tables that set none.
    appended_files: of an append, in manifests that earlier stagings wrote.
    """

    commit: ClientCommit
    snapshot: Snapshot
    ref_requirement: Requirement
    default: PolicyLookup
    appended_files: AppendedFiles = field(default_factory=AppendedFiles, repr=False, compare=False)

    @property
    def identity(self) -> ChangeIdentity:
        return self.commit.identity

    def check(self, base: TableMetadata | None) -> None:
        """Raises InvalidInput as `ClientCommit.check`; RequirementFailed for a requirement that fails, unless it is
        `ref_requirement` and the snapshot may be rebased. If it may not, the message says why."""
        self.commit.check_size()
        _check_picked_exist(base, self.commit.updates)
        requirements_.check([each for each in self.commit.requirements if each is not self.ref_requirement], base)
        failure = self._ref_failure(base)
        if failure is None:
            return
        if base is None or not self._has_branch(base):
            raise failure
        reason = rebasing.why_not_rebasable(base, self.snapshot, self.default)
        if reason is not None:
            raise _not_rebased(failure, reason)

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """The client's updates if `ref_requirement` holds, else the snapshot rebased. Raises RequirementFailed if the
        commits in between do not allow that; CommitStateUnknown if the snapshot was on the branch before and has
        expired."""
        failure = self._ref_failure(base)
        if failure is None or base is None:
            return self.commit.stage(base, manifests)
        name = self.ref_requirement["ref"]
        ref = base.refs[name]
        head = base.snapshot_by_id(ref.snapshot_id)
        is_new = Lineage(self.identity, base).presence is Presence.ABSENT
        with _numbering():
            rebased = rebasing.rebase(base, self.snapshot, head, manifests, self.appended_files, is_new=is_new)
        if isinstance(rebased, NotRebasable):
            raise _not_rebased(failure, rebased.reason)
        rebased_updates = {
            "add-snapshot": updates_.add_snapshot(rebased.snapshot),
            "set-snapshot-ref": updates_.set_snapshot_ref(name, self.snapshot.snapshot_id, retention=ref),
        }
        updates = [rebased_updates.get(update["action"], update) for update in self.commit.updates]
        listed = self.snapshot.manifest_list
        files = (*rebased.written, rebased.snapshot["manifest-list"])
        return StagedChange(updates, files, rebased=True, replaced=() if listed is None else (listed,))

    def _ref_failure(self, base: TableMetadata | None) -> RequirementFailed | None:
        failure = requirements_.failure(self.ref_requirement, base)
        return failure if failure is not None or base is None else parent_conflict(base, self.snapshot)

    def _has_branch(self, base: TableMetadata) -> bool:
        ref = base.ref(self.ref_requirement["ref"])
        return ref is not None and ref.is_branch


def _check_refs_kept(base: TableMetadata, updates: Sequence[Update]) -> None:
    """Raise RequirementFailed if `remove-snapshots` would remove a branch or tag of `base` with its snapshot, unless
    the updates remove the ref themselves or move it to a snapshot that stays."""
    # Clients that expire snapshots assert only the table's uuid: no requirement fails if a ref was created or moved.
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


def _check_parents_exist(base: TableMetadata, updates: Sequence[Update]) -> None:
    """Raise RequirementFailed for a snapshot whose parent is neither in `base` nor added before it."""
    # A snapshot that is only staged, or that starts a branch, asserts no ref. If its parent has expired meanwhile, its
    # list names manifests and files that the expiry deletes.
    added: set[int] = set()
    for update in updates:
        if update["action"] != "add-snapshot":
            continue
        id_, parent = update["snapshot"]["snapshot-id"], update["snapshot"].get("parent-snapshot-id")
        if parent is not None and parent not in added and parent not in base.raw_snapshots_by_id:
            raise RequirementFailed(
                PARENT_EXISTS,
                f"snapshot {id_} was made on snapshot {parent}, which is not in the table",
                expected=parent,
            )
        added.add(id_)


def _check_picked_exist(base: TableMetadata | None, updates: Sequence[Update]) -> None:
    """Raise InvalidInput for a snapshot that was made as the cherry-pick of one that is not in `base`."""
    # Who expired it has deleted its files, or is about to: nothing named them until now. The client's requirements hold
    # all the same, since an expiry moves no branch. After RequirementFailed Java would try again, and end with a
    # NullPointerException (WapUtil.validateWapPublish); this it shows to its user, and deletes what it wrote.
    for update in updates:
        if base is None or update["action"] != "add-snapshot":
            continue
        summary = update["snapshot"].get("summary")
        picked = whole_number(summary.get(SOURCE_SNAPSHOT_ID)) if isinstance(summary, dict) else None
        if picked is not None and picked not in base.raw_snapshots_by_id:
            id_ = update["snapshot"]["snapshot-id"]
            raise InvalidInput(
                f"snapshot {id_} picks snapshot {picked}, which is not in the table: it has expired, and its files may "
                "be deleted",
                next_step="write the rows again",
            )


@contextmanager
def _numbering() -> Iterator[None]:
    """For a body that writes a client's list anew. Raises RequirementFailed for a list that cannot be numbered: as its
    client wrote it, it was right for the table that the client read."""
    try:
        yield
    except InvalidInput as error:
        raise RequirementFailed(NUMBERS_ARE_FRESH, error.message, next_step=error.next_step or None) from error


def _not_rebased(failure: RequirementFailed, reason: str) -> RequirementFailed:
    message = f"{failure.what}; not rebased, because {reason}"
    return RequirementFailed(failure.name, message, expected=failure.expected, found=failure.found)
