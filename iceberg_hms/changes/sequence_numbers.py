"""New numbers for snapshots whose client counted on from an older table.

Every snapshot takes the table's next sequence number (v2) and its next row ids (v3), whatever ref it goes to. So a
commit to one branch makes the numbers of a commit to another branch stale, though nothing that it assumed has changed.
Then the snapshot keeps its parent and its content and gets new numbers, and the manifest list that says them.

One case looks the same and is another. A swap landed and was seen, a writer that ignores compare-and-swap took it away
again, and its changes were committed anew: under their snapshot ids, on what that writer left. Who saw the first of the
two asserts an id that holds, and has a list that lacks that writer's files. It is told by its number, which is not
above that of its parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from iceberg_hms.changes.change import Manifests, Staged, Update
from iceberg_hms.changes.manifest_delta import own_manifests, says_lowest, unnumbered
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestFile, assign
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata


def renumbered(base: TableMetadata, sent: Sequence[Update], manifests: Manifests) -> Staged:
    """The updates with the snapshots that they add numbered after `base`; as they were sent if no number is stale.

    Raises StorageError, CorruptFile or MissingFile where a list cannot be read; InvalidInput for a list that cannot be
    numbered; RequirementFailed if a parent is not the one that the client saw, or if a snapshot's own manifests may
    hold files that say numbers of the same updates themselves."""
    if base.format_version == 1 or any(update["action"] == "upgrade-format-version" for update in sent):
        return Staged(tuple(sent))
    renumbering = _Renumbering(base, manifests)
    try:
        updates = [renumbering.of(update) if update["action"] == "add-snapshot" else update for update in sent]
    except Exception:
        manifests.discard(renumbering.locations)
        raise
    return Staged(updates, renumbering.locations, replaced=renumbering.replaced)


def numbered_snapshot(
    base: TableMetadata, snapshot: Mapping[str, Any], files: Sequence[ManifestFile], manifests: Manifests
) -> dict[str, Any]:
    """A snapshot with the next numbers of `base`, and with a new manifest list of `files`, staged, that says them. It
    names no manifests inline: only a snapshot without a list may."""
    raw = {key: value for key, value in snapshot.items() if key != "manifests"}
    if base.format_version > 1:
        raw["sequence-number"] = base.next_sequence_number
    if base.format_version > 2:
        raw["first-row-id"] = base.next_row_id
        raw["added-rows"] = _added_rows(base, snapshot["snapshot-id"], files)
    raw["manifest-list"] = manifests.stage_list(base, Snapshot(raw), files)
    return raw


def made_on_another(base: TableMetadata, snapshot: Snapshot) -> RequirementFailed | None:
    """What is broken if a snapshot's client saw another snapshot than `base` has under the id of its parent. Format
    version 1 has no numbers to tell."""
    parent = None if snapshot.parent_id is None else base.snapshot_by_id(snapshot.parent_id)
    number = snapshot.raw.get("sequence-number")
    if base.format_version == 1 or parent is None or number is None or number > parent.sequence_number:
        return None
    return RequirementFailed(
        ASSERT_REF_SNAPSHOT_ID,
        f"snapshot {parent.snapshot_id} was committed anew since it was read",
        expected=f"a sequence number below {number}",
        found=parent.sequence_number,
    )


def _added_rows(base: TableMetadata, snapshot_id: int, files: Sequence[ManifestFile]) -> int:
    """How far a list moves the next-row-id of `base` (spec: row lineage). Manifests of a table that was upgraded to v3
    have no first_row_id yet and get theirs with the first list that names them."""
    _, next_row_id = assign(
        [each for each in files if each.first_row_id is None],
        format_version=base.format_version,
        snapshot_id=snapshot_id,
        sequence_number=base.next_sequence_number,
        first_row_id=base.next_row_id,
    )
    return (next_row_id or 0) - base.next_row_id


def _refuse_written_numbers(
    snapshot: Snapshot, files: Sequence[ManifestFile], first: Snapshot, manifests: Manifests
) -> None:
    """Raise RequirementFailed if a snapshot's own manifests may hold files that say a sequence number or row ids of the
    same commit, which no list corrects: an equality delete that is numbered anew would then hold for newer rows.

    first: the first snapshot of the commit that is numbered anew, as it was sent; no number below its own changes."""
    for each in own_manifests(snapshot, files, ()):
        # Merged files of an earlier snapshot of the commit. The first has none before it.
        if snapshot is not first and each.existing_files_count != 0:
            found, what = each.existing_files_count, "older files in a manifest of its own"
        elif says_lowest(each, snapshot) and _highest_said(each, first, manifests) >= first.sequence_number:
            found, what = each.min_sequence_number, "files in a manifest of its own that say their sequence numbers"
        else:
            continue
        raise RequirementFailed(
            ASSERT_REF_SNAPSHOT_ID,
            f"snapshot {snapshot.snapshot_id} has {what}, and a snapshot of the same commit has to get another number",
            expected=f"no numbers from {first.sequence_number} on in its own manifests",
            found=found,
        )


def _highest_said(file: ManifestFile, first: Snapshot, manifests: Manifests) -> int:
    """The highest sequence number that a live file of a manifest says itself; the lowest if that is enough to know."""
    lowest = file.min_sequence_number
    if lowest >= first.sequence_number:
        return lowest
    # Of a manifest without a number nothing is inherited.
    entries = manifests.entries([replace(file, sequence_number=UNASSIGNED)])
    return max((each.sequence_number or 0 for each in entries if each.is_live), default=lowest)


class _Renumbering:
    """Snapshots of one commit, in order: a later one carries manifests of an earlier one."""

    def __init__(self, base: TableMetadata, manifests: Manifests) -> None:
        self._base = base
        self._manifests = manifests
        self._known: dict[str, ManifestFile] = {}
        #: The first snapshot that was numbered anew, as it was sent.
        self._first: Snapshot | None = None
        self.locations: list[str] = []
        self.replaced: list[str] = []

    def of(self, update: Update) -> Update:
        snapshot = Snapshot.parse(update["snapshot"])
        if not self._is_stale(snapshot):
            self._advance(snapshot)
            return update
        broken = made_on_another(self._base, snapshot)
        if broken is not None:
            raise broken
        self._know_parent(snapshot)
        listed = self._manifests.list(snapshot)
        self._first = self._first or snapshot
        _refuse_written_numbers(snapshot, listed, self._first, self._manifests)
        files = [self._file(each, snapshot) for each in listed]
        raw = numbered_snapshot(self._base, snapshot.raw, files, self._manifests)
        self.locations.append(raw["manifest-list"])
        if snapshot.manifest_list is not None:
            self.replaced.append(snapshot.manifest_list)
        new = Snapshot(raw)
        self._known.update((each.manifest_path, each) for each in self._manifests.list(new))
        self._advance(new)
        return {**update, "snapshot": raw}

    def _is_stale(self, snapshot: Snapshot) -> bool:
        base = self._base
        if snapshot.raw.get("sequence-number") is None or (base.format_version > 2 and snapshot.first_row_id is None):
            # Malformed, or made for an older format: that is told where the update is applied.
            return False
        late = snapshot.sequence_number <= base.last_sequence_number
        # A snapshot without a parent starts a history of its own, and may have any number.
        late = late and snapshot.parent_id is not None
        return late or (base.format_version > 2 and (snapshot.first_row_id or 0) < base.next_row_id)

    def _know_parent(self, snapshot: Snapshot) -> None:
        # A client that is the first to write to a table that was upgraded to v3 numbers its parent's manifests too, and
        # those numbers are as stale as its own.
        parent = None if snapshot.parent_id is None else self._base.snapshot_by_id(snapshot.parent_id)
        if self._base.format_version > 2 and parent is not None:
            for each in self._manifests.list(parent):
                self._known.setdefault(each.manifest_path, each)

    def _file(self, file: ManifestFile, snapshot: Snapshot) -> ManifestFile:
        if file.added_snapshot_id == snapshot.snapshot_id:
            return unnumbered(file, snapshot)
        return self._known.get(file.manifest_path, file)

    def _advance(self, snapshot: Snapshot) -> None:
        base = self._base
        counters: dict[str, Any] = {"last_sequence_number": max(base.last_sequence_number, snapshot.sequence_number)}
        if base.format_version > 2:
            counters["next_row_id"] = (snapshot.first_row_id or 0) + (snapshot.added_rows or 0)
        self._base = base.replace(**counters)
