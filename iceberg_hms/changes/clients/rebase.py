"""Rebase: put a client's snapshot on a parent that its client has not seen.

Kept: the snapshot's id, its operation, the manifests that it added, and its counts of added and removed files. New: its
parent, schema id, numbers, totals, timestamp, and manifest list.

    append    `head - replaced + added`. Everything committed in between, deletes too, comes before it in the serial
              order, as if the client had retried. If the head lacks what it replaced: the head and the files that it
              adds, in manifests that the server writes (`appended_files.py`)
    replace   the same, if the commits in between only added data: then the rows that it rewrote are still those it read
    others    never: only their client knows what they assume of the rows
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_hms.changes import summary
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.clients import blind_append
from iceberg_hms.changes.clients.appended_files import AppendedFiles
from iceberg_hms.changes.manifest_delta import (
    ManifestDelta,
    NotRebasable,
    added_manifests,
    check_not_committed,
    compute_delta,
    without_numbers,
)
from iceberg_hms.changes.sequence_numbers import numbered_snapshot, parent_conflict
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Rebased:
    """snapshot: the JSON that replaces the client's; its manifest list is staged. written: the locations of manifests
    that stand for the client's."""

    snapshot: Mapping[str, Any]
    written: Sequence[str] = ()


def why_not_rebasable(base: TableMetadata, snapshot: Snapshot, default: blind_append.PolicyLookup) -> str | None:
    """Why a snapshot must not be rebased, whatever the parent, judged by its own JSON; None if it may be.

    default: the policy of tables that set none."""
    if snapshot.operation not in (summary.APPEND, summary.REPLACE):
        return f"its operation is {snapshot.operation}"
    made_for = snapshot.written_for
    if made_for > base.format_version or (made_for < base.format_version and snapshot.operation != summary.APPEND):
        return f"it was written for format version {made_for}, the table has {base.format_version}"
    policy = blind_append.policy_for(base, default)
    if policy.mode == blind_append.NONE:
        return policy.stated_by
    if snapshot.operation == summary.APPEND and policy.mode == blind_append.PLAIN:
        return blind_append.why_not_blind(base, snapshot.summary)
    return None


def rebase(
    base: TableMetadata,
    snapshot: Snapshot,
    head: Snapshot | None,
    manifests: Manifests,
    appended_files: AppendedFiles,
    *,
    is_new: bool,
) -> Rebased | NotRebasable:
    """Put a snapshot on `head`, the ref's snapshot in `base`; None = the ref has none yet.

    appended_files: the same for all replays of the commit.
    is_new: it is proved that the snapshot was not committed before (`lineage`), so that the head cannot have its files.

    Raises CommitStateUnknown if the snapshot was on the branch before and has expired."""
    after = () if head is None else manifests.list(head)
    if not is_new:
        return _may_have_expired(base, snapshot, after, manifests)
    delta = _fast_append_delta(snapshot, manifests) or _full_delta(base, snapshot, head, after, manifests)
    written: Sequence[str] = ()
    if isinstance(delta, NotRebasable):
        found = appended_files.delta(base, snapshot, manifests) if snapshot.operation == summary.APPEND else None
        if found is None:
            return delta
        delta, written = found, [each.manifest_path for each in found.added]
    if not base.specs_by_id.keys() >= {each.partition_spec_id for each in delta.added}:
        return NotRebasable("the partition spec that it was written with was removed")
    files = delta.apply_to(after)
    raw = {**snapshot.raw, "timestamp-ms": max(snapshot.timestamp_ms, base.last_updated_ms)}
    raw.pop("parent-snapshot-id", None)
    if head is not None:
        raw["parent-snapshot-id"] = head.snapshot_id
    raw["summary"] = _summary(snapshot, head, delta, len(files) - len(delta.added))
    raw["schema-id"] = base.current_schema_id
    return Rebased(numbered_snapshot(base, raw, files, manifests), written)


def _may_have_expired(
    base: TableMetadata, snapshot: Snapshot, after: Sequence[ManifestFile], manifests: Manifests
) -> NotRebasable:
    """Refuse a snapshot that may have been committed before. Raises as `check_not_committed`."""
    added = manifests.added(snapshot) if snapshot.operation == summary.APPEND else None
    if added is None:
        before = {each.manifest_path for each in _parents_list(base, snapshot, manifests) or ()}
        added = added_manifests(snapshot, manifests.list(snapshot), before)
    check_not_committed(snapshot, added, after)
    # The head lacks its manifests, but another commit may have merged them since.
    return NotRebasable("it may be one of the snapshots that have expired since it was made")


