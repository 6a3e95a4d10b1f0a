"""New sequence numbers and row ids for snapshots that their client numbered after an older table.

Every snapshot takes the table's next sequence number (v2) and its next row ids (v3), whatever its ref. So a commit to
one branch makes the numbers of a commit to another branch stale, though nothing that it assumed has changed. The
snapshot then keeps its parent and its content, and gets new numbers and a manifest list that states them.

Recommitting a snapshot id assigns a higher sequence number, so readers of the lost commit are detected: a swap may
succeed and be seen by a client, a writer that ignores compare-and-swap may overwrite it, and its changes may be
committed again under their snapshot ids on what that writer left. A client that read the first commit asserts an id
that the table has, but its list lacks that writer's files. Its snapshot's number is not above its parent's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from iceberg_hms.changes.change import Manifests, StagedChange, Update
from iceberg_hms.changes.manifest_delta import added_manifests, has_explicit_min, without_numbers
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestFile, assign_numbers
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import stop_if_caller_left


def renumber(base: TableMetadata, sent: Sequence[Update], manifests: Manifests) -> StagedChange:
    """The updates with the snapshots that they add numbered after `base`; unchanged if no number is stale.

    Raises InvalidInput for a list that cannot be numbered; RequirementFailed if a parent was recommitted since the
    client read it, or if a snapshot's own manifests may have files with explicit numbers of the same commit."""
    if base.format_version == 1 or any(update["action"] == "upgrade-format-version" for update in sent):
        return StagedChange(tuple(sent))
    renumbering = _Renumbering(base, manifests)
    try:
        updates = [renumbering.apply_to(update) if update["action"] == "add-snapshot" else update for update in sent]
    except Exception:
        manifests.discard(renumbering.locations)
        raise
    return StagedChange(updates, renumbering.locations, replaced=renumbering.replaced)


def numbered_snapshot(
    base: TableMetadata, snapshot: Mapping[str, Any], files: Sequence[ManifestFile], manifests: Manifests
) -> dict[str, Any]:
    """A snapshot with the next numbers of `base` and a new manifest list of `files`, staged, that states them. Inline
    manifests are dropped: only a snapshot without a list may have them."""
    raw = {key: value for key, value in snapshot.items() if key != "manifests"}
    version = base.format_version
    if version > 1:
        raw["sequence-number"] = base.next_sequence_number
    if version > 2:
        raw["first-row-id"] = base.next_row_id
        raw["added-rows"] = _added_rows(base, snapshot["snapshot-id"], files)
    raw["manifest-list"] = manifests.stage_list(base, Snapshot(raw), files)
    return raw


def parent_conflict(base: TableMetadata, snapshot: Snapshot) -> RequirementFailed | None:
    """The failed requirement if a snapshot's parent was recommitted since its client read it; None if not. Format
    version 1 has no numbers that would show it."""
    parent = None if snapshot.parent_snapshot_id is None else base.snapshot_by_id(snapshot.parent_snapshot_id)
    number = snapshot.raw.get("sequence-number")
    if base.format_version == 1 or parent is None or number is None or number > parent.sequence_number:
        return None
    return RequirementFailed(
        ASSERT_REF_SNAPSHOT_ID,
        f"snapshot {parent.snapshot_id} was recommitted since the client read it",
        expected=f"a sequence number below {number}",
        found=parent.sequence_number,
    )


def _added_rows(base: TableMetadata, snapshot_id: int, files: Sequence[ManifestFile]) -> int:
    """By how much a list advances the next-row-id of `base` (spec: row lineage). After an upgrade to v3, older
    manifests get their first_row_id in the first list that names them."""
    _, next_row_id = assign_numbers(
        [each for each in files if each.first_row_id is None],
        format_version=base.format_version,
        snapshot_id=snapshot_id,
        sequence_number=base.next_sequence_number,
        first_row_id=base.next_row_id,
    )
    return (next_row_id or 0) - base.next_row_id


