"""A client's snapshot, put on a parent that its client has not seen.

What stays: the snapshot's id, its own manifests, what it added and removed, its schema's and its files' names. What is
made anew: parent, numbers, totals, time, and the manifest list.

    append    `head - what it replaced + its own`. Whatever was committed in between, deletes too, comes before it in
              the serial order, as if the client had retried by itself
    replace   the same, if in between data was added and nothing deleted: then what it rewrote is still what it read
    others    never: what they assume of the rows is known to their client alone
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_hms.changes import blind_append, summary
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.manifest_delta import (
    ManifestDelta,
    NotMergeable,
    own_manifests,
    refuse_landed,
    take_apart,
    unnumbered,
)
from iceberg_hms.changes.sequence_numbers import made_on_another, numbered_snapshot
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Rebased:
    """snapshot: the JSON to be added instead of the client's; its list is staged."""

    snapshot: Mapping[str, Any]


def why_not(base: TableMetadata, snapshot: Snapshot, default: blind_append.Default) -> str | None:
    """Why a snapshot may not be rebased on any parent, by what it says of itself; None if it may.

    default: asked where the table does not say which appends may be."""
    if snapshot.operation not in (summary.APPEND, summary.REPLACE):
        return f"its operation is {snapshot.operation}"
    made_for = 1 + bool(snapshot.sequence_number) + (snapshot.first_row_id is not None)
    if made_for != base.format_version:
        return f"it was written for format version {made_for}, the table has {base.format_version}"
    word = blind_append.word_for(base, default)
    if word.word == blind_append.NONE:
        return word.said
    if snapshot.operation == summary.APPEND and word.word == blind_append.PLAIN:
        return blind_append.why_not_plain(base, snapshot.summary)
    return None


def rebase(
    base: TableMetadata, snapshot: Snapshot, head: Snapshot | None, manifests: Manifests, *, is_new: bool
) -> Rebased | NotMergeable:
    """Put a snapshot on `head`, the ref's snapshot in `base`; None = the ref has none yet.

    is_new: it is proved that the snapshot was not committed before (`lineage`).

    Raises StorageError, CorruptFile or MissingFile where a list cannot be read; CommitStateUnknown if the snapshot was
    on the branch before and has expired."""
    after = () if head is None else manifests.list(head)
    shipped = _only_added(snapshot, after, manifests) or _compared(base, snapshot, head, after, manifests)
    if isinstance(shipped, NotMergeable):
        return shipped
    if not is_new:
        # Its manifests are not in head, but they may have been merged with others since.
        return NotMergeable("it may be one of the snapshots that have expired since it was made")
    specs = {spec.spec_id for spec in base.specs}
    if any(each.partition_spec_id not in specs for each in shipped.own):
        return NotMergeable("the partition spec that it was written with was removed")
    files = shipped.on(after)
    if isinstance(files, NotMergeable):
        return files
    raw = {**snapshot.raw, "timestamp-ms": max(snapshot.timestamp_ms, base.last_updated_ms)}
    raw.pop("parent-snapshot-id", None)
    if head is not None:
        raw["parent-snapshot-id"] = head.snapshot_id
    raw["summary"] = _summary(snapshot, head, shipped, len(files) - len(shipped.own))
    raw["schema-id"] = base.current_schema_id
    return Rebased(numbered_snapshot(base, raw, files, manifests))


def _only_added(snapshot: Snapshot, after: Sequence[ManifestFile], manifests: Manifests) -> ManifestDelta | None:
    """An append that replaced no manifest, told by the front of its list: reading all of a long one would cost more
    than everything else."""
    own = manifests.added(snapshot) if snapshot.operation == summary.APPEND else None
    if own is None:
        return None
    refuse_landed(snapshot, own, after)
    return ManifestDelta(tuple(unnumbered(each, snapshot) for each in own))


def _compared(
    base: TableMetadata,
    snapshot: Snapshot,
    head: Snapshot | None,
    after: Sequence[ManifestFile],
    manifests: Manifests,
) -> ManifestDelta | NotMergeable:
    """What a client's whole list says, beside its parent's and, for a rewrite, beside the head's."""
    parent = None if snapshot.parent_id is None else base.snapshot_by_id(snapshot.parent_id)
    before = () if parent is None else manifests.list(parent)
    client = manifests.list(snapshot)
    refuse_landed(snapshot, own_manifests(snapshot, client, {each.manifest_path for each in before}), after)
    if parent is None and snapshot.parent_id is not None:
        return NotMergeable("the snapshot that it was made on was removed")
    if made_on_another(base, snapshot) is not None:
        # What it replaced and what it carried over cannot be told: the list that it was made from is not in the table.
        return NotMergeable("it carries over or replaces manifests of that other snapshot")
    shipped = take_apart(snapshot, client, before)
    if isinstance(shipped, NotMergeable):
        return shipped
    if not _same_row_ids(shipped.dropped, before, after):
        return NotMergeable("rows of manifests that it replaced got their row ids meanwhile")
    if snapshot.operation == summary.APPEND:
        unfit = _no_append(shipped.own)
    elif any(each.content != ManifestContent.DATA for each in shipped.own):
        unfit = "it rewrites delete files"
    else:
        unfit = _changed_otherwise(base, snapshot, head, before, after)
    return shipped if unfit is None else NotMergeable(unfit)


def _same_row_ids(dropped: Container[str], before: Sequence[ManifestFile], after: Sequence[ManifestFile]) -> bool:
    """Whether replaced manifests have the row ids in the head that their client saw. The first list after an upgrade to
    version 3 gives them (spec: first row id assignment); who merged the manifests before that would give others."""
    now = {each.manifest_path: each.first_row_id for each in after if each.manifest_path in dropped}
    return all(now.get(each.manifest_path, each.first_row_id) == each.first_row_id for each in before)


def _no_append(own: Sequence[ManifestFile]) -> str | None:
    if any(each.content != ManifestContent.DATA or each.deleted_files_count != 0 for each in own):
        return "it calls itself an append and deletes"
    return None


def _changed_otherwise(
    base: TableMetadata,
    snapshot: Snapshot,
    head: Snapshot | None,
    before: Sequence[ManifestFile],
    after: Sequence[ManifestFile],
) -> str | None:
    """What keeps a rewrite from being rebased: something else than data that was added since it read the table."""
    if head is None or snapshot.parent_id is None:
        return "it rewrites files of a history that is not the branch's"
    between = set()
    for each in base.ancestors(head.snapshot_id):
        if each.snapshot_id == snapshot.parent_id:
            break
        between.add(each.snapshot_id)
    else:
        return "the branch no longer goes back to the snapshot that it was made on"
    known = {each.manifest_path for each in before}
    new = [manifest for manifest in after if manifest.manifest_path not in known]
    if any(each.content != ManifestContent.DATA or each.deleted_files_count != 0 for each in new):
        return "files were deleted since the snapshot that it was made on"
    if any(each.added_snapshot_id not in between for each in new):
        return "the branch has manifests of another history"
    return None


def _summary(snapshot: Snapshot, head: Snapshot | None, shipped: ManifestDelta, kept: int) -> dict[str, str]:
    """The client's summary, with the totals and the counts of manifests as they are on the new parent."""
    rest = {key: value for key, value in snapshot.summary.items() if key not in summary.TOTALS}
    counts = summary.manifest_counts(created=len(shipped.own), kept=kept, replaced=len(shipped.dropped))
    rest.update((key, value) for key, value in counts.items() if key in rest)
    return {**rest, **summary.totals(None if head is None else head.summary, snapshot.summary)}
