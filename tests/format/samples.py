"""Manifests for the tests of the Avro codecs: a spec with every type, entries, and files that Java wrote."""

from __future__ import annotations

import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from iceberg_hms.format.avro import avro_file
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema

#: Written by Java: see Dump.java there.
GOLDEN = Path(__file__).parent / "golden"

UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
PARTITION: dict[str, Any] = {
    "ts_day": 18_718,
    "tz_hour": 449_232,
    "dt_year": 51,
    "id_bucket": 7,
    "s_trunc": "abc",
    "s": "abcd",
    "u": UUID,
    "d": Decimal("-14.20"),
    "t": 81_068_000_000,
    "dt": 17_486,
    "b": b"\x09\x08",
    "tz": 1_510_871_468_000_001,
    "bo": True,
    "f": 1.5,
    "db": -0.0,
    "od d-name": "x y",
    "i_null": None,
}
NULLS: dict[str, Any] = dict.fromkeys(PARTITION)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def golden_layout(version: int) -> tuple[Schema, PartitionSpec]:
    """The schema and the spec of Java's manifests."""
    metadata = avro_file.decode(golden(f"v{version}-data.avro"), "golden").metadata
    fields = orjson.loads(metadata["partition-spec"])
    spec = PartitionSpec.parse({"spec-id": int(metadata["partition-spec-id"]), "fields": fields})
    return Schema.parse(orjson.loads(metadata["schema"])), spec


def data_file(**changes: Any) -> DataFile:
    """The first data file in Java's manifests."""
    bounds = {1: b"\x05" + bytes(7), 5: b"\xfa\x74"}
    file = DataFile(
        file_path="file:/w/a b/f1.parquet",
        file_format="PARQUET",
        record_count=100,
        file_size_in_bytes=1_234,
        partition=PARTITION,
        column_sizes={1: 10, 3: 20},
        value_counts={1: 10, 3: 20},
        null_value_counts={12: 1},
        nan_value_counts={12: 1},
        lower_bounds=bounds,
        upper_bounds=bounds,
        split_offsets=[4, 500],
        sort_order_id=0,
        spec_id=2,
    )
    return replace(file, **changes)


def small_file(**changes: Any) -> DataFile:
    """The second data file in Java's manifests: no metrics, only null partition values."""
    file = DataFile("file:/w/f2.parquet", "PARQUET", 7, 1, partition=NULLS, sort_order_id=0, spec_id=2)
    return replace(file, **changes)


def golden_entries(version: int) -> list[ManifestEntry]:
    """What Java's data manifests hold, read through its lists."""
    sequence = [0, 0, 0] if version == 1 else [5, 3, 4]
    row_ids: list[int | None] = [1_000, 1_100, None] if version == 3 else [None, None, None]
    files = [data_file(first_row_id=row_ids[0]), small_file(first_row_id=row_ids[1]), small_file()]
    statuses, snapshots = (EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED), (77, 66, 77)
    return [
        ManifestEntry(status, file, snapshot_id, number, number)
        for status, file, snapshot_id, number in zip(statuses, files, snapshots, sequence, strict=True)
    ]


def golden_deletes(version: int) -> list[ManifestEntry]:
    """What Java's delete manifests hold; version 2 has the first one only."""
    plain = DataFile("file:/w/d1.parquet", "PARQUET", 2, 55, partition=PARTITION, spec_id=2)
    equality = replace(plain, content=FileContent.EQUALITY_DELETES, equality_ids=[1, 3], sort_order_id=0)
    vector = replace(
        plain,
        file_path="file:/w/dv.puffin",
        file_format="PUFFIN",
        content=FileContent.POSITION_DELETES,
        referenced_data_file="file:/w/f2.parquet",
        content_offset=4,
        content_size_in_bytes=40,
    )
    files = [equality, vector] if version == 3 else [equality]
    return [ManifestEntry(EntryStatus.ADDED, file, 77, 5, 5) for file in files]
