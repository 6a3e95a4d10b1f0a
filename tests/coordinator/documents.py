"""Small table metadata documents for the coordinator's tests."""

from typing import Any


def raw(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "format-version": 2,
        "table-uuid": "0000-1",
        "location": "file:/t",
        "last-sequence-number": 2,
        "last-updated-ms": 2000,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": 11,
        "snapshots": [snapshot(10, 1, 1000), snapshot(11, 2, 2000)],
        "refs": {"main": {"type": "branch", "snapshot-id": 11}},
        "snapshot-log": [{"timestamp-ms": 1000, "snapshot-id": 10}, {"timestamp-ms": 2000, "snapshot-id": 11}],
        "metadata-log": [],
    }
    return {**base, **{key.replace("_", "-"): value for key, value in changes.items()}}


def snapshot(id_: int, number: int, timestamp_ms: int) -> dict[str, Any]:
    return {
        "snapshot-id": id_,
        "sequence-number": number,
        "timestamp-ms": timestamp_ms,
        "manifest-list": f"file:/t/metadata/{id_}.avro",
        "summary": {"operation": "append"},
    }
