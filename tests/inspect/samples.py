"""The table logging.events, in memory: two appends, and a third that was rolled back."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import FieldSummary, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata

NAME = TableName("logging", "events")
LOCATION = "file:/wh/logging.db/events"
METADATA_LOCATION = f"{LOCATION}/metadata/00003-c.metadata.json"
FIRST, SECOND, ROLLED_BACK, EXPIRED = 11, 22, 33, 7
#: 2021-04-01 and 2021-04-02, in days.
DAY_1, DAY_2 = 18718, 18719
MICROS_OF_DAY_1 = DAY_1 * 86_400_000_000


def snapshot(snapshot_id: int, parent: int | None, sequence: int, **summary: str) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": 1_617_280_000_000 + sequence,
        "manifest-list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", **{key.replace("_", "-"): value for key, value in summary.items()}},
        "schema-id": 0,
    }
    return raw if parent is None else raw | {"parent-snapshot-id": parent}


RAW: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": "5e3d1c1e-7a65-4f4d-9f0b-0c4d1a2b3c4d",
    "location": LOCATION,
    "last-sequence-number": 3,
    "last-updated-ms": 1_617_280_000_009,
    "last-column-id": 6,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "identifier-field-ids": [1],
            "fields": [
                {"id": 1, "name": "level", "required": True, "type": "string", "doc": "how bad"},
                {"id": 2, "name": "event_time", "required": False, "type": "timestamp"},
                {"id": 3, "name": "message", "required": False, "type": "string"},
                {
                    "id": 4,
                    "name": "call_stack",
                    "required": False,
                    "type": {"type": "list", "element-id": 5, "element": "string", "element-required": False},
                },
            ],
        },
        {
            "type": "struct",
            "schema-id": 1,
            "fields": [{"id": 6, "name": "gone", "required": False, "type": "int"}],
        },
    ],
    "current-schema-id": 0,
    "partition-specs": [
        {"spec-id": 0, "fields": []},
        {
            "spec-id": 1,
            "fields": [
                {"source-id": 2, "field-id": 1000, "name": "event_time_day", "transform": "day"},
                {"source-id": 6, "field-id": 1001, "name": "gone_odd", "transform": "odd[2]"},
            ],
        },
    ],
    "default-spec-id": 1,
    "last-partition-id": 1001,
    "sort-orders": [
        {"order-id": 0, "fields": []},
        {
            "order-id": 1,
            "fields": [
                {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"},
            ],
        },
    ],
    "default-sort-order-id": 0,
    "properties": {"owner": "etl", "write.parquet.compression-codec": "zstd"},
    "current-snapshot-id": SECOND,
    "refs": {
        "main": {"snapshot-id": SECOND, "type": "branch"},
        "audit": {"snapshot-id": FIRST, "type": "tag", "max-ref-age-ms": 86_400_000},
    },
    "snapshots": [
        snapshot(FIRST, None, 1, added_records="3", added_data_files="2", total_records="3"),
        snapshot(
            SECOND,
            FIRST,
            2,
            added_records="1",
            deleted_records="0",
            added_data_files="1",
            total_records="4",
            total_data_files="3",
            total_files_size="3000",
        ),
        snapshot(ROLLED_BACK, SECOND, 3, added_records="9", total_records="not a number"),
    ],
    "snapshot-log": [
        {"snapshot-id": EXPIRED, "timestamp-ms": 1_617_280_000_000},
        {"snapshot-id": FIRST, "timestamp-ms": 1_617_280_000_001},
        {"snapshot-id": SECOND, "timestamp-ms": 1_617_280_000_002},
        {"snapshot-id": ROLLED_BACK, "timestamp-ms": 1_617_280_000_003},
        {"snapshot-id": SECOND, "timestamp-ms": 1_617_280_000_004},
    ],
    "metadata-log": [
        {"timestamp-ms": 1_617_280_000_001, "metadata-file": f"{LOCATION}/metadata/00002-b.metadata.json"}
    ],
}

PARAMETERS = {
    "EXTERNAL": "TRUE",
    "current-snapshot-id": str(SECOND),
    "metadata_location": METADATA_LOCATION,
    "owner": "etl",
    "previous_metadata_location": f"{LOCATION}/metadata/00002-b.metadata.json",
    "table_type": "ICEBERG",
    "trino_version": "471",
    "write.parquet.compression-codec": "snappy",
}

MANIFEST = ManifestFile(
    manifest_path=f"{LOCATION}/metadata/m-1.avro",
    manifest_length=5_000,
    partition_spec_id=1,
    added_snapshot_id=FIRST,
    sequence_number=1,
    min_sequence_number=1,
    added_files_count=2,
    existing_files_count=0,
    deleted_files_count=1,
    added_rows_count=3,
    existing_rows_count=0,
    partitions=(
        FieldSummary(False, None, struct.pack("<i", DAY_1), struct.pack("<i", DAY_2)),
        FieldSummary(True, True, b"\x01", None),
    ),
)
#: Of the unpartitioned spec, of a writer that gave no counts.
OLD_MANIFEST = ManifestFile(
    manifest_path=f"{LOCATION}/metadata/m-0.avro",
    manifest_length=1,
    partition_spec_id=0,
    added_snapshot_id=EXPIRED,
    content=1,
    sequence_number=0,
    min_sequence_number=0,
)

DATA = DataFile(
    file_path=f"{LOCATION}/data/event_time_day=2021-04-01/a b.parquet",
    file_format="PARQUET",
    record_count=2,
    file_size_in_bytes=2_048,
    partition={"event_time_day": DAY_1, "gone_odd": 1},
    column_sizes={1: 50, 99: 5},
    value_counts={1: 2, 2: 2},
    null_value_counts={1: 0, 2: 1},
    lower_bounds={1: b"ERROR", 2: struct.pack("<q", MICROS_OF_DAY_1), 3: b"\xff", 99: b"\x01\x02"},
    upper_bounds={1: b"WARN\x1b[2J", 2: b"short"},
    sort_order_id=0,
    spec_id=1,
)
REMOVED = DataFile("file:/elsewhere/b.parquet", "parquet", 1, 10, partition={"event_time_day": None}, spec_id=1)
DELETES = DataFile("file:/d.parquet", "PARQUET", 1, 10, content=FileContent.EQUALITY_DELETES, equality_ids=[1])


@dataclass
class MemoryManifests:
    """The Manifests port, for reading alone."""

    lists: Mapping[int, Sequence[ManifestFile]]
    contents: Mapping[str, Sequence[ManifestEntry]]

    def list(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        return self.lists[snapshot.snapshot_id]

    def entries(
        self, files: Iterable[ManifestFile], keep: Callable[[ManifestEntry], bool] | None = None
    ) -> Iterator[ManifestEntry]:
        for file in files:
            for entry in self.contents[file.manifest_path]:
                if keep is None or keep(entry):
                    yield entry


def manifests() -> MemoryManifests:
    return MemoryManifests(
        lists={FIRST: [MANIFEST], SECOND: [MANIFEST, OLD_MANIFEST], ROLLED_BACK: []},
        contents={
            MANIFEST.manifest_path: [
                ManifestEntry(EntryStatus.ADDED, DATA, FIRST, 1, 1),
                ManifestEntry(EntryStatus.DELETED, REMOVED, FIRST, 0, 0),
            ],
            OLD_MANIFEST.manifest_path: [ManifestEntry(EntryStatus.EXISTING, DELETES, EXPIRED, 0, 0)],
        },
    )


def metadata(**changes: Any) -> TableMetadata:
    raw = {**RAW, **{key.replace("_", "-"): value for key, value in changes.items()}}
    return TableMetadata.parse({key: value for key, value in raw.items() if value is not None}).verify()


def pointer(**changes: Any) -> Pointer:
    values: dict[str, Any] = {
        "name": NAME,
        "metadata_location": METADATA_LOCATION,
        "previous_metadata_location": PARAMETERS["previous_metadata_location"],
        "parameters": PARAMETERS,
        "table": None,
    }
    return Pointer(**(values | changes))


EMPTY: dict[str, Any] = {"snapshots": [], "refs": {}, "snapshot_log": [], "current_snapshot_id": -1}
