"""The manifest list that a client wrote for its snapshot, taken apart so that it can be put on another parent.

A client's list is its parent's list, without the manifests that it replaced, plus manifests of its own. Its own are
told by `added_snapshot_id`: whatever the base, they stay as they are, and only the numbers that the list gave them
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


@dataclass(frozen=True, slots=True)
class NotMergeable:
    """A snapshot cannot be put on another base. reason: for the client, after 'because'."""

    reason: str


@dataclass(frozen=True, slots=True)
class ManifestDelta:
    """own: the manifests of the client's snapshot, without their numbers, in the list's order.
    dropped: the paths of its parent's manifests with live files that it replaced.
    dead: those without, which any writer may leave out."""

    own: tuple[ManifestFile, ...]
    dropped: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()

    def on(self, head: Sequence[ManifestFile]) -> tuple[ManifestFile, ...] | NotMergeable:
        """The list on another head: `head - dropped + own`. The own ones are in front, as Java and PyIceberg do it."""
        if not self.dropped and not self.dead:
            return (*self.own, *head)
        if not self.dropped <= {manifest.manifest_path for manifest in head}:
            return NotMergeable("manifests that it replaced were replaced by others meanwhile")
        gone = self.dropped | self.dead
        return (*self.own, *(manifest for manifest in head if manifest.manifest_path not in gone))


def take_apart(
    snapshot: Snapshot, client: Sequence[ManifestFile], parent: Sequence[ManifestFile]
) -> ManifestDelta | NotMergeable:
    """Compare a client's list with its parent's."""
    known = {each.manifest_path for each in parent}
    own = tuple(unnumbered(each, snapshot) for each in own_manifests(snapshot, client, known))
    carried = {each.manifest_path for each in client} - {each.manifest_path for each in own}
    if not carried <= known:
        return NotMergeable("its list has manifests that are neither its own nor its parent's")
    left_out = [each for each in parent if each.manifest_path not in carried]
    dropped = frozenset(each.manifest_path for each in left_out if each.has_live_files)
    return ManifestDelta(own, dropped, frozenset(each.manifest_path for each in left_out) - dropped)


def own_manifests(
    snapshot: Snapshot, client: Sequence[ManifestFile], known: Container[str]
) -> tuple[ManifestFile, ...]:
    """The manifests of a client's list that its snapshot added. known: paths of its parent's manifests: a snapshot that
    names its manifests inline has no list that tells who added them."""
    added = (each for each in client if each.added_snapshot_id == snapshot.snapshot_id)
    return tuple(each for each in added if each.manifest_path not in known)


def refuse_landed(snapshot: Snapshot, own: Sequence[ManifestFile], head: Sequence[ManifestFile]) -> None:
    """Raise CommitStateUnknown if `head` has one of a snapshot's own manifests: it was committed before, and what is
    left of it in the table are its files."""
    # Whoever looks for the snapshot id does not find it once it has expired, and a refusal would make the client delete
    # files that are in the table.
    paths = {each.manifest_path for each in own}
    if not paths.isdisjoint(map(_PATH, head)):
        raise CommitStateUnknown(
            f"snapshot {snapshot.snapshot_id} is not in the table, but its manifests are",
            next_step="it was committed before and has expired since: look at the table, and delete none of its files",
        )


def unnumbered(manifest: ManifestFile, snapshot: Snapshot) -> ManifestFile:
    """A manifest that `snapshot` added, without the numbers that its list gave it. The lowest sequence number stays if
    the files say it themselves."""
    return replace(
        manifest,
        sequence_number=UNASSIGNED,
        min_sequence_number=manifest.min_sequence_number if says_lowest(manifest, snapshot) else UNASSIGNED,
        first_row_id=None if manifest.content == ManifestContent.DATA else manifest.first_row_id,
    )


def says_lowest(manifest: ManifestFile, snapshot: Snapshot) -> bool:
    """Whether the lowest sequence number of a manifest that `snapshot` added is that of a live file which says it
    itself, and not the snapshot's own, which files without one inherit."""
    # Writers take the lowest of what is said, and the snapshot's number only where nothing is (Java: ManifestWriter).
    # Existing files always say theirs, so beside one of them the snapshot's number is no inherited one. A new file that
    # says the very number which its snapshot got by luck is taken for one that inherits it.
    lowest = manifest.min_sequence_number
    return lowest not in (UNASSIGNED, snapshot.sequence_number) or (
        lowest != UNASSIGNED and manifest.existing_files_count != 0
    )
