"""Delete files are matched with the rows of a batch as the index matches them with data files."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.changes.operations.manifests.delete_index import PATH_COLUMN, DeleteIndex
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning.delete_matching import DeleteMatching
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.planning.batches import batch_of

ID, DAY = 1, 2
SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": ID, "name": "id", "type": "int", "required": False},
        {"id": DAY, "name": "day", "type": "int", "required": False},
    ],
}


def metadata_of(partitioned_by: Sequence[str]) -> TableMetadata:
    with memory_catalog() as catalog:
        catalog.create_namespace("sales")
        return catalog.create_table("sales.orders", SCHEMA, partition_spec=list(partitioned_by)).metadata


BY_DAY, UNPARTITIONED = metadata_of(["day"]), metadata_of([])


def path(number: int) -> str:
    return f"s3://lake/sales/data/{number}.parquet"


def bound(number: int) -> bytes:
    return struct.pack("<i", number)


def with_ids(low: int, high: int) -> dict[str, Any]:
    return {
        "value_counts": {ID: 9},
        "null_value_counts": {ID: 0},
        "lower_bounds": {ID: bound(low)},
        "upper_bounds": {ID: bound(high)},
    }


@st.composite
def data_entries(draw: st.DrawFn) -> list[ManifestEntry]:
    numbers = draw(st.lists(st.integers(0, 4), unique=True, max_size=6))
    return [
        ManifestEntry(
            EntryStatus.ADDED,
            DataFile(
                path(each), "PARQUET", 9, 1, {"day": draw(st.integers(0, 1))}, **with_ids(10 * each, 10 * each + 9)
            ),
            1,
            draw(st.integers(1, 3)),
            1,
        )
        for each in numbers
    ]


@st.composite
def delete_entries(draw: st.DrawFn) -> ManifestEntry:
    partition = {"day": draw(st.integers(0, 1))}
    kind = draw(st.sampled_from(["equality", "position", "file", "spelled", "vector", "bounds"]))
    target, other = sorted((draw(st.integers(0, 4)), draw(st.integers(0, 4))))
    content, more, form = FileContent.POSITION_DELETES, {}, "PARQUET"
    match kind:
        case "equality":
            content = FileContent.EQUALITY_DELETES
            more = {"equality_ids": [ID], **with_ids(10 * target, 10 * other)}
        case "file" | "vector":
            form = "PUFFIN" if kind == "vector" else form
            more = {"referenced_data_file": path(target)}
        case "spelled":
            more = {"referenced_data_file": path(target).replace("s3:", "s3a:")}
        case "bounds":
            more = {
                "lower_bounds": {PATH_COLUMN: path(target).encode()},
                "upper_bounds": {PATH_COLUMN: path(other).encode()},
            }
    file = DataFile(f"s3://lake/sales/data/{kind}-{target}", form, 1, 1, partition, content=content, **more)
    return ManifestEntry(EntryStatus.ADDED, file, 1, draw(st.integers(1, 3)), 1)


def without_partition(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, data_file=replace(entry.data_file, partition={}))


@given(data_entries(), st.lists(delete_entries(), max_size=6), st.sampled_from([BY_DAY, UNPARTITIONED]))
def test_as_the_index_says(data: list[ManifestEntry], deletes: list[ManifestEntry], metadata: TableMetadata) -> None:
    if metadata is UNPARTITIONED:
        data, deletes = ([without_partition(each) for each in entries] for entries in (data, deletes))
    index, matching = DeleteIndex(deletes, metadata), DeleteMatching(deletes, metadata)
    found = matching.applying_to(batch_of(data, metadata.spec, metadata.schema), metadata.spec.spec_id).to_pylist()
    for entry, positions in zip(data, found, strict=True):
        expected = list(index.applying_to(entry.data_file, entry.sequence_number or 0))
        assert [matching.files[each] for each in positions] == expected
    assert matching.stats == ({ID} if any(each.data_file.equality_ids for each in deletes) else set())
    assert {at for each in found for at in each} == set(range(len(matching.files)))


def test_equality_deletes_without_a_partition_are_matched_everywhere() -> None:
    data = DataFile(path(1), "PARQUET", 9, 1, {}, **with_ids(10, 19))
    deletes = DataFile(
        path(2), "PARQUET", 1, 1, {}, content=FileContent.EQUALITY_DELETES, equality_ids=[ID], **with_ids(10, 10)
    )
    matching = DeleteMatching([ManifestEntry(EntryStatus.ADDED, deletes, 2, 2, 2)], UNPARTITIONED)
    batch = batch_of([ManifestEntry(EntryStatus.ADDED, data, 1, 1, 1)], UNPARTITIONED.spec, UNPARTITIONED.schema)
    assert matching.applying_to(batch, 0).to_pylist() == [[0]]
