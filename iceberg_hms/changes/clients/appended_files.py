"""An append as the files that it adds, in manifests that the server writes.

A client may merge: one manifest then lists its new files together with older ones, in place of the manifests that
listed those. If the head lacks what it replaced, its manifest cannot be used: others removed some of the older files,
or list them in manifests of their own. The append itself is no more than the entries that its snapshot ADDED.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.manifest_delta import ManifestDelta
from iceberg_hms.changes.partition_set import schema_of_spec
from iceberg_hms.changes.summary import whole_number
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: How many manifests, and how many entries of all, are read at most, since the table's other writers may wait
#: meanwhile: a few seconds, where the new files come last.
MANIFESTS_MAX: Final = 100
ENTRIES_MAX: Final = 50_000


class AppendedFiles:
    """The files of one client's append. One instance serves one commit, since a failure deletes the manifests.

    They depend on no base, so the client's manifests are read once, and every replay has the same new ones."""

    def __init__(self) -> None:
        #: None: not tried yet. Empty: it cannot be done.
        self._written: Sequence[ManifestFile] | None = None

    def delta(self, base: TableMetadata, snapshot: Snapshot, manifests: Manifests) -> ManifestDelta | None:
        """The append as new manifests with its files; it replaces none. None: the client's manifests are not certain
        to add files alone, are too many or too large, or hold something that the server cannot write."""
        if self._written is None:
            self._written = _write(base, snapshot, _read(snapshot, manifests), manifests)
        return ManifestDelta(tuple(self._written)) if self._written else None


def _read(snapshot: Snapshot, manifests: Manifests) -> dict[int, list[ManifestEntry]]:
    """Partition spec id -> the entries that a snapshot added; empty if it did more, or if that is not certain."""
    # Inline manifests do not say which snapshot added them.
    listed = () if snapshot.manifest_list is None else manifests.list(snapshot)
    own = [each for each in listed if each.added_snapshot_id == snapshot.snapshot_id]
    if not all(map(_only_adds, own)):
        return {}
    adding = [each for each in own if each.added_files_count]
    # The summary counts what the client means to add: all of it must be in manifests of its own.
    if sum(each.added_files_count or 0 for each in adding) != whole_number(snapshot.summary.get("added-data-files")):
        return {}
    if len(adding) > MANIFESTS_MAX or sum(each.files_count or 0 for each in adding) > ENTRIES_MAX:
        return {}
    found: dict[int, list[ManifestEntry]] = {}
    # Without the numbers of the client's list, an entry has only those that it states.
    unnumbered = [replace(each, sequence_number=UNASSIGNED, first_row_id=None) for each in adding]
    for file, entries in manifests.read(unnumbered):
        added = _added(file, entries)
        if len(added) != file.added_files_count or not all(_is_new(each, snapshot) for each in added):
            return {}
        found.setdefault(file.partition_spec_id, []).extend(added)
    return found


def _only_adds(file: ManifestFile) -> bool:
    """Whether a manifest adds data files, or lists older ones again; not if its list lacks the counts."""
    is_plain = file.content == ManifestContent.DATA and file.key_metadata is None
    return is_plain and file.deleted_files_count == 0 and file.files_count is not None


def _added(file: ManifestFile, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The ADDED entries. Writers put them first, so what follows the last one is seldom read."""
    added = (each for each in islice(entries, file.files_count) if each.status == EntryStatus.ADDED)
    return list(islice(added, file.added_files_count))


def _is_new(entry: ManifestEntry, snapshot: Snapshot) -> bool:
    """Whether an entry adds a data file whose rows are new: a rewrite states the numbers that its rows had."""
    stated = (entry.sequence_number, entry.file_sequence_number, entry.data_file.first_row_id)
    is_own = entry.snapshot_id == snapshot.snapshot_id and entry.data_file.content == FileContent.DATA
    return is_own and stated == (None, None, None)


def _write(
    base: TableMetadata, snapshot: Snapshot, added: dict[int, list[ManifestEntry]], manifests: Manifests
) -> list[ManifestFile]:
    specs = {spec.spec_id: spec for spec in base.specs}
    if not added.keys() <= specs.keys():
        return []
    written: list[ManifestFile] = []
    try:
        for id_, entries in added.items():
            schema = schema_of_spec(base, specs[id_])
            written.extend(manifests.write(base, schema, specs[id_], snapshot.snapshot_id, entries))
    except InvalidInput:
        return []
    return written
