"""Reading manifests: Java's and PyIceberg's, inheritance, damage."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import manifest as theirs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from iceberg_hms.errors import CorruptFile
from iceberg_hms.format.avro import avro_file
from iceberg_hms.format.manifests.manifest import (
    DataFile,
    EntryStatus,
    ManifestEntry,
    decode_manifest,
    inherit,
    read_header,
)
from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile, decode_list
from tests.format.samples import PARTITION, golden, golden_deletes, golden_entries, small_file

LINE = ManifestFile("file:/m.avro", 1, 2, 77, sequence_number=5, min_sequence_number=5)


def lines(version: int) -> tuple[ManifestFile, ...]:
    return decode_list(golden(f"v{version}-list.avro"), "list")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_javas_data_manifests_are_read(version: int) -> None:
    found = list(decode_manifest(golden(f"v{version}-data.avro"), "x", lines(version)[0]))
    assert found == golden_entries(version)


@pytest.mark.parametrize("version", [2, 3])
def test_javas_delete_manifests_are_read(version: int) -> None:
    found = list(decode_manifest(golden(f"v{version}-deletes.avro"), "x", lines(version)[1]))
    assert found == golden_deletes(version)


@pytest.mark.parametrize(
    ("name", "version", "content"),
    [
        ("v1-data", 1, ManifestContent.DATA),
        ("v2-deletes", 2, ManifestContent.DELETES),
        ("v3-data", 3, ManifestContent.DATA),
    ],
)
def test_a_manifest_s_header_is_read(name: str, version: int, content: ManifestContent) -> None:
    header = read_header(golden(f"{name}.avro"), "x")
    assert (header.format_version, header.partition_spec_id, header.content) == (version, 2, content)
    assert list(header.partition_names.values()) == list(PARTITION)
    assert min(header.partition_names) == 1_000


def pyiceberg_manifest(version: Any, path: Path, codec: Any) -> Any:
    """A manifest of PyIceberg with an added, an existing and a deleted entry, and its line."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "at", TimestampType(), required=False),
        NestedField(3, "a-name", StringType(), required=False),
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, DayTransform(), "at_day"),
        PartitionField(3, 1001, IdentityTransform(), "a-name"),
        spec_id=4,
    )
    file = theirs.DataFile.from_args(
        content=theirs.DataFileContent.DATA,
        file_path="file:/d/a.parquet",
        file_format=theirs.FileFormat.PARQUET,
        partition=Record(18_718, "x"),
        record_count=10,
        file_size_in_bytes=99,
        column_sizes={1: 5},
        value_counts={1: 10},
        null_value_counts={1: 0},
        nan_value_counts={},
        lower_bounds={1: b"\x01" + bytes(7)},
        upper_bounds={1: b"\x0a" + bytes(7)},
        split_offsets=[4],
        sort_order_id=0,
    )
    output = PyArrowFileIO().new_output(str(path))
    with theirs.write_manifest(version, spec, schema, output, 77, codec) as writer:
        for status, number in (("ADDED", None), ("EXISTING", 3), ("DELETED", 2)):
            entry = theirs.ManifestEntry.from_args(
                status=theirs.ManifestEntryStatus[status],
                snapshot_id=77,
                sequence_number=number,
                file_sequence_number=number,
                data_file=file,
            )
            writer.add_entry(entry)
    return writer.to_manifest_file()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_pyicebergs_manifests_are_read(version: int, codec: str, tmp_path: Path) -> None:
    path = tmp_path / "m.avro"
    line = pyiceberg_manifest(version, path, codec)
    number = 5 if version == 2 else 0
    ours = ManifestFile(str(path), line.manifest_length, 4, 77, sequence_number=number, min_sequence_number=0)
    found = list(decode_manifest(path.read_bytes(), str(path), ours))
    file = DataFile(
        file_path="file:/d/a.parquet",
        file_format="PARQUET",
        record_count=10,
        file_size_in_bytes=99,
        partition={"at_day": 18_718, "a-name": "x"},
        column_sizes={1: 5},
        value_counts={1: 10},
        null_value_counts={1: 0},
        nan_value_counts={},
        lower_bounds={1: b"\x01" + bytes(7)},
        upper_bounds={1: b"\x0a" + bytes(7)},
        split_offsets=[4],
        sort_order_id=0,
        spec_id=4,
    )
    numbers = [0, 0, 0] if version == 1 else [5, 3, 2]
    expected = [
        ManifestEntry(status, file, 77, number, number)
        for status, number in zip((EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED), numbers, strict=True)
    ]
    assert found == expected


