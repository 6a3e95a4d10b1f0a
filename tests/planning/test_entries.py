"""Rows of decoded manifests are the entries that were written; `test_decode` compares random manifests."""

from __future__ import annotations

import uuid

from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.planning.entries import entries_of
from tests.planning.batches import batch_of

SCHEMA = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "day", "type": "date", "required": False},
            {"id": 2, "name": "key", "type": "uuid", "required": False},
        ],
    }
)
SPEC = PartitionSpec.parse(
    {
        "spec-id": 4,
        "fields": [
            {"source-id": 1, "field-id": 1000, "name": "day", "transform": "identity"},
            {"source-id": 2, "field-id": 1001, "name": "by key", "transform": "identity"},
        ],
    }
)
KEY = uuid.UUID(int=7)
ENTRIES = [
    ManifestEntry(
        EntryStatus.EXISTING,
        DataFile(
            "file:/a",
            "PARQUET",
            1,
            2,
            {"day": 3, "by key": KEY},
            FileContent.EQUALITY_DELETES,
            value_counts={1: 4},
            lower_bounds={1: b"low", 2: b""},
            equality_ids=[1, 2],
            spec_id=4,
        ),
        5,
        6,
        7,
    ),
    ManifestEntry(
        EntryStatus.ADDED,
        DataFile(
            "file:/b",
            "PUFFIN",
            1,
            2,
            {"day": None, "by key": KEY},
            FileContent.POSITION_DELETES,
            lower_bounds={2: b"x"},
            key_metadata=b"key",
            referenced_data_file="file:/c",
            content_offset=8,
            content_size_in_bytes=9,
            spec_id=4,
        ),
        10,
        11,
        12,
    ),
]
FIELDS = SPEC.partition_type(SCHEMA).fields


def test_each_row_is_an_entry() -> None:
    found = entries_of(batch_of(ENTRIES, SPEC, SCHEMA), 4, FIELDS)
    assert found == ENTRIES
    assert [type(each.data_file.content) for each in found] == [FileContent, FileContent]


def test_without_rows_there_are_none() -> None:
    assert entries_of(batch_of(ENTRIES, SPEC, SCHEMA).slice(0, 0), 4, FIELDS) == []


def test_a_field_that_the_tuples_lack_is_null() -> None:
    batch = batch_of(ENTRIES, SPEC, SCHEMA).drop_columns(["partition.1000"])
    assert [each.data_file.partition["day"] for each in entries_of(batch, 4, FIELDS)] == [None, None]