def _check_no_explicit_numbers(
    snapshot: Snapshot, files: Sequence[ManifestFile], first: Snapshot, manifests: Manifests
) -> None:
    """Raise RequirementFailed if a snapshot's own manifests may have files with an explicit sequence number or row ids
    of the same commit. No list corrects those: a renumbered equality delete would then apply to newer rows.

    first: the first snapshot of the commit that gets a new number, as the client sent it; lower numbers stay."""
    for each in added_manifests(snapshot, files, ()):
        # They may be merged files of an earlier snapshot of the commit. The first snapshot has no earlier one.
        if snapshot is not first and each.existing_files_count != 0:
            found, what = each.existing_files_count, "existing files in a manifest of its own"
        elif has_explicit_min(each, snapshot) and _highest_explicit(each, first, manifests) >= first.sequence_number:
            found, what = each.min_sequence_number, "files with explicit sequence numbers in a manifest of its own"
        else:
            continue
        raise RequirementFailed(
            ASSERT_REF_SNAPSHOT_ID,
            f"snapshot {snapshot.snapshot_id} has {what}, and a snapshot of the same commit needs a new number",
            expected=f"no sequence numbers from {first.sequence_number} on in its own manifests",
            found=found,
        )


def _highest_explicit(file: ManifestFile, first: Snapshot, manifests: Manifests) -> int:
    """The highest explicit sequence number of a manifest's live files; the lowest if that is already too high."""
    lowest = file.min_sequence_number
    if lowest >= first.sequence_number:
        return lowest
    # Entries of a manifest without a number inherit none.
    entries = manifests.entries([replace(file, sequence_number=UNASSIGNED)])
    return max((each.sequence_number or 0 for each in entries if each.is_live), default=lowest)


class _Renumbering:
    """Renumbers the snapshots of one commit, in order: a later one keeps manifests of an earlier one."""

    def __init__(self, base: TableMetadata, manifests: Manifests) -> None:
        self._base = base
        self._manifests = manifests
        self._known: dict[str, ManifestFile] = {}
        #: The first snapshot that got a new number, as the client sent it.
        self._first: Snapshot | None = None
        self.locations: list[str] = []
        self.replaced: list[str] = []

    def apply_to(self, update: Update) -> Update:
        stop_if_caller_left()
        snapshot = Snapshot(update["snapshot"])
        if not self._is_stale(snapshot):
            self._advance(snapshot)
            return update
        conflict = parent_conflict(self._base, snapshot)
        if conflict is not None:
            raise conflict
        self._remember_parent(snapshot)
        listed = self._manifests.list(snapshot)
        self._first = self._first or snapshot
        _check_no_explicit_numbers(snapshot, listed, self._first, self._manifests)
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
            # Malformed, or made for an older format version: `format.updates.apply` refuses it.
            return False
        is_late = snapshot.sequence_number <= base.last_sequence_number
        # A snapshot without a parent starts a history of its own, and may have any number.
        is_late = is_late and snapshot.parent_snapshot_id is not None
        return is_late or (base.format_version > 2 and (snapshot.first_row_id or 0) < base.next_row_id)

    def _remember_parent(self, snapshot: Snapshot) -> None:
        # The first client that writes after an upgrade to v3 numbers its parent's manifests too, and those numbers are
        # as stale as its own.
        parent = None if snapshot.parent_snapshot_id is None else self._base.snapshot_by_id(snapshot.parent_snapshot_id)
        if self._base.format_version > 2 and parent is not None:
            for each in self._manifests.list(parent):
                self._known.setdefault(each.manifest_path, each)

    def _file(self, file: ManifestFile, snapshot: Snapshot) -> ManifestFile:
        if file.added_snapshot_id == snapshot.snapshot_id:
            return without_numbers(file, snapshot)
        return self._known.get(file.manifest_path, file)

    def _advance(self, snapshot: Snapshot) -> None:
        base = self._base
        counters: dict[str, Any] = {"last_sequence_number": max(base.last_sequence_number, snapshot.sequence_number)}
        if base.format_version > 2:
            counters["next_row_id"] = (snapshot.first_row_id or 0) + (snapshot.added_rows or 0)
        self._base = base.replace(**counters)
