"""Table metadata of every format version, as writers write it, and the updates that tests apply to it."""

from __future__ import annotations

import copy
from typing import Any

from iceberg_hms.format.metadata.table_metadata import TableMetadata

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
LOCATION = "s3://bucket/test/location"
FIRST, SECOND = 3051729675574597004, 3055729675574597004
FIRST_MS, SECOND_MS, UPDATED_MS = 1515100955770, 1555100955770, 1602638573590
#: Before and after everything in the documents.
NOW_MS = 1700000000000

COLUMNS: list[dict[str, Any]] = [
    {"id": 1, "name": "x", "required": True, "type": "long"},
    {"id": 2, "name": "y", "required": True, "type": "long", "doc": "comment"},
    {"id": 3, "name": "z", "required": True, "type": "long"},
]
FIELDS: list[dict[str, Any]] = [{"name": "x", "transform": "identity", "source-id": 1, "field-id": 1000}]

OLD_V1: dict[str, Any] = {
    "format-version": 1,
    "table-uuid": UUID,
    "location": LOCATION,
    "last-updated-ms": UPDATED_MS,
    "last-column-id": 3,
    "schema": {"type": "struct", "fields": COLUMNS},
    "partition-spec": [{"name": "x", "transform": "identity", "source-id": 1}],
    "properties": {},
    "current-snapshot-id": -1,
    "snapshots": [{"snapshot-id": 1925, "timestamp-ms": FIRST_MS, "manifests": ["a.avro", "b.avro"]}],
}

V1: dict[str, Any] = {
    **OLD_V1,
    "schema": {"type": "struct", "schema-id": 0, "fields": COLUMNS},
    "schemas": [{"type": "struct", "schema-id": 0, "fields": COLUMNS}],
    "current-schema-id": 0,
    "partition-spec": FIELDS,
    "partition-specs": [{"spec-id": 0, "fields": FIELDS}],
    "default-spec-id": 0,
    "last-partition-id": 1000,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
    "snapshots": [{"snapshot-id": 1925, "timestamp-ms": FIRST_MS, "manifest-list": "s3://a/b/1.avro"}],
}

V2: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": UUID,
    "location": LOCATION,
    "last-sequence-number": 34,
    "last-updated-ms": UPDATED_MS,
    "last-column-id": 3,
    "current-schema-id": 1,
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": COLUMNS[:1]},
        {"type": "struct", "schema-id": 1, "identifier-field-ids": [1, 2], "fields": COLUMNS},
    ],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": FIELDS}],
    "last-partition-id": 1000,
    "default-sort-order-id": 3,
    "sort-orders": [
        {
            "order-id": 3,
            "fields": [
                {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
                {"transform": "bucket[4]", "source-id": 3, "direction": "desc", "null-order": "nulls-last"},
            ],
        }
    ],
    "properties": {"read.split.target.size": "134217728"},
    "current-snapshot-id": SECOND,
    "snapshots": [
        {
            "snapshot-id": FIRST,
            "timestamp-ms": FIRST_MS,
            "sequence-number": 0,
            "summary": {"operation": "append"},
            "manifest-list": "s3://a/b/1.avro",
        },
        {
            "snapshot-id": SECOND,
            "parent-snapshot-id": FIRST,
            "timestamp-ms": SECOND_MS,
            "sequence-number": 1,
            "summary": {"operation": "append"},
            "manifest-list": "s3://a/b/2.avro",
            "schema-id": 1,
        },
    ],
    "snapshot-log": [
        {"snapshot-id": FIRST, "timestamp-ms": FIRST_MS},
        {"snapshot-id": SECOND, "timestamp-ms": SECOND_MS},
    ],
    "metadata-log": [{"metadata-file": "s3://bucket/.../v1.json", "timestamp-ms": FIRST_MS}],
    "refs": {
        "main": {"snapshot-id": SECOND, "type": "branch"},
        "test": {"snapshot-id": FIRST, "type": "tag", "max-ref-age-ms": 10000000},
    },
    "a-field-of-tomorrow": {"deep": [1, None, 0.5]},
}

V3: dict[str, Any] = {**V2, "format-version": 3, "next-row-id": 100}


def metadata(version: int = 2, **fields: Any) -> TableMetadata:
    """A fresh, verified copy of a document; keywords replace fields, underscores stand for dashes."""
    raw = copy.deepcopy({1: V1, 2: V2, 3: V3}[version])
    raw.update({key.replace("_", "-"): value for key, value in fields.items()})
    return TableMetadata.parse(raw).verify()


def snapshot(snapshot_id: int = 77, **fields: Any) -> dict[str, Any]:
    """A snapshot for the v2 and v3 documents, and for v1 with sequence_number=None."""
    raw = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": SECOND,
        "sequence-number": 35,
        "timestamp-ms": NOW_MS - 1,
        "manifest-list": f"s3://a/b/{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 1,
    }
    raw.update({key.replace("_", "-"): value for key, value in fields.items()})
    return {key: value for key, value in raw.items() if value is not None}


def add_snapshot(snapshot_id: int = 77, **fields: Any) -> dict[str, Any]:
    return {"action": "add-snapshot", "snapshot": snapshot(snapshot_id, **fields)}


def set_ref(snapshot_id: int, name: str = "main", **fields: Any) -> dict[str, Any]:
    update = {"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": snapshot_id}
    return {**update, **{key.replace("_", "-"): value for key, value in fields.items()}}


def append(base: TableMetadata, snapshot_id: int) -> list[dict[str, Any]]:
    """The updates of an append to main of a table of v2."""
    fields = {"parent_snapshot_id": base.current_snapshot_id, "sequence_number": base.next_sequence_number}
    return [add_snapshot(snapshot_id, **fields), set_ref(snapshot_id)]
