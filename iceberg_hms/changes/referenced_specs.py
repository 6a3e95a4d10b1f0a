"""Partition specs that manifests reference: the table must keep them, or its scans fail. And the sort orders that files
claim, by the ids that their clients gave to them.

A manifest has only the id of its spec; the spec itself is in the table's metadata. Two concurrent commits can separate
them: one adds a snapshot that was planned with a spec, the other removes that spec because no snapshot uses it yet.
Neither asserts what the other changes, so the second one is refused: here, or by `new_manifests`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from iceberg_hms.changes.change import Manifests, Update
from iceberg_hms.changes.new_manifests import manifests_of
from iceberg_hms.errors import MissingFile, RequirementFailed
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import stop_if_caller_left

#: `RequirementFailed.name` if a snapshot uses a spec that is to be removed.
SPECS_ARE_UNUSED = "remove-partition-specs"

#: (snapshot id, manifest list, whether the parent's manifests are left out) -> ids of the specs that it references.
KnownSpecs = dict[tuple[int, str | None, bool], frozenset[int]]


def check_removed(base: TableMetadata, updates: Sequence[Update], manifests: Manifests, known: KnownSpecs) -> None:
    """Check that no snapshot that the commit keeps references a spec that it removes.

    known: the specs of snapshots, read on earlier bases; this call adds to it. The client has read all those snapshots
    too (Java: ExpireSnapshots.cleanExpiredMetadata), so the check costs no more than it cost the client; it finds
    snapshots that were committed since. Raises RequirementFailed if a snapshot references such a spec."""
    removed_specs = _ids(updates, "remove-partition-specs", "spec-ids") & base.specs_by_id.keys()
    if not removed_specs:
        return
    removed_snapshots = _ids(updates, "remove-snapshots", "snapshot-ids")
    kept = [raw for raw in base.snapshot_rows if raw["snapshot-id"] not in removed_snapshots]
    ids = {raw["snapshot-id"] for raw in kept}
    # The newest snapshots are at the end.
    for raw in reversed(kept):
        stop_if_caller_left()
        used = _specs(Snapshot(raw), ids, manifests, known) & removed_specs
        if used:
            raise RequirementFailed(
                SPECS_ARE_UNUSED,
                f"snapshot {raw['snapshot-id']} has files of partition spec {min(used)}, which is to be removed",
                expected="a spec that no snapshot uses",
                found=raw["snapshot-id"],
            )


def used(snapshots: Sequence[Snapshot], manifests: Manifests, known: KnownSpecs) -> set[int]:
    """The specs that snapshots reference. known: as for `check_removed`."""
    ids = {each.snapshot_id for each in snapshots}
    found: set[int] = set()
    for each in snapshots:
        stop_if_caller_left()
        found |= _specs(each, ids, manifests, known)
    return found


def has_files_sorted_as(order_id: int, added: Iterable[Mapping[str, Any]], manifests: Manifests) -> bool:
    """Whether new snapshots have a file whose `sort_order_id` is this one; so too if that cannot be found out, because
    a manifest does not exist.

    added: the snapshots' JSON. Reads the manifests that they added, which is rare enough: only where a commit's sort
    order gets another id than its client sent."""
    try:
        for raw in added:
            stop_if_caller_left()
            own = manifests_of(Snapshot(raw), manifests)
            if any(entry.data_file.sort_order_id == order_id for entry in manifests.entries(own)):
                return True
    except MissingFile:
        return True
    return False


def _ids(updates: Sequence[Update], action: str, name: str) -> set[int]:
    return {id_ for update in updates if update["action"] == action for id_ in update[name]}


def _specs(snapshot: Snapshot, kept: Collection[int], manifests: Manifests, known: KnownSpecs) -> frozenset[int]:
    """The specs that a snapshot references. If its parent is kept, the manifests shared with the parent are left out:
    the parent's own check covers them."""
    has_parent = snapshot.parent_snapshot_id in kept
    key = (snapshot.snapshot_id, snapshot.manifest_list, has_parent)
    if key not in known:
        files = manifests_of(snapshot, manifests) if has_parent else manifests.list(snapshot)
        known[key] = frozenset(each.partition_spec_id for each in files)
    return known[key]
