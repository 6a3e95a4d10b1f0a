"""Tables with a history of snapshots, for the tests of what moves refs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_hms.changes.change import Change
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.tables import branch, snapshot, table

#: Of every commit of these tests: later than all snapshots.
NOW = 50_000


def history(
    parents: Mapping[int, int | None], refs: Mapping[str, int | Mapping[str, Any]], version: int = 2, **changes: Any
) -> TableMetadata:
    """A table with snapshots, each made a second after the one before it: snapshot 3 at 3,000 ms.

    parents: snapshot id -> its parent's. refs: name -> a branch's snapshot, or a ref's JSON.
    """
    raws = []
    for number, (id_, parent) in enumerate(parents.items(), start=1):
        extra = {"first_row_id": 0, "added_rows": 0} if version == 3 else {}
        raws.append(
            snapshot(
                id_,
                parent_snapshot_id=parent,
                sequence_number=None if version == 1 else number,
                timestamp_ms=id_ * 1_000,
                **extra,
            )
        )
    made = {name: branch(ref) if isinstance(ref, int) else dict(ref) for name, ref in refs.items()}
    if version > 1:
        changes.setdefault("last_sequence_number", len(raws))
    current = made[MAIN_BRANCH]["snapshot-id"] if MAIN_BRANCH in made else None
    log = [{"timestamp-ms": current * 1_000, "snapshot-id": current}] if current is not None else []
    return table(version, snapshots=raws, refs=made, current_snapshot_id=current, snapshot_log=log, **changes).verify()


def tag(snapshot_id: int, **changes: Any) -> dict[str, Any]:
    return {"snapshot-id": snapshot_id, "type": "tag", **changes}


def committed(base: TableMetadata, change: Change, now_ms: int = NOW) -> TableMetadata:
    """The table after a change, which must say the same whether it is checked or staged."""
    change.check(base)
    staged = change.stage(base, MemoryManifestStore().open())
    return apply(base, staged.updates, now_ms=now_ms).verify()


def heads(metadata: TableMetadata) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in metadata.refs.items()}
