"""Delete files are matched with the rows of batches as the index matches them with data files."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.changes.operations.manifests.delete_index import PATH_COLUMN, DeleteIndex
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.planning import layout
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


def evolved_table() -> TableMetadata:
    """Its specs: by day; by nothing, with a void field; by that and id; without fields."""
    day = {"source-id": DAY, "field-id": 1000, "name": "day", "transform": "identity"}
    id_ = {"source-id": ID, "field-id": 1001, "name": "id", "transform": "identity"}
    void = {**day, "transform": "void"}
    specs = [{"spec-id": at, "fields": fields} for at, fields in enumerate(([day], [void], [void, id_], []))]
    with memory_catalog() as catalog:
        catalog.create_namespace("sales")
        return catalog.create_table("sales.orders", SCHEMA).metadata.replace(partition_specs=specs)


METADATA = evolved_table()
SPECS = [*METADATA.specs_by_id.values()]


def path(number: int) -> str:
    """Several files have one name in folders of one name."""
    return f"s3://lake/sales/{number // 3}/data/{number % 3}.parquet"


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
def partitions(draw: st.DrawFn) -> dict[str, Any]:
    """A spec's id, and values of its fields, as writers give them: nulls for void fields, or nothing."""
    spec = draw(st.sampled_from(SPECS))
    values = {}
    for field in spec.fields:
        if str(field.transform) != "void":
            values[field.name] = draw(st.none() | st.integers(0, 1))
        elif draw(st.booleans()):
            values[field.name] = None
    return {"partition": values, "spec_id": spec.spec_id}


NUMBERS = st.integers(0, 8)


@st.composite
def data_entries(draw: st.DrawFn) -> list[ManifestEntry]:
    return [
        ManifestEntry(
            EntryStatus.ADDED,
            DataFile(path(each), "PARQUET", 9, 1, **draw(partitions()), **with_ids(10 * each, 10 * each + 9)),
            1,
            draw(st.integers(1, 3)),
            1,
        )
        for each in draw(st.lists(NUMBERS, unique=True, max_size=8))
    ]


KINDS = ["equality", "named", "no ids", "position", "file", "spelled", "vector", "bounds", "only", "both", "odd", "low"]


@st.composite
def delete_entries(draw: st.DrawFn) -> ManifestEntry:
    kind = draw(st.sampled_from(KINDS))
    target, other = sorted((draw(NUMBERS), draw(NUMBERS)))
    content, more, form = FileContent.POSITION_DELETES, {}, "PARQUET"
    match kind:
        case "equality":
            content = FileContent.EQUALITY_DELETES
            more = {"equality_ids": [ID], **with_ids(10 * target, 10 * other)}
        case "no ids":
            content, more = FileContent.EQUALITY_DELETES, {"equality_ids": [ID]}
        case "named":
            # What equality deletes say of a data file means nothing.
            content, more = FileContent.EQUALITY_DELETES, {"equality_ids": [ID], "referenced_data_file": path(target)}
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
        case "only" | "both":
            bounds = {PATH_COLUMN: path(target).encode()}
            more = {"lower_bounds": bounds, "upper_bounds": bounds}
            more |= {"referenced_data_file": path(other)} if kind == "both" else {}
        case "odd":
            more = {"lower_bounds": {PATH_COLUMN: b"/\xff"}, "upper_bounds": {PATH_COLUMN: b"/\xff"}}
        case "low":
            more = {"lower_bounds": {PATH_COLUMN: path(target).encode()}}
    file = DataFile(f"s3://lake/sales/{kind}-{target}", form, 1, 1, content=content, **draw(partitions()), **more)
    return ManifestEntry(EntryStatus.ADDED, file, 1, draw(st.integers(1, 3)), 1)


def batches_of(entries: Sequence[ManifestEntry], size: int) -> list[tuple[int, Any]]:
    """Entries as manifests have them: of one spec each."""
    found = []
    for spec in SPECS:
        own = [each for each in entries if each.data_file.spec_id == spec.spec_id]
        parts = [own[at : at + size] for at in range(0, len(own), size)]
        found += [(spec.spec_id, batch_of(each, spec, METADATA.schema)) for each in parts]
    return found


def matching_of(batches: Sequence[tuple[int, Any]], metadata: TableMetadata = METADATA) -> DeleteMatching:
    return DeleteMatching(batches, metadata, MemoryBudget().share())


