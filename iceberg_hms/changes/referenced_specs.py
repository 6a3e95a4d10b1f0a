"""Partition specs that manifests name: the table has to keep them, or its scans end in an error.

A manifest says the id of its spec, and nothing but the table's metadata says what that spec is. Two commits that do not
see each other can part them: one adds a snapshot that was planned on a spec, the other removes that spec because no
snapshot uses it yet. Neither asserts what the other changes, so whichever comes second is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from iceberg_hms.changes.change import Manifests, Update
from iceberg_hms.errors import InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: The names of the two assumptions.
SPECS_ARE_THERE = "snapshot-partition-specs"
SPECS_ARE_UNUSED = "remove-partition-specs"

#: The specs that snapshots bring: by the id, the list, and whether the parent's manifests were left out.
Known = dict[tuple[int, str | None, bool], frozenset[int]]


def check_added(table: TableMetadata, added: Iterable[Mapping[str, Any]], manifests: Manifests) -> None:
    """Look at the manifests that new snapshots of a table added; those that they took over were looked at before.

    table: with the snapshots. added: their JSON. Of an append whose list begins with its own manifests no more than
    that is read. Raises RequirementFailed for a spec that the table does not have; InvalidInput for a list that is not
    there; StorageError, CorruptFile where one cannot be read."""
    for raw in added:
        snapshot = Snapshot(raw)
        try:
            missing = {each.partition_spec_id for each in _own(snapshot, manifests)} - table.specs_by_id.keys()
        except MissingFile as error:
            raise InvalidInput(
                f"snapshot {snapshot.snapshot_id} cannot be read: {error}",
                next_step="write the snapshot's manifest list before it is committed",
            ) from error
        if missing:
            raise RequirementFailed(
                SPECS_ARE_THERE,
                f"snapshot {snapshot.snapshot_id} was written with partition spec {min(missing)}, "
                "which is not in the table",
                expected=sorted(missing),
                found=sorted(table.specs_by_id),
            )


def check_removed(base: TableMetadata, updates: Sequence[Update], manifests: Manifests, known: Known) -> None:
    """Look for the specs that a commit removes in all the snapshots of the table that it keeps.

    known: what was found out for an earlier base, which is not read again; what is found out now is added. Who sends
    such a commit has looked at all those snapshots itself (Java: ExpireSnapshots.cleanExpiredMetadata), so it costs as
    much as it did there; what has to be found is a snapshot that came since. Raises RequirementFailed if one names such
    a spec; StorageError, CorruptFile or MissingFile where a list cannot be read."""
    gone = _ids(updates, "remove-partition-specs", "spec-ids") & base.specs_by_id.keys()
    if not gone:
        return
    removed = _ids(updates, "remove-snapshots", "snapshot-ids")
    kept = [raw for raw in base.snapshot_rows if raw["snapshot-id"] not in removed]
    ids = {raw["snapshot-id"] for raw in kept}
    # What came since is at the end.
    for raw in reversed(kept):
        used = _specs(Snapshot(raw), ids, manifests, known) & gone
        if used:
            raise RequirementFailed(
                SPECS_ARE_UNUSED,
                f"snapshot {raw['snapshot-id']} has files of partition spec {min(used)}, which is to be removed",
                expected="a spec that no snapshot uses",
                found=raw["snapshot-id"],
            )


def _ids(updates: Sequence[Update], action: str, name: str) -> set[int]:
    return {id_ for update in updates if update["action"] == action for id_ in update[name]}


def _specs(snapshot: Snapshot, kept: Collection[int], manifests: Manifests, known: Known) -> frozenset[int]:
    """The specs that a snapshot brings: a list has manifests of its own snapshot and of its parent. Those of a parent
    that is kept are looked at there."""
    has_parent = snapshot.parent_id in kept
    key = (snapshot.snapshot_id, snapshot.manifest_list, has_parent)
    if key not in known:
        files = _own(snapshot, manifests) if has_parent else manifests.list(snapshot)
        known[key] = frozenset(each.partition_spec_id for each in files)
    return known[key]


def _own(snapshot: Snapshot, manifests: Manifests) -> Sequence[ManifestFile]:
    """The manifests that a snapshot added."""
    added = manifests.added(snapshot)
    if added is None:
        added = [each for each in manifests.list(snapshot) if each.added_snapshot_id == snapshot.snapshot_id]
    return added
