"""A group on its way to a swap: as it is staged, and as it was built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iceberg_hms.coordinator.ports import Manifests
from iceberg_hms.coordinator.protocol.metadata_cache import TableVersion
from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Draft:
    """A group as it is staged on one base. data: of the metadata file. manifests: with the lists that go with it.
    staged: the files that its members' staging wrote."""

    base: TableVersion
    metadata: TableMetadata
    location: str
    data: bytes
    manifests: Manifests
    staged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitAttempt:
    """A group as it was built on one base.

    written: files that only this attempt's metadata would name; worthless once the attempt is. staged: as of the draft.
    """

    base: TableVersion
    metadata: TableMetadata
    location: str
    members: tuple[PendingCommit, ...]
    written: tuple[str, ...]
    staged: tuple[str, ...]

    @property
    def snapshot_ids(self) -> Sequence[int]:
        """Of all members; none if one of them adds no snapshot."""
        ids = [member.change.identity.snapshot_ids for member in self.members]
        return self.carried_ids if all(ids) else ()

    @property
    def carried_ids(self) -> Sequence[int]:
        """Of those members that add snapshots."""
        return [id_ for member in self.members for id_ in member.change.identity.snapshot_ids]
