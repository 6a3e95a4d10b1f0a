"""A table as the checker sees it: read once for each metadata location."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from simulation.checks.contents import Contents, ContentsReader
from simulation.world.history import WriteAttempt


@dataclass(frozen=True)
class Branch:
    """chain: its snapshots, newest first. rows: how often its head has each row. gone: the rows that its snapshots
    deleted."""

    chain: tuple[Snapshot, ...] = ()
    rows: Counter[str] = field(default_factory=Counter)
    gone: frozenset[str] = frozenset()

    def has(self, attempt: WriteAttempt) -> bool:
        """Whether it has the attempt's snapshot, and the attempt's row unless a snapshot deleted it."""
        row = attempt.row
        if not any(snapshot.snapshot_id == attempt.snapshot_id for snapshot in self.chain):
            return False
        return row is None or self.rows[row] == 1 or (row in self.gone and not self.rows[row])


_NO_BRANCH = Branch()


@dataclass(frozen=True)
class ObservedTable:
    """What one metadata location names.

    metadata: None if its file is missing or broken.
    branches: by name. held: what each of its snapshots holds.
    needed: all files that the metadata names, directly or not. missing: those of them that are not there.
    """

    location: str
    metadata: TableMetadata | None
    branches: Mapping[str, Branch] = field(default_factory=dict)
    held: Mapping[int, Contents] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()

    @classmethod
    def read(cls, reader: ContentsReader, location: str) -> ObservedTable:
        """The state behind a location, as far as it can be read."""
        storage = reader.storage
        data = storage.files.get(location)
        if data is None:
            return cls(location, None, missing=(location,), needed=frozenset((location,)))
        metadata = metadata_file.decode(data, location)
        held = {snapshot.snapshot_id: reader.read(snapshot) for snapshot in metadata.snapshots}
        needed = {location}.union(*(each.named for each in held.values()))
        logged = {entry["metadata-file"] for entry in metadata.metadata_log}
        branches = {}
        for name, ref in metadata.refs.items():
            if ref.is_branch:
                chain = tuple(metadata.ancestors(ref.snapshot_id))
                if chain:
                    gone = frozenset[str]().union(*(held[each.snapshot_id].gone for each in chain))
                    branches[name] = Branch(chain, held[chain[0].snapshot_id].rows, gone)
        missing = tuple(
            sorted(needed.difference(storage.files, storage.store.lists, storage.store.manifests, storage.data))
        )
        return cls(location, metadata, branches, held, frozenset(needed | logged), missing)

    @property
    def main(self) -> Branch:
        return self.branches.get(MAIN_BRANCH, _NO_BRANCH)

    def follows(self, location: str | None) -> bool:
        """Whether its metadata log names this location as the last one before it."""
        log = self.metadata.metadata_log if self.metadata is not None else ()
        return bool(log) and log[-1]["metadata-file"] == location

    def has(self, attempt: WriteAttempt) -> bool:
        """Whether an attempt is in the table, on a branch or beside all branches."""
        if self.metadata is None:
            return False
        if attempt.snapshot_id is not None and self.metadata.snapshot_by_id(attempt.snapshot_id) is not None:
            return True
        return attempt.mark is not None and attempt.mark in self.metadata.properties

    def shows(self, attempt: WriteAttempt) -> bool:
        """Whether a reader of a branch, or of the properties, finds the attempt. A replaced history stays in the table
        beside its branches."""
        if self.metadata is None or attempt.snapshot_id is None:
            return self.has(attempt)
        id_ = attempt.snapshot_id
        return any(snapshot.snapshot_id == id_ for branch in self.branches.values() for snapshot in branch.chain)

    def has_well(self, attempt: WriteAttempt) -> bool:
        """Whether an attempt is in the table as its client requested."""
        if self.metadata is None:
            return False
        if attempt.snapshot_id is not None:
            return self.branches.get(attempt.branch, _NO_BRANCH).has(attempt)
        ref = self.metadata.refs.get(attempt.ref[0]) if attempt.ref else None
        ref_is_right = attempt.ref is None or (ref is not None and ref.snapshot_id == attempt.ref[1])
        return attempt.mark in self.metadata.properties and ref_is_right
