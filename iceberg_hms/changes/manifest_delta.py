"""What a client's snapshot adds to its parent's manifest list and removes from it, so that it can be rebased.

A client's list is its parent's list, without the manifests that it replaced, plus the manifests that it added. Those
carry its id as `added_snapshot_id`. They stay the same on any parent; only the numbers that the list assigned to them
change.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from iceberg_hms.errors import CommitStateUnknown
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot

_PATH: Final = attrgetter("manifest_path")
_ADDED_BY: Final = attrgetter("added_snapshot_id")


@dataclass(frozen=True, slots=True)
class NotRebasable:
    """A snapshot cannot be put on another parent. reason: for the client's message, after 'because'."""

    reason: str


@dataclass(frozen=True, slots=True)
class ManifestDelta:
    """added: the manifests that the client's snapshot added, without their numbers, in the list's order.
    replaced: the paths of its parent's manifests with live files that it left out.
    empty: the paths of those without live files that it left out, as any writer may."""

    added: tuple[ManifestFile, ...]
    replaced: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()

    def apply_to(self, head: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
        """The list on another head, which has all that was replaced: `head - replaced + added`. The added ones come
        first, as in Java and PyIceberg."""
        if not self.replaced and not self.empty:
            return (*self.added, *head)
        left_out = self.replaced | self.empty
        return (*self.added, *(manifest for manifest in head if manifest.manifest_path not in left_out))


def compute_delta(
    snapshot: Snapshot, client: Sequence[ManifestFile], parent: Sequence[ManifestFile]
) -> ManifestDelta | NotRebasable:
    """Compare a client's list with its parent's."""
    known = {each.manifest_path for each in parent}
    added = tuple(without_numbers(each, snapshot) for each in added_manifests(snapshot, client, known))
    kept = {each.manifest_path for each in client} - {each.manifest_path for each in added}
    if not kept <= known:
        return NotRebasable("its list has manifests that are neither its own nor its parent's")
    left_out = [each for each in parent if each.manifest_path not in kept]
    replaced = frozenset(each.manifest_path for each in left_out if each.has_live_files)
    return ManifestDelta(added, replaced, frozenset(each.manifest_path for each in left_out) - replaced)


def added_manifests(
    snapshot: Snapshot, client: Sequence[ManifestFile], known: Container[str]
) -> tuple[ManifestFile, ...]:
    """The manifests of a client's list that its snapshot added. known: the paths of its parent's manifests, which are
    left out: a v1 snapshot with inline manifests has no list that says which snapshot added each."""
    added = (each for each in client if each.added_snapshot_id == snapshot.snapshot_id)
    return tuple(each for each in added if each.manifest_path not in known)


def check_not_committed(snapshot: Snapshot, added: Sequence[ManifestFile], head: Sequence[ManifestFile]) -> None:
    """Raise CommitStateUnknown if `head` has one of the manifests that a snapshot added, or that the server wrote for
    it: the snapshot was committed before and has expired since, and the table still has its files."""
    # An expired snapshot's id is no longer in the table, and a refusal would make the client delete files that are.
    paths = {each.manifest_path for each in added}
    if not paths.isdisjoint(map(_PATH, head)) or snapshot.snapshot_id in map(_ADDED_BY, head):
        raise CommitStateUnknown(
            f"snapshot {snapshot.snapshot_id} is not in the table, but its manifests are",
            next_step="it was committed before and has expired since: look at the table, and delete none of its files",
        )


def without_numbers(manifest: ManifestFile, snapshot: Snapshot) -> ManifestFile:
    """A manifest that `snapshot` added, without the numbers that its list assigned. The lowest sequence number stays
    if a file states it explicitly."""
    return replace(
        manifest,
        sequence_number=UNASSIGNED,
        min_sequence_number=manifest.min_sequence_number if has_explicit_min(manifest, snapshot) else UNASSIGNED,
        first_row_id=None if manifest.content == ManifestContent.DATA else manifest.first_row_id,
    )


def has_explicit_min(manifest: ManifestFile, snapshot: Snapshot) -> bool:
    """Whether a live file of a manifest that `snapshot` added states the manifest's lowest sequence number explicitly.
    If not, that number is the snapshot's own, which files without a number inherit."""
    # Writers take the lowest explicit number, and the snapshot's only if there is none (Java: ManifestWriter). Existing
    # files always have an explicit number, so next to one of them the snapshot's number is not inherited. A new file
    # whose explicit number happens to equal its snapshot's counts as inheriting it.
    lowest = manifest.min_sequence_number
    return lowest not in (UNASSIGNED, snapshot.sequence_number) or (
        lowest != UNASSIGNED and manifest.existing_files_count != 0
    )
