"""What snapshots hold, as a reader of the table sees it: files, rows, and the numbers of their manifests.

A row has the name of the file that appended it, and keeps that name when a rewrite moves it to another file; so a row
that reappears, or is there twice, is found whatever its file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from iceberg_hms.format.manifests.manifest import FileContent
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.testing.history import HistoryFinding, SnapshotContents, SnapshotReader, snapshot_findings
from iceberg_hms.testing.memory_manifests import MemoryManifests
from simulation.world.storage import Storage


@dataclass(frozen=True, slots=True)
class Contents:
    """A snapshot's manifest list, and all that it names.

    listed: the list and its manifests. findings: what is wrong with them and the snapshot's summary.
    named: the list, its manifests, and their live files. files: how often each data file is live.
    rows: how often each row is there, without those that a delete file removes.
    masked: the rows of live files that a delete file removes.
    gone: the rows of files that the snapshot removed or masked; a rewrite removes files, and keeps their rows.
    """

    listed: SnapshotContents | None = None
    findings: tuple[HistoryFinding, ...] = ()
    named: frozenset[str] = frozenset()
    files: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    masked: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


#: Of no snapshot.
NOTHING = Contents()


class ContentsReader:
    """Reads snapshots of one storage, each manifest list once: lists never change."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._reader = SnapshotReader(MemoryManifests(storage.store))
        self._known: dict[str, Contents] = {}

    def read(self, snapshot: Snapshot | None) -> Contents:
        """What a snapshot holds; nothing for None. A list that is missing, or names a missing manifest, is read again
        the next time."""
        if snapshot is None:
            return NOTHING
        location = snapshot.manifest_list or ""
        known = self._known.get(location)
        if known is None:
            known = self._contents(self._reader.read(snapshot))
            if known.listed is not None and not known.listed.failures:
                self._known[location] = known
        return known

    def _contents(self, listed: SnapshotContents) -> Contents:
        rows = self.storage.rows
        live = listed.live
        masked = {each.referenced_data_file or "" for each in live if each.content != FileContent.DATA}
        files = Counter(each.file_path for each in live if each.content == FileContent.DATA)
        removed = {
            entry.data_file.file_path for _, entries in listed.manifests for entry in entries if not entry.is_live
        }
        manifests = (line.manifest_path for line in listed.lines)
        return Contents(
            listed,
            tuple(snapshot_findings(listed)),
            frozenset((listed.snapshot.manifest_list or "", *manifests, *(each.file_path for each in live))),
            files,
            Counter(row for path in files.elements() if path not in masked for row in rows(path)),
            frozenset(row for path in masked for row in rows(path)),
            frozenset(row for path in masked | removed for row in rows(path)),
        )