def test_a_manifest_without_field_ids_is_refused() -> None:
    def without_ids(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {key: without_ids(value) for key, value in schema.items() if key != "field-id"}
        return [without_ids(each) for each in schema] if isinstance(schema, list) else schema

    container = avro_file.decode(golden("v2-data.avro"), "x")
    data = avro_file.AvroFileWriter(without_ids(container.schema), container.metadata, coding_schema="null").finish()
    with pytest.raises(CorruptFile, match="not a manifest"):
        decode_manifest(data, "x", LINE)


def entry(status: EntryStatus, **numbers: Any) -> ManifestEntry:
    row_id = numbers.pop("first_row_id", None)
    return ManifestEntry(status, small_file(first_row_id=row_id), **numbers)


def test_only_added_entries_inherit_sequence_numbers() -> None:
    added, existing, deleted = inherit(
        [entry(each) for each in (EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED)], LINE
    )
    assert (added.snapshot_id, added.sequence_number, added.file_sequence_number) == (77, 5, 5)
    for each in (existing, deleted):
        assert (each.snapshot_id, each.sequence_number, each.file_sequence_number) == (77, None, None)


def test_an_explicit_data_sequence_number_is_kept() -> None:
    (found,) = inherit([entry(EntryStatus.ADDED, snapshot_id=7, sequence_number=3)], LINE)
    assert (found.snapshot_id, found.sequence_number, found.file_sequence_number) == (7, 3, 5)


def test_entries_of_v1_manifests_have_number_zero_whatever_their_status() -> None:
    line = replace(LINE, sequence_number=0)
    for found in inherit([entry(each, snapshot_id=7) for each in EntryStatus], line):
        assert (found.sequence_number, found.file_sequence_number) == (0, 0)


def test_entries_inherit_no_numbers_from_an_unnumbered_manifest() -> None:
    (found,) = inherit([entry(EntryStatus.ADDED)], replace(LINE, sequence_number=-1))
    assert (found.snapshot_id, found.sequence_number, found.file_sequence_number) == (77, None, None)


def test_row_ids_count_the_rows_of_live_files_without_one() -> None:
    statuses = [EntryStatus.ADDED, EntryStatus.DELETED, EntryStatus.EXISTING, EntryStatus.EXISTING, EntryStatus.ADDED]
    entries = [entry(each, first_row_id=3 if at == 2 else None) for at, each in enumerate(statuses)]
    found = list(inherit(entries, replace(LINE, first_row_id=100)))
    assert [each.data_file.first_row_id for each in found] == [100, None, 3, 107, 114]


def test_no_file_has_a_row_id_if_its_manifest_has_none() -> None:
    (found,) = inherit([entry(EntryStatus.EXISTING, first_row_id=3)], LINE)
    assert found.data_file.first_row_id is None


def test_fewer_entries_than_the_list_counted_are_damage() -> None:
    counted = replace(LINE, added_files_count=2, existing_files_count=1, deleted_files_count=1)
    with pytest.raises(CorruptFile, match=r"3 entries, its manifest list counted 4"):
        decode_manifest(golden("v2-data.avro"), "x", counted)


@given(st.integers(0, 20_000), st.integers(1, 255))
def test_no_flipped_bit_raises_anything_but_corrupt_file(position: int, mask: int) -> None:
    data = bytearray(golden("v3-data.avro"))
    data[position % len(data)] ^= mask
    with contextlib.suppress(CorruptFile):
        list(decode_manifest(bytes(data), "x", LINE))


@pytest.mark.parametrize("length", [0, 3, 100, 9_000, -1, -16, -17])
def test_a_truncated_manifest_is_damaged(length: int) -> None:
    with pytest.raises(CorruptFile, match=r"m\.avro is damaged"):
        list(decode_manifest(golden("v2-data.avro")[:length], "m.avro", LINE))


def test_a_list_is_not_a_manifest() -> None:
    with pytest.raises(CorruptFile, match="not a manifest"):
        decode_manifest(golden("v2-list.avro"), "x", LINE)


@pytest.mark.parametrize(
    "metadata",
    [{"partition-spec": "{"}, {"partition-spec": "[1]"}, {"format-version": "two"}, {"content": "views"}],
)
def test_key_value_metadata_that_makes_no_sense_is_damage(metadata: dict[str, str]) -> None:
    with pytest.raises(CorruptFile, match="key-value metadata"):
        read_header(avro_file.AvroFileWriter("null", metadata).finish(), "x")


def test_v1_specs_may_have_no_field_ids() -> None:
    spec = '[{"name": "a", "transform": "day", "source-id": 1}, {"name": "b", "transform": "day", "source-id": 1}]'
    header = read_header(avro_file.AvroFileWriter("null", {"partition-spec": spec}).finish(), "x")
    assert (header.format_version, header.partition_spec_id) == (1, 0)
    assert header.partition_names == {1_000: "a", 1_001: "b"}


@pytest.mark.parametrize("status", [3, -1])
def test_an_unknown_status_is_damage(status: int) -> None:
    container = avro_file.decode(golden("v2-data.avro"), "x")
    file = io.BytesIO()
    records = [record | {"status": status} for record in container.records(container.schema)]
    fastavro.writer(file, container.schema, records, metadata=dict(container.metadata))
    with pytest.raises(CorruptFile, match="not a manifest's"):
        list(decode_manifest(file.getvalue(), "x", LINE))


@pytest.mark.parametrize("fields", [b"5", b"[5]", b'[{"field-id": {}}]', b"[" * 3_000 + b"]" * 3_000])
def test_an_invalid_avro_schema_is_damage(fields: bytes) -> None:
    schema = b'{"type": "record", "name": "r", "fields": %s}' % fields
    data = avro_file.AvroFileWriter(schema, {"partition-spec": "[]"}, coding_schema="null").finish()
    with pytest.raises(CorruptFile):
        list(
            decode_manifest(
                data, "x", replace(LINE, added_files_count=0, existing_files_count=0, deleted_files_count=0)
            )
        )
