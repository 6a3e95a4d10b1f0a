"""New sequence numbers and row ids for snapshots that their client numbered after an older table.

Every snapshot takes the table's next sequence number (v2) and its next row ids (v3), whatever its ref. So a commit to
one branch makes the numbers of a commit to another branch stale, though nothing that it assumed has changed. The
snapshot then keeps its parent and its content, and gets new numbers and a manifest list that states them.

A snapshot that was written for an older format version lacks numbers of the table's. No requirement of its commit tells
that the table was upgraded since, because an upgrade moves no branch. What the snapshot holds is valid in the newer
version too, on the parent that it has. So it gets the numbers that it lacks.

Java's retries name manifests of earlier snapshots with the numbers that they had for a refused attempt, since
ManifestFilterManager.filteredManifests compares paths alone. So the lists of one commit's snapshots are read together;
and with the parent's list, if the snapshot says that its own gives row ids to more rows than it adds.

Recommitting a snapshot id assigns a higher sequence number, so readers of the lost commit are detected: a swap may
succeed and be seen by a client, a writer that ignores compare-and-swap may overwrite it, and its changes may be
committed again under their snapshot ids on what that writer left. A client that read the first commit asserts an id
that the table has, but its list lacks that writer's files. Its snapshot's number is not above its parent's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from iceberg_hms.changes.change import Manifests, StagedChange, Update
from iceberg_hms.changes.manifest_delta import added_manifests, has_explicit_min, without_numbers
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID
from iceberg_hms.changes.summary import whole_number
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestFile, assign_numbers
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import stop_if_caller_left

#: `RequirementFailed.name` if a snapshot cannot be what the table's format version asks of it.
FORMAT_VERSION: Final = "snapshot-format-version"


def renumber(base: TableMetadata, sent: Sequence[Update], manifests: Manifests) -> StagedChange:
    """The updates with the snapshots that they add numbered after `base`; unchanged if no number is stale.

    Raises InvalidInput for a list that cannot be numbered; RequirementFailed if a parent was recommitted since the
    client read it, or if a snapshot's own manifests may have files with explicit numbers of the same commit."""
    added = [update for update in sent if update["action"] == "add-snapshot"]
    renumbering = _Renumbering(base, manifests, several=len(added) > 1)
    try:
        updates = [renumbering.apply_to(update) for update in sent]
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
    if base.format_version == 1 or parent is None or not number or number > parent.sequence_number:
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


def _check_merged(
    snapshot: Snapshot, files: Sequence[ManifestFile], earlier: Mapping[int, Snapshot], manifests: Manifests
) -> None:
    """Raise RequirementFailed if a snapshot's own manifests list a file of an earlier snapshot of the same commit with
    another sequence number than that has: they were merged for an attempt that was refused.

    earlier: snapshot id -> the snapshot as the commit adds it."""
    own = [each for each in added_manifests(snapshot, files, ()) if earlier and each.existing_files_count != 0]
    for entry in manifests.entries([replace(each, sequence_number=UNASSIGNED) for each in own]):
        of = earlier.get(entry.snapshot_id or 0)
        if of is None or entry.status != EntryStatus.EXISTING or entry.sequence_number == of.sequence_number:
            continue
        raise RequirementFailed(
            ASSERT_REF_SNAPSHOT_ID,
            f"snapshot {snapshot.snapshot_id} lists a file of snapshot {of.snapshot_id} with the sequence number of an "
            "attempt that was refused",
            expected=of.sequence_number,
            found=entry.sequence_number,
        )