def _parents_list(base: TableMetadata, snapshot: Snapshot, manifests: Manifests) -> Sequence[ManifestFile] | None:
    """The manifests of the snapshot's parent, of which a first snapshot has none. None: the table lacks the parent."""
    if snapshot.parent_snapshot_id is None:
        return ()
    parent = base.snapshot_by_id(snapshot.parent_snapshot_id)
    return None if parent is None else manifests.list(parent)


def _fast_append_delta(snapshot: Snapshot, manifests: Manifests) -> ManifestDelta | None:
    """The delta of an append that replaced no manifest, from the front of its list alone; None if that is not enough.
    Reading all of a long list would cost more than the rest of the commit."""
    added = manifests.added(snapshot) if snapshot.operation == summary.APPEND else None
    return None if added is None else ManifestDelta(tuple(without_numbers(each, snapshot) for each in added))


def _full_delta(
    base: TableMetadata,
    snapshot: Snapshot,
    head: Snapshot | None,
    after: Sequence[ManifestFile],
    manifests: Manifests,
) -> ManifestDelta | NotRebasable:
    """The delta from a client's whole list, compared with its parent's and, for a rewrite, with the head's."""
    before = _parents_list(base, snapshot, manifests)
    client = manifests.list(snapshot)
    if before is None:
        return NotRebasable("the snapshot that it was made on was removed")
    if parent_conflict(base, snapshot) is not None:
        # The table lacks the list that the client started from, so what it replaced and kept is unknown.
        return NotRebasable("it carries over or replaces manifests of that other snapshot")
    if snapshot.written_for == 1 < base.format_version:
        # Older files inherit no sequence number from a manifest of version 1 that has one.
        return NotRebasable("it lists older files in a manifest of format version 1")
    delta = compute_delta(snapshot, client, before)
    if isinstance(delta, NotRebasable):
        return delta
    if not _same_row_ids(delta.replaced, before, after):
        return NotRebasable("rows of manifests that it replaced got their row ids meanwhile")
    if snapshot.operation == summary.APPEND:
        reason = _deletes_files(delta.added)
    elif any(each.content != ManifestContent.DATA for each in delta.added):
        reason = "it rewrites delete files"
    else:
        reason = _not_only_data_added(base, snapshot, head, before, after)
    if reason is None and not delta.replaced <= {each.manifest_path for each in after}:
        reason = "manifests that it replaced were replaced by others meanwhile"
    return delta if reason is None else NotRebasable(reason)


def _same_row_ids(replaced: Container[str], before: Sequence[ManifestFile], after: Sequence[ManifestFile]) -> bool:
    """Whether the head gives replaced manifests the row ids that the client saw. The first list after an upgrade to
    version 3 assigns them (spec: first row id assignment); a client that merged the manifests before that assigned
    others."""
    now = {each.manifest_path: each.first_row_id for each in after if each.manifest_path in replaced}
    return all(now.get(each.manifest_path, each.first_row_id) == each.first_row_id for each in before)


def _deletes_files(added: Sequence[ManifestFile]) -> str | None:
    if any(each.content != ManifestContent.DATA or each.deleted_files_count != 0 for each in added):
        return "its operation is append, but it deletes files"
    return None


def _not_only_data_added(
    base: TableMetadata,
    snapshot: Snapshot,
    head: Snapshot | None,
    before: Sequence[ManifestFile],
    after: Sequence[ManifestFile],
) -> str | None:
    """Why a rewrite cannot be rebased: since it read the table, a commit did more than add data. None if it can be."""
    if head is None or snapshot.parent_snapshot_id is None:
        return "it rewrites files of a history that is not the branch's"
    between = set()
    for each in base.ancestors(head.snapshot_id):
        if each.snapshot_id == snapshot.parent_snapshot_id:
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


def _summary(snapshot: Snapshot, head: Snapshot | None, delta: ManifestDelta, kept: int) -> dict[str, str]:
    """The client's summary, with totals and manifest counts computed on the new parent."""
    own = snapshot.summary
    counts = summary.manifest_counts(created=len(delta.added), kept=kept, replaced=len(delta.replaced))
    rest = {key: counts[key] if key in counts else own[key] for key in own if key not in summary.TOTALS}
    return {**rest, **summary.totals(None if head is None else head.summary, own)}
