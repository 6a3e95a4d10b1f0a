"""An entry that is copied into another manifest has the same bytes as one that is encoded again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.format.avro import manifest_schemas
from iceberg_hms.format.manifests.entry_bytes import data_file_record, encode_entry, layout_of, with_row_id
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry, decode_manifest
from iceberg_hms.format.manifests.manifest_list import ManifestContent
from iceberg_hms.format.manifests.manifest_writer import ManifestWriter
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.types import NestedField, PrimitiveType, StructType
from tests.changes.tables import BY_LEVEL, UNPARTITIONED, table

LOCATION = "file:/w/m0.avro"
LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**62)


def manifest(
    version: int, entries: Iterable[ManifestEntry], snapshot_id: int, spec: dict[str, Any] = UNPARTITIONED
) -> bytes:
    entries = list(entries)
    is_data = entries[0].data_file.content == FileContent.DATA
    content = ManifestContent.DATA if is_data else ManifestContent.DELETES
    writer = ManifestWriter(version, table(version).schema, PartitionSpec.parse(spec), snapshot_id, content)
    for entry in entries:
        writer.add(entry)
    return writer.finish(LOCATION)[0]


def listed(version: int, data: bytes, entries: Iterable[ManifestEntry], first_row_id: int | None) -> Any:
    entries = list(entries)
    is_data = entries[0].data_file.content == FileContent.DATA
    writer = ManifestWriter(version, table(version).schema, PartitionSpec.parse(UNPARTITIONED), 7)
    file = replace(
        writer.finish(LOCATION)[1],
        manifest_length=len(data),
        sequence_number=5,
        first_row_id=first_row_id if is_data else None,
    )
    return list(decode_manifest(data, LOCATION, file))


def rewritten(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """As a writer that removes every third file writes them."""
    return [
        replace(entry, status=EntryStatus.EXISTING if at % 3 else EntryStatus.DELETED, snapshot_id=entry.snapshot_id)
        for at, entry in enumerate(entries)
    ]


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.dictionaries(st.integers(1, 9), values, max_size=3)


@st.composite
def data_files(draw: st.DrawFn, version: int) -> DataFile:
    content = draw(st.sampled_from([0, 0, 1, 2]))
    vector = version == 3 and content == 1
    return DataFile(
        draw(st.text(min_size=1, max_size=9)),
        "PUFFIN" if vector else "PARQUET",
        draw(COUNTS),
        draw(COUNTS),
        content=content,
        column_sizes=draw(maps(COUNTS)),
        value_counts=draw(maps(COUNTS)),
        null_value_counts=draw(maps(COUNTS)),
        nan_value_counts=draw(maps(COUNTS)),
        lower_bounds=draw(maps(st.binary(max_size=9))),
        upper_bounds=draw(maps(st.binary(max_size=9))),
        key_metadata=draw(st.none() | st.binary(max_size=3)),
        split_offsets=draw(st.none() | st.lists(COUNTS, max_size=3)),
        equality_ids=[1] if content == 2 else None,
        sort_order_id=draw(st.none() | st.integers(0, 9)),
        referenced_data_file=draw(st.none() | st.text(max_size=9)) if content == 1 else None,
        content_offset=draw(COUNTS) if vector else None,
        content_size_in_bytes=draw(COUNTS) if vector else None,
    )


@settings(max_examples=60, deadline=None)
@given(data=st.data(), version=st.sampled_from([2, 3]))
def test_a_copied_entry_has_the_bytes_of_an_encoded_one(data: st.DataObject, version: int) -> None:
    files = data.draw(st.lists(data_files(version), min_size=1, max_size=6))
    kind = files[0].content == FileContent.DATA
    files = [each for each in files if (each.content == FileContent.DATA) == kind]
    numbers = data.draw(st.sampled_from([None, 3]))
    first_row_id = data.draw(COUNTS) // 2**10 if version == 3 else None
    entries = [ManifestEntry(EntryStatus.ADDED, each, 7, numbers) for each in files]
    stored = manifest(version, entries, 7)
    read = listed(version, stored, entries, first_row_id)
    assert all(entry.encoded is not None for entry in read)
    changed = rewritten(read)
    copied = manifest(version, changed, 8)
    assert copied == manifest(version, [replace(each, encoded=None) for each in changed], 8)
    again = [replace(each, snapshot_id=9) for each in rewritten(listed(version, copied, entries, first_row_id))]
    assert manifest(version, again, 9) == manifest(version, [replace(each, encoded=None) for each in again], 9)


def file(**changes: Any) -> DataFile:
    return replace(DataFile("file:/d/a", "PARQUET", 10, 100, split_offsets=[4]), **changes)


def read_back(version: int, *files: DataFile, first_row_id: int | None = None) -> list[ManifestEntry]:
    entries = [ManifestEntry(EntryStatus.ADDED, each, 7) for each in files]
    return list(listed(version, manifest(version, entries, 7), entries, first_row_id))


def test_a_data_file_that_was_changed_is_encoded_again() -> None:
    (entry,) = rewritten(read_back(2, file()))
    changed = replace(entry, data_file=replace(entry.data_file, record_count=77))
    (found,) = listed(2, manifest(2, [changed], 8), [changed], None)
    assert found.data_file.record_count == 77


def test_a_row_id_that_a_list_took_back_is_not_copied() -> None:
    (entry,) = read_back(3, file(), first_row_id=40)
    entry = replace(entry, status=EntryStatus.EXISTING)
    data = manifest(3, [entry], 8)
    (found,) = listed(3, data, [entry], None)
    assert found.data_file.first_row_id is None, "the list that names the manifest gives it no row ids"
    existing = replace(found, status=EntryStatus.EXISTING)
    (again,) = listed(3, manifest(3, [existing], 9), [existing], 500)
    assert again.data_file.first_row_id == 500


def test_an_added_entry_with_row_ids_of_another_list_gets_new_ones() -> None:
    (entry,) = read_back(3, file(), first_row_id=40)
    (found,) = listed(3, manifest(3, [entry], 7), [entry], 900)
    assert found.data_file.first_row_id == 900


def test_entries_of_version_1_and_of_another_version_are_encoded_again() -> None:
    (entry,) = read_back(1, file())
    assert entry.encoded is None
    (entry,) = rewritten(read_back(2, file()))
    (found,) = listed(3, manifest(3, [entry], 8), [entry], 60)
    assert (found.data_file.record_count, found.data_file.first_row_id) == (10, 60 if found.is_live else None)


def test_a_manifest_of_another_partition_type_is_encoded_again() -> None:
    (entry,) = rewritten(read_back(2, file()))
    moved = replace(entry, data_file=replace(entry.data_file, partition={"level": "info"}))
    (found,) = decode_manifest(
        manifest(2, [moved], 8, BY_LEVEL), LOCATION, replace(_list_entry(BY_LEVEL), sequence_number=5)
    )
    assert found.data_file.partition == {"level": "info"}


def _list_entry(spec: dict[str, Any]) -> Any:
    writer = ManifestWriter(2, table(2, spec=spec).schema, PartitionSpec.parse(spec), 8)
    return writer.finish(LOCATION)[1]


def schema_text(version: int, kind: str = "string", field_id: int = 1000, name: str = "level") -> bytes:
    partition = StructType((NestedField(field_id, name, PrimitiveType(kind)),))
    return orjson.dumps(manifest_schemas.manifest_entry(version, partition))


def test_a_layout_is_the_same_whatever_fields_are_called_and_documented() -> None:
    layout = layout_of(schema_text(2))
    assert layout_of(schema_text(2, name="severity")) == layout
    documented = schema_text(2).replace(b'"Number of records in the file"', b'"rows"')
    assert documented != schema_text(2)
    assert layout_of(documented) == layout


@pytest.mark.parametrize(
    "other",
    [schema_text(3), schema_text(2, kind="int"), schema_text(2, field_id=1001), schema_text(2, "decimal(9, 2)")],
)
def test_a_layout_differs_by_version_types_and_field_ids(other: bytes) -> None:
    assert layout_of(other) != layout_of(schema_text(2))


@given(status=st.integers(0, 2), numbers=st.tuples(*[st.none() | LONGS] * 3), record=st.binary(min_size=1))
def test_the_data_file_is_found_behind_any_numbers(
    status: int, numbers: tuple[int | None, int | None, int | None], record: bytes
) -> None:
    assert data_file_record(encode_entry(status, *numbers, record)) == record


def test_a_row_id_is_put_before_the_last_three_fields() -> None:
    assert with_row_id(b"file\0\0\0\0", 1) == b"file\x02\x02\0\0\0"
