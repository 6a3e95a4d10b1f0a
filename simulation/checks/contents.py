"""What snapshots hold, as a reader of the table sees it: files, rows, and the numbers of their manifests.

A row has the name of the file that appended it, and keeps that name when a rewrite moves it to another file; so a row
that reappears, or is there twice, is found whatever its file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from iceberg_hms.format.manifests.manifest import FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from simulation.world.storage import Storage


@dataclass(frozen=True, slots=True)
class Contents:
    """A snapshot's manifest list, and all that it names.

    named: the list, its manifests, and their live files. files: how often each data file is live.
    rows: how often each row is there, without those that a delete file removes.
    masked: the rows of live files that a delete file removes.
    gone: the rows of files that the snapshot removed or masked; a rewrite removes files, and keeps their rows.
    vectors: how many deletion vectors each data file has.
    numbers: the sequence numbers of the manifests that it added.
    row_ids: from format version 3 on, of each manifest: first, end, and the manifest's name.
    """

    named: frozenset[str] = frozenset()
    files: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    masked: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    vectors: Counter[str] = field(default_factory=Counter)
    numbers: frozenset[int] = frozenset()
    row_ids: tuple[tuple[int, int, str], ...] = ()


class ContentsReader:
    """Reads snapshots of one storage, each manifest list once: lists never change."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._known: dict[str, Contents] = {}

    def read(self, snapshot: Snapshot | None) -> Contents:
        """What a snapshot holds; nothing for None. A list that is missing, or names a missing manifest, is read again
        the next time."""
        if snapshot is None:
            return _NOTHING
        location = snapshot.manifest_list or ""
        known = self._known.get(location)
        if known is None:
            store = self.storage.store
            manifests = store.lists.get(location, ())
            known = _read(self.storage, snapshot, manifests)
            if manifests and all(each.manifest_path in store.manifests for each in manifests):
                self._known[location] = known
        return known


def _read(storage: Storage, snapshot: Snapshot, manifests: tuple[ManifestFile, ...]) -> Contents:
    entries: list[ManifestEntry] = []
    named, row_ids = {snapshot.manifest_list or ""}, []
    for manifest in manifests:
        named.add(manifest.manifest_path)
        entries.extend(storage.store.manifests.get(manifest.manifest_path, ()))
        if manifest.first_row_id is not None:
            count = (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
            row_ids.append((manifest.first_row_id, manifest.first_row_id + count, manifest.manifest_path))
    live = [entry.data_file for entry in entries if entry.is_live]
    named.update(each.file_path for each in live)
    masked = {each.referenced_data_file or "" for each in live if each.content != FileContent.DATA}
    files = Counter(each.file_path for each in live if each.content == FileContent.DATA)
    removed = {entry.data_file.file_path for entry in entries if not entry.is_live}
    return Contents(
        frozenset(named),
        files,
        Counter(row for path in files.elements() if path not in masked for row in storage.rows(path)),
        frozenset(row for path in masked for row in storage.rows(path)),
        frozenset(row for path in masked | removed for row in storage.rows(path)),
        Counter(each.referenced_data_file or "" for each in live if each.is_deletion_vector),
        frozenset(each.sequence_number for each in manifests if each.added_snapshot_id == snapshot.snapshot_id),
        tuple(row_ids),
    )


_NOTHING = Contents()
