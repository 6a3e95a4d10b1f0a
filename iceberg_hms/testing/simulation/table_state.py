"""What a table is, as a judge sees it: read once for each move of its pointer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from iceberg_hms.format import metadata_file
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.format.snapshot import Snapshot
from iceberg_hms.testing.simulation.history import Attempt
from iceberg_hms.testing.simulation.storage import Storage


@dataclass(frozen=True)
class TableState:
    """What the pointer names, read once for each move.

    metadata: None if its file is missing or broken.
    chain: main's snapshots, newest first. live: how often main's manifests have each data file.
    needed: all files that the metadata names, directly or not. missing: those of them that are not there.
    rows: from version 3 on, the row ids of each of main's manifests, from and to; sorted.
    """

    location: str
    metadata: TableMetadata | None
    chain: tuple[Snapshot, ...] = ()
    live: Counter[str] = field(default_factory=Counter)
    needed: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    rows: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, storage: Storage, location: str) -> TableState:
        """The state behind a location, as far as it can be read."""
        data = storage.files.get(location)
        if data is None:
            return cls(location, None, missing=(location,), needed=frozenset((location,)))
        metadata = metadata_file.decode(data, location)
        needed = {location}
        logged = {entry["metadata-file"] for entry in metadata.metadata_log}
        for snapshot in metadata.snapshots:
            needed |= _named_by(storage, snapshot)
        chain = tuple(metadata.ancestors(metadata.current_snapshot_id)) if metadata.current_snapshot_id else ()
        live: Counter[str] = Counter()
        rows: list[tuple[int, int]] = []
        if chain:
            for manifest in storage.store.lists.get(chain[0].manifest_list or "", ()):
                entries = storage.store.manifests.get(manifest.manifest_path, ())
                live.update(entry.data_file.file_path for entry in entries)
                if manifest.first_row_id is not None:
                    count = (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
                    rows.append((manifest.first_row_id, manifest.first_row_id + count))
        missing = tuple(sorted(each for each in needed if not storage.exists(each)))
        return cls(location, metadata, chain, live, frozenset(needed | logged), missing, tuple(sorted(rows)))

    def has(self, attempt: Attempt) -> bool:
        """Whether an attempt is in the table, in any way."""
        if self.metadata is None:
            return False
        if attempt.snapshot_id is not None:
            return self.metadata.snapshot_by_id(attempt.snapshot_id) is not None
        return attempt.mark in self.metadata.properties

    def has_well(self, attempt: Attempt) -> bool:
        """Whether an attempt is in the table as its client wanted it."""
        if self.metadata is None:
            return False
        if attempt.snapshot_id is not None:
            on_main = any(snapshot.snapshot_id == attempt.snapshot_id for snapshot in self.chain)
            return on_main and self.live[attempt.data_file or ""] == 1
        ref = self.metadata.refs.get(attempt.ref[0]) if attempt.ref else None
        ref_is_right = attempt.ref is None or (ref is not None and ref.snapshot_id == attempt.ref[1])
        return attempt.mark in self.metadata.properties and ref_is_right


def _named_by(storage: Storage, snapshot: Snapshot) -> set[str]:
    named = {snapshot.manifest_list or ""}
    for manifest in storage.store.lists.get(snapshot.manifest_list or "", ()):
        named.add(manifest.manifest_path)
        named.update(entry.data_file.file_path for entry in storage.store.manifests.get(manifest.manifest_path, ()))
    return named
