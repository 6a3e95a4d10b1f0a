"""Check and stage each change of a group on the running metadata, each from a savepoint.

Metadata is immutable, so a savepoint is the metadata before the change: a change that fails is dropped alone, and the
next one is staged on the metadata before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from iceberg_hms.changes import new_manifests
from iceberg_hms.changes.change import Change, Manifests, StagedChange
from iceberg_hms.changes.referenced_specs import has_files_sorted_as
from iceberg_hms.changes.reruns import refuse_another_job
from iceberg_hms.coordinator.locations.guarded_manifests import guarded
from iceberg_hms.coordinator.locations.location_policy import LocationGuard
from iceberg_hms.coordinator.outcome.already_committed import committed_as
from iceberg_hms.coordinator.ports import Pointer
from iceberg_hms.coordinator.staging.invariants import check_clock, check_transition
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import DoesNotFit, IcebergHmsError, RequirementFailed
from iceberg_hms.format.locations import parse
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.work import working_for

#: `RequirementFailed.name` of updates that name or assume what the table does not have, or has otherwise.
UPDATES_FIT: Final = "updates-fit-the-table"


class Staging:
    """The changes of a group on their way into one metadata file: `begin`, then `finish`.

    base: the metadata that the first change is staged on. manifests: with the lists that were staged.
    row: of the table, for commits that may name only some locations.
    check_move: called with the metadata before and after a change; raises what refuses the folders that it names.
    measure: called with the metadata after each change; raises what refuses the change. None: it is not asked.
    metadata: the running metadata; None while a table that is to be created has nothing yet.
    carried: the commits whose changes are in it.
    already: commits that the base holds already.
    refused: commits whose check or staging failed, with the error; no swap carries them.
    withdrawn: commits whose callers left while they were staged; no swap carries them either.
    files: what each commit wrote; also one that failed: what it wrote is named again when it is staged again.
    manifests_written: the manifests that each wrote now, whether or not its result names them, or it has one.
    committed_as: the snapshots of commits that were in the metadata before they were staged, as the table has them.
    added: the snapshots that carried commits add, where these are not all that their changes' identities name.
    rebased: those of the carried whose snapshot is on a parent that its client had not seen.
    replaced_lists: lists of the carried ones' clients that no snapshot names.
    """

    def __init__(
        self,
        base: TableMetadata | None,
        commits: Sequence[PendingCommit],
        manifests: Manifests,
        now_ms: Callable[[], int],
        row: Pointer | None = None,
        check_move: Callable[[TableMetadata, TableMetadata], None] = lambda _before, _after: None,
        measure: Callable[[TableMetadata], None] | None = None,
    ) -> None:
        self.base = base
        self.manifests = manifests
        self.metadata = base
        self.carried: list[PendingCommit] = []
        self.already: list[PendingCommit] = []
        self.refused: list[tuple[PendingCommit, Exception]] = []
        self.withdrawn: list[PendingCommit] = []
        self.files: dict[PendingCommit, Sequence[str]] = {}
        self.manifests_written: dict[PendingCommit, Sequence[str]] = {}
        self.committed_as: dict[PendingCommit, tuple[int, ...]] = {}
        self.added: dict[PendingCommit, tuple[int, ...]] = {}
        self.rebased: set[PendingCommit] = set()
        self.replaced_lists: list[str] = []
        self._now_ms = now_ms
        self._row = row
        #: Those of one attempt share it: what it has looked up holds for all.
        self._guard: LocationGuard | None = None
        self._check_move = check_move
        self._measure = measure
        self._commits = commits
        self._remaining = iter(commits)

    def begin(self) -> bool:
        """Stage commits until one is carried, so that there will be something to swap. False: none is."""
        self._fetch_lists()
        for commit in self._remaining:
            self._add(commit)
            if self.carried:
                return True
        return False

    def finish(self) -> Staging:
        """Stage the rest."""
        for commit in self._remaining:
            self._add(commit)
        return self

    def _fetch_lists(self) -> None:
        """Read what the clients wrote for all commits at once: from a remote store each takes a trip of its own."""
        allowed: list[str] = []
        for commit in self._commits:
            for location in commit.change.identity.lists:
                # What the commit may not read is not read for it. Its own staging raises why.
                with suppress(IcebergHmsError):
                    if parse(location).is_local:
                        continue
                    guard = self._guard_of(commit)
                    if guard is not None:
                        guard.check_read(location, "manifest-list")
                    allowed.append(location)
        if allowed:
            self.manifests.fetch(allowed)

    def _add(self, commit: PendingCommit) -> None:
        """Stage a commit; one that fails is set aside with its own error."""
        guard = self._guard_of(commit)
        recorded = RecordedWrites(guarded(self.manifests, guard))
        try:
            if self.base is not None and self._is_in(self.base, commit, recorded):
                self.already.append(commit)
                return
            if self.metadata is not None and self._is_in(self.metadata, commit, recorded):
                # Its twin is in this group: it shares the group's outcome, whatever that will be.
                self.carried.append(commit)
                return
            with working_for(lambda: commit.withdrawn):
                staged = self._stage(commit.change, recorded, guard)
            self.files[commit] = staged.files
            self.manifests_written[commit] = tuple(recorded.written)
            self.carried.append(commit)
            self.replaced_lists.extend(staged.replaced)
            if staged.snapshot_ids is not None:
                self.added[commit] = staged.snapshot_ids
            if staged.rebased:
                self.rebased.add(commit)
        except Exception as error:  # noqa: BLE001 - whatever a change raises is its own caller's answer, never the group's
            self.files[commit] = self.manifests_written[commit] = tuple(recorded.written)
            if commit.withdrawn:
                self.withdrawn.append(commit)
            else:
                self.refused.append((commit, error))

    def _guard_of(self, commit: PendingCommit) -> LocationGuard | None:
        if commit.locations is None:
            return None
        if self._guard is None:
            policy = commit.locations.policy
            if self._row is None or self.base is None:
                self._guard = policy.guard()
            else:
                self._guard = policy.table_guard(self._row, self.base)
        return commit.locations.of_table(self._guard, self._row)

    def _stage(self, change: Change, recorded: RecordedWrites, guard: LocationGuard | None) -> StagedChange:
        metadata, staged = stage_one(self.metadata, change, recorded, self._now_ms, guard)
        try:
            if self.metadata is not None:
                self._check_move(self.metadata, metadata)
            if self._measure is not None and metadata is not self.metadata:
                self._measure(metadata)
        except Exception:
            recorded.discard(recorded.lists)
            raise
        self.metadata = metadata
        return staged

    def _is_in(self, metadata: TableMetadata, commit: PendingCommit, manifests: Manifests) -> bool:
        identity = commit.identity
        found = committed_as(identity, metadata)
        if found is None:
            return False
        if found != identity.snapshot_ids and (first := metadata.snapshot_by_id(found[-1])) is not None:
            refuse_another_job(identity, first, manifests)
        self.committed_as[commit] = found
        return True


class RecordedWrites:
    """The group's Manifests for one change. Records what the change writes and stages, in case it fails before it can
    return that.

    written: locations of manifests, which are on disk. lists: locations of lists, which are not.
    """

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests
        self.written: list[str] = []
        self.lists: list[str] = []
        self.fetch = manifests.fetch
        self.list = manifests.list
        self.added = manifests.added
        self.entries = manifests.entries
        self.read = manifests.read
        self.candidates = manifests.candidates
        self.naming = manifests.naming
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
    savepoint: TableMetadata | None,
    change: Change,
    manifests: RecordedWrites,
    now_ms: Callable[[], int],
    guard: LocationGuard | None = None,
) -> tuple[TableMetadata, StagedChange]:
    """The metadata after one change, and what staging it made. Raises what the change, an invariant or the guard
    raises, and discards the lists that the change staged: `flush` writes none of them.

    guard: of the locations that the new metadata may name; None: all."""
    change.check(savepoint)
    try:
        staged = change.stage(savepoint, manifests)
        now = now_ms()
        metadata = _applied(savepoint, staged, manifests, now)
        added = check_transition(savepoint, metadata).added
        check_clock(savepoint, added, now)
        if guard is not None:
            guard.check_metadata(savepoint, metadata, added)
        new_manifests.check(metadata, added, manifests)
    except Exception:
        manifests.discard(manifests.lists)
        raise
    return metadata, staged


def _applied(savepoint: TableMetadata | None, staged: StagedChange, manifests: Manifests, now_ms: int) -> TableMetadata:
    """The metadata after the updates. Raises as `apply`, but RequirementFailed for what does not fit the table."""
    try:
        return apply(
            savepoint,
            staged.updates,
            now_ms=now_ms,
            claims_order=lambda order, added: has_files_sorted_as(order, added, manifests),
        )
    except DoesNotFit as error:
        if savepoint is None:
            raise
        # Another writer may have made it unfit. After 400 clients do not try again; after 409 they read the table, and
        # tell their users what they find there.
        raise RequirementFailed(UPDATES_FIT, error.message, next_step=error.next_step or None) from error