class _Renumbering:
    """Renumbers the snapshots of one commit, in order: a later one keeps manifests of an earlier one.

    several: whether the commit adds several."""

    def __init__(self, base: TableMetadata, manifests: Manifests, *, several: bool) -> None:
        self._base = base
        self._manifests = manifests
        self._several = several
        #: Path -> a manifest as the parent or an earlier snapshot of the commit has it.
        self._known: dict[str, ManifestFile] = {}
        #: The snapshots of the commit so far, by id.
        self._earlier: dict[int, Snapshot] = {}
        #: The first snapshot of whose own files a number changed that the client has stated, as the client sent it.
        self._first: Snapshot | None = None
        self.locations: list[str] = []
        self.replaced: list[str] = []

    def apply_to(self, update: Update) -> Update:
        if update["action"] == "upgrade-format-version":
            version = max(self._base.format_version, update["format-version"])
            self._base = self._base.replace(format_version=version)
        if update["action"] != "add-snapshot" or self._base.format_version == 1:
            return update
        stop_if_caller_left()
        snapshot = Snapshot(update["snapshot"])
        listed = self._list_to_replace(snapshot)
        if listed is None:
            self._advance(snapshot)
            return update
        raw = self._renumbered(snapshot, listed)
        return {**update, "snapshot": raw}

    def _list_to_replace(self, snapshot: Snapshot) -> Sequence[ManifestFile] | None:
        """The snapshot's manifests, if its numbers or those in its list are stale or missing; else None."""
        is_for_older_version = self._is_for_older_version(snapshot)
        if is_for_older_version or self._is_stale(snapshot):
            self._remember_parent(snapshot)
            if is_for_older_version and snapshot.operation is None:
                raise RequirementFailed(
                    FORMAT_VERSION,
                    f"snapshot {snapshot.snapshot_id} has no operation, and the table was upgraded since it was made",
                )
            return self._manifests.list(snapshot)
        numbers_others = self._base.format_version > 2 and _numbers_others(snapshot)
        if not (self._several or numbers_others) or snapshot.written_for < self._base.format_version:
            return None
        if numbers_others:
            self._remember_parent(snapshot)
        listed = self._manifests.list(snapshot)
        if any(_differ(self._known.get(each.manifest_path), each) for each in listed):
            return listed
        _check_merged(snapshot, listed, self._earlier, self._manifests)
        self._known.update((each.manifest_path, each) for each in listed)
        return None

    def _renumbered(self, snapshot: Snapshot, listed: Sequence[ManifestFile]) -> dict[str, Any]:
        conflict = parent_conflict(self._base, snapshot)
        if conflict is not None:
            raise conflict
        is_for_older_version = snapshot.written_for < self._base.format_version
        if not is_for_older_version or snapshot.sequence_number not in (0, self._base.next_sequence_number):
            self._first = self._first or snapshot
        if self._first is not None:
            _check_no_explicit_numbers(snapshot, listed, self._first, self._manifests)
        if snapshot.written_for > 1:
            _check_merged(snapshot, listed, self._earlier, self._manifests)
        files = [self._file(each, snapshot) for each in listed]
        raw = numbered_snapshot(self._base, snapshot.raw, files, self._manifests)
        self.locations.append(raw["manifest-list"])
        if snapshot.manifest_list is not None:
            self.replaced.append(snapshot.manifest_list)
        new = Snapshot(raw)
        self._known.update((each.manifest_path, each) for each in self._manifests.list(new))
        self._advance(new)
        return raw

    def _is_for_older_version(self, snapshot: Snapshot) -> bool:
        """Whether the table was upgraded since the client read it. A client that read a parent of a newer version has
        seen that version: its snapshot is malformed, which `format.updates.apply` refuses."""
        parent = self._base.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        oldest = 1 if parent is None else parent.written_for
        return oldest <= snapshot.written_for < self._base.format_version

    def _is_stale(self, snapshot: Snapshot) -> bool:
        base = self._base
        if snapshot.written_for < base.format_version:
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
        if file.added_snapshot_id != snapshot.snapshot_id:
            return self._known.get(file.manifest_path, file)
        # Manifests of version 1 state no numbers. In a list that says 0, as for all that was written for version 1, all
        # their entries have 0; in a list that says more, only new files inherit that (spec: Sequence Number
        # Inheritance).
        return file if snapshot.written_for == 1 else without_numbers(file, snapshot)

    def _advance(self, snapshot: Snapshot) -> None:
        base = self._base
        self._earlier[snapshot.snapshot_id] = snapshot
        counters: dict[str, Any] = {"last_sequence_number": max(base.last_sequence_number, snapshot.sequence_number)}
        if base.format_version > 2:
            counters["next_row_id"] = (snapshot.first_row_id or 0) + (snapshot.added_rows or 0)
        self._base = base.replace(**counters)


def _numbers_others(snapshot: Snapshot) -> bool:
    """Whether a snapshot reserves row ids for other rows than it adds: its list numbers older manifests, or ones that
    it wrote with older files."""
    return snapshot.added_rows != whole_number(snapshot.summary.get("added-records"))


def _differ(known: ManifestFile | None, listed: ManifestFile) -> bool:
    """Whether a list gives a manifest other numbers than it has already."""
    if known is None:
        return False
    has_other_ids = known.first_row_id not in (None, listed.first_row_id)
    return has_other_ids or known.sequence_number != listed.sequence_number
