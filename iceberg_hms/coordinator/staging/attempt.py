"""One attempt of a group to replace a table's metadata: built on a base, written, and sent as a swap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.ports import CommitPorts, Manifests, Pointer
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.coordinator.staging.staging import Staging
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class CommitAttempt:
    """A swap from `base` to the new metadata file at `location`, and what it carries.

    base: the row that the swap replaces, and the metadata that the new one was built on.
    commits: that it carries; none where a table is registered over, or fenced.
    written: files that only this attempt's metadata would name; worthless once the attempt is.
    staged_files: files that the commits' staging wrote; the next attempt names them again.
    committed_as: the snapshots of commits that were in the metadata before they were staged, as the table has them.
    added: the snapshots of commits that add others than their changes' identities name.
    rebased: the commits whose snapshot is on a parent that its client had not seen.
    replaced_lists: clients' lists that no snapshot names once this attempt lands.
    owns_folder: whether it moves the table to a folder that may be recorded as the table's own.
    """

    base: TableVersion
    metadata: TableMetadata
    location: str
    commits: Sequence[PendingCommit] = ()
    written: Sequence[str] = ()
    staged_files: Sequence[str] = ()
    committed_as: Mapping[PendingCommit, tuple[int, ...]] = field(default_factory=dict)
    added: Mapping[PendingCommit, tuple[int, ...]] = field(default_factory=dict)
    rebased: frozenset[PendingCommit] = frozenset()
    replaced_lists: Sequence[str] = ()
    owns_folder: bool = False

    @property
    def carried_ids(self) -> Sequence[int]:
        """The snapshots of those commits that add some."""
        return [id_ for commit in self.commits for id_ in commit.identity.snapshot_ids]

    @property
    def identifying_ids(self) -> Sequence[int]:
        """Snapshots that are all in the table only if this attempt landed: those of all commits; none if one of them
        adds no snapshot."""
        return self.carried_ids if all(commit.identity.snapshot_ids for commit in self.commits) else ()

    def swap(self, *, fences: bool) -> SentSwap:
        """The record of the swap that is about to carry it. fences: as `SentSwap` has it."""
        return SentSwap(
            self.base.pointer.name,
            self.base.pointer.metadata_location,
            fences,
            frozenset[int | str]().union(*(commit.carries for commit in self.commits)),
            frozenset((*self.written, *self.staged_files)),
            self.metadata.last_sequence_number,
            self.metadata.uuid,
        )

    def on(self, row: Pointer) -> CommitAttempt:
        """The same attempt, to replace the table's row as it was read just now."""
        return replace(self, base=TableVersion(row, self.base.metadata))


def fence(base: TableVersion, unique: str) -> CommitAttempt:
    """An attempt that changes nothing but the name of the metadata file: every swap that was sent before it then finds
    another location than it expects."""
    metadata = next_metadata(base.metadata, base)
    location = metadata_file.new_location(metadata, base.pointer.metadata_location, unique)
    return CommitAttempt(base, metadata, location)


def attempt_of(
    staging: Staging, metadata: TableMetadata, base: TableVersion, unique: str, *, owns_folder: bool = False
) -> CommitAttempt:
    """The attempt to swap in what was staged, not written yet. metadata: the running metadata of `staging`, which is
    not that of the base. unique: makes a file name that was never used before. owns_folder: as `CommitAttempt`."""
    metadata = next_metadata(metadata, base)
    return CommitAttempt(
        base,
        metadata,
        metadata_file.new_location(metadata, base.pointer.metadata_location, unique),
        tuple(staging.carried),
        staged_files=tuple(each for commit in staging.carried for each in staging.files.get(commit, ())),
        committed_as=dict(staging.committed_as),
        added=dict(staging.added),
        rebased=frozenset(staging.rebased),
        replaced_lists=tuple(staging.replaced_lists),
        owns_folder=owns_folder,
    )


def next_metadata(staged: TableMetadata, base: TableVersion) -> TableMetadata:
    """What is written of metadata that was staged on a base: it logs the file that it replaces."""
    return staged.with_metadata_log_entry(base.pointer.metadata_location, base.metadata.last_updated_ms)


def write(ports: CommitPorts, attempt: CommitAttempt, manifests: Manifests, cache: MetadataCache) -> CommitAttempt:
    """The attempt with its metadata file and the staged manifest lists on disk, written side by side. Raises
    StorageError; the metadata file may be there then. Raises InvalidInput for metadata beyond the bounds, with nothing
    written."""
    location = attempt.location
    data = cache.encode(attempt.metadata, attempt.base.metadata)
    lists, _ = ports.runtime.gather([manifests.flush, lambda: ports.files.write(location, data)])
    return replace(attempt, written=(location, *lists))
