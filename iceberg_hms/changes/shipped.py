"""The manifest list that a client wrote for its snapshot, taken apart so that it can be put on another parent.

A client's list is its parent's list, without the manifests that it replaced, plus manifests of its own. Its own are
told by `added_snapshot_id`: whatever the base, they stay as they are, and only the numbers that the list gave them
change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iceberg_hms.format.manifest_list import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_hms.format.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Unfit:
    """A snapshot cannot be put on another base. reason: for the client, after 'because'."""

    reason: str


@dataclass(frozen=True, slots=True)
class Shipped:
    """own: the manifests of the client's snapshot, without their numbers, in the list's order.
    dropped: the paths of its parent's manifests with live files that it replaced.
    dead: those without, which any writer may leave out."""

    own: tuple[ManifestFile, ...]
    dropped: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()

    def on(self, head: Sequence[ManifestFile]) -> tuple[ManifestFile, ...] | Unfit:
        """The list on another head: `head - dropped + own`. The own ones are in front, as Java and PyIceberg do it."""
        if not self.dropped and not self.dead:
            return (*self.own, *head)
        if not self.dropped <= {manifest.manifest_path for manifest in head}:
            return Unfit("manifests that it replaced were replaced by others meanwhile")
        gone = self.dropped | self.dead
        return (*self.own, *(manifest for manifest in head if manifest.manifest_path not in gone))


def take_apart(snapshot: Snapshot, client: Sequence[ManifestFile], parent: Sequence[ManifestFile]) -> Shipped | Unfit:
    """Compare a client's list with its parent's."""
    own = tuple(unnumbered(each, snapshot) for each in client if each.added_snapshot_id == snapshot.snapshot_id)
    carried = {each.manifest_path for each in client if each.added_snapshot_id != snapshot.snapshot_id}
    if not carried <= {each.manifest_path for each in parent}:
        return Unfit("its list has manifests that are neither its own nor its parent's")
    left_out = [each for each in parent if each.manifest_path not in carried]
    dropped = frozenset(each.manifest_path for each in left_out if each.has_live_files)
    return Shipped(own, dropped, frozenset(each.manifest_path for each in left_out) - dropped)


def unnumbered(manifest: ManifestFile, snapshot: Snapshot) -> ManifestFile:
    """A manifest that `snapshot` added, without the numbers that its list gave it. The lowest sequence number stays if
    it is older than the snapshot: the manifest then holds older files as well."""
    lowest = manifest.min_sequence_number
    return replace(
        manifest,
        sequence_number=UNASSIGNED,
        min_sequence_number=UNASSIGNED if lowest == snapshot.sequence_number else lowest,
        first_row_id=None if manifest.content == ManifestContent.DATA else manifest.first_row_id,
    )
