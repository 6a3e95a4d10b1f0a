"""Table metadata for the tests of changes."""

from __future__ import annotations

from typing import Any

from iceberg_hms.changes.clients.blind_append import ISOLATION_LEVELS
from iceberg_hms.format.metadata.table_metadata import TableMetadata

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "level", "required": False, "type": "string"},
]
UNPARTITIONED = {"spec-id": 0, "fields": []}
#: Properties of a table for which no client validates an append.
SNAPSHOT_ISOLATION = dict.fromkeys(ISOLATION_LEVELS, "snapshot")
BY_LEVEL = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "transform": "identity", "name": "level"}],
}


def table(version: int = 2, *, spec: dict[str, Any] | None = None, **changes: Any) -> TableMetadata:
    """An empty table. changes: raw fields, with underscores for dashes; None removes one."""
    raw: dict[str, Any] = {
        "format-version": version,
        "table-uuid": UUID,
        "location": "file:/warehouse/logging.db/events",
        "last-updated-ms": 1_000,
        "last-column-id": 2,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
        "current-schema-id": 0,
        "partition-specs": [spec or UNPARTITIONED],
        "default-spec-id": 0,
        "last-partition-id": 999 if spec is None else 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "snapshots": [],
        "refs": {},
    }
    if version == 1:
        raw["schema"], raw["partition-spec"] = raw["schemas"][0], (spec or UNPARTITIONED)["fields"]
    if version > 1:
        raw["last-sequence-number"] = 0
    if version > 2:
        raw["next-row-id"] = 0
    raw.update({name.replace("_", "-"): value for name, value in changes.items()})
    return TableMetadata.parse({name: value for name, value in raw.items() if value is not None})


def snapshot(snapshot_id: int, **changes: Any) -> dict[str, Any]:
    """A snapshot's JSON."""
    raw = {
        "snapshot-id": snapshot_id,
        "sequence-number": 1,
        "timestamp-ms": 1_000,
        "manifest-list": f"file:/warehouse/logging.db/events/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    raw.update({name.replace("_", "-"): value for name, value in changes.items()})
    return {name: value for name, value in raw.items() if value is not None}


def branch(snapshot_id: int, **changes: Any) -> dict[str, Any]:
    return {"snapshot-id": snapshot_id, "type": "branch", **changes}


def with_main(snapshot_id: int = 7, version: int = 2, **changes: Any) -> TableMetadata:
    """A table with one snapshot, on main."""
    changes.setdefault("refs", {"main": branch(snapshot_id)})
    if version > 1:
        changes.setdefault("last_sequence_number", 1)
    changes.setdefault("snapshots", [snapshot(snapshot_id)])
    return table(version, current_snapshot_id=snapshot_id, **changes)
