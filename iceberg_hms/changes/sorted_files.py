"""Whether data files that a commit adds claim a sort order, by the id that its client gave to the order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from iceberg_hms.changes.change import Manifests
from iceberg_hms.errors import MissingFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.work import stop_if_caller_left


def has_files_sorted_as(order_id: int, added: Iterable[Mapping[str, Any]], manifests: Manifests) -> bool:
    """Whether new snapshots have a file whose `sort_order_id` is this one; so too if that cannot be found out, because
    a manifest does not exist.

    added: the snapshots' JSON. Reads the manifests that they added, which is rare enough: only where a commit's sort
    order gets another id than its client sent. Raises StorageError, CorruptFile if one cannot be read."""
    try:
        for raw in added:
            stop_if_caller_left()
            snapshot = Snapshot(raw)
            own = [each for each in manifests.list(snapshot) if each.added_snapshot_id == snapshot.snapshot_id]
            if any(entry.data_file.sort_order_id == order_id for entry in manifests.entries(own)):
                return True
    except MissingFile:
        return True
    return False