@given(
    data_entries(),
    st.lists(delete_entries(), max_size=8),
    st.integers(1, 8),
    st.integers(1, 8),
)
def test_as_the_index_says(
    data: list[ManifestEntry], deletes: list[ManifestEntry], data_size: int, deletes_size: int
) -> None:
    deletes = [
        replace(each, data_file=replace(each.data_file, file_path=f"{each.data_file.file_path}-{at}"))
        for at, each in enumerate(deletes)
    ]
    index, matching = DeleteIndex(deletes, METADATA), matching_of(batches_of(deletes, deletes_size))
    referenced = set()
    for spec_id, batch in batches_of(data, data_size):
        rows = dict(
            zip(batch.column("file_path").to_pylist(), matching.applying_to(batch, spec_id).to_pylist(), strict=True)
        )
        for entry in data:
            positions = rows.get(entry.data_file.file_path)
            if positions is None:
                continue
            expected = {
                each.data_file.file_path for each in index.applying_to(entry.data_file, entry.sequence_number or 0)
            }
            assert len(positions) == len(expected)
            assert {matching.files[each].data_file.file_path for each in positions} == expected
            referenced |= set(positions)
    assert matching.stats == ({ID} if any(each.data_file.equality_ids for each in deletes) else set())
    assert referenced == set(range(len(matching.files)))


def test_what_is_taken_is_as_it_was() -> None:
    deletes = DataFile(
        path(2),
        "PARQUET",
        1,
        1,
        {},
        content=FileContent.EQUALITY_DELETES,
        equality_ids=[ID],
        spec_id=3,
        **with_ids(10, 10),
    )
    entry = ManifestEntry(EntryStatus.ADDED, deletes, 2, 2, 2)
    matching = matching_of(batches_of([entry], 1))
    data = DataFile(path(1), "PARQUET", 9, 1, {"day": 1}, **with_ids(10, 19))
    ((spec_id, batch),) = batches_of([ManifestEntry(EntryStatus.ADDED, data, 1, 1, 1)], 1)
    assert [matching.applying_to(batch, spec_id).to_pylist() for _ in range(2)] == [[[0]], [[0]]]
    assert matching.files == [entry]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("boolean", (False, True)),
        ("double", (math.nan, 0.0, -0.0)),
        ("decimal(9, 2)", (Decimal("1.50"), Decimal("-1.50"))),
        ("string", ("", "a")),
        ("uuid", (UUID(int=1), UUID(int=1 << 127))),
        ("binary", (b"", b"\x00")),
    ],
)
def test_partitions_of_each_type(kind: str, values: Sequence[Any]) -> None:
    with memory_catalog() as catalog:
        catalog.create_namespace("sales")
        schema = {"type": "struct", "fields": [{"id": 1, "name": "key", "type": kind, "required": False}]}
        metadata = catalog.create_table("sales.orders", schema, partition_spec=["key"]).metadata
    numbered = list(enumerate((*values, None)))

    def batch(**said: Any) -> pa.RecordBatch:
        files = [DataFile(f"file:/x/{at}", "PARQUET", 1, 1, {"key": value}, **said) for at, value in numbered]
        entries = [ManifestEntry(EntryStatus.ADDED, each, 1, 1, 1) for each in files]
        return batch_of(entries, metadata.spec, metadata.schema)

    matching = matching_of([(0, batch(content=FileContent.POSITION_DELETES))], metadata)
    found = matching.applying_to(batch(), 0).to_pylist()
    names = [[matching.files[each].data_file.file_path for each in positions] for positions in found]
    assert names == [[f"file:/x/{at}"] for at, _ in numbered]


def test_delete_files_from_before_and_after_a_promotion() -> None:
    """The type of a partition value may differ between manifests of one spec."""
    deletes = [
        DataFile(f"file:/{name}", "PARQUET", 1, 1, {"day": 1}, content=FileContent.POSITION_DELETES) for name in "ab"
    ]
    (_, old), (_, new) = batches_of([ManifestEntry(EntryStatus.ADDED, each, 2, 2, 2) for each in deletes], 1)
    name = layout.partition(1000)
    new = new.set_column(new.schema.get_field_index(name), name, new.column(name).cast(pa.int64()))
    matching = matching_of([(0, old), (0, new)])
    data = DataFile(path(1), "PARQUET", 9, 1, {"day": 1})
    ((spec_id, batch),) = batches_of([ManifestEntry(EntryStatus.ADDED, data, 1, 1, 1)], 1)
    assert matching.applying_to(batch, spec_id).to_pylist() == [[0, 1]]
