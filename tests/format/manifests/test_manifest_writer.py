"""Writing manifests: PyIceberg reads them, they equal Java's, and invalid entries are refused."""

from __future__ import annotations

import math
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import manifest as theirs
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.avro import avro_file
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry, decode_manifest
from iceberg_hms.format.manifests.manifest_list import (
    UNASSIGNED,
    FieldSummary,
    ManifestContent,
    ManifestFile,
    decode_list,
)
from iceberg_hms.format.manifests.manifest_writer import EntryKinds, ManifestSummary, ManifestWriter, as_written
from iceberg_hms.format.schema import uuid_order, values
from iceberg_hms.format.schema.partition_spec import UNPARTITIONED, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import NestedField, StructType, parse_type
from tests.format.samples import (
    NULLS,
    PARTITION,
    UUID,
    data_file,
    golden,
    golden_deletes,
    golden_entries,
    golden_layout,
    small_file,
)

WHERE = "file:/w/metadata/m.avro"


def write(
    version: int, entries: list[ManifestEntry], content: ManifestContent = ManifestContent.DATA, snapshot_id: int = 77
) -> tuple[bytes, ManifestFile]:
    schema, spec = golden_layout(version)
    writer = ManifestWriter(version, schema, spec, snapshot_id, content)
    for each in entries:
        writer.add(each)
    assert writer.entries == len(entries)
    return writer.finish(WHERE)


def test_cached_schemas_of_different_layouts_do_not_mix() -> None:
    """Schemas of manifests are cached by format version and partition type."""
    layouts = [(version, *golden_layout(version)) for version in (1, 2, 3)]
    layouts += [(version, schema, UNPARTITIONED) for version, schema, _ in layouts]

    def empty(version: int, schema: Schema, spec: PartitionSpec) -> bytes:
        return ManifestWriter(version, schema, spec, 77).finish(WHERE)[0]

    first = [empty(*layout) for layout in layouts]
    assert len(set(first)) == len(layouts)
    assert [empty(*layout) for layout in reversed(layouts)] == first[::-1]


def as_new(entries: list[ManifestEntry]) -> list[ManifestEntry]:
    """Entries before a snapshot numbered them."""
    new = {"sequence_number": None, "file_sequence_number": None, "snapshot_id": None}
    return [replace(each, **new) if each.status == EntryStatus.ADDED else each for each in entries]  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_javas_manifests_are_reproduced(version: int) -> None:
    java = decode_list(golden(f"v{version}-list.avro"), "x")[0]
    entries = golden_entries(version)
    data, line = write(version, as_new(entries))
    line = replace(line, sequence_number=java.sequence_number, first_row_id=java.first_row_id)
    assert list(decode_manifest(data, "x", line)) == entries
    low = UNASSIGNED if version == 1 else java.min_sequence_number
    assert line == replace(java, manifest_path=WHERE, manifest_length=len(data), min_sequence_number=low)
    ours, javas = (avro_file.decode(each, "x") for each in (data, golden(f"v{version}-data.avro")))
    assert ours.schema == javas.schema
    assert set(ours.metadata) == set(javas.metadata) - {"iceberg.schema"} | {"schema-id"}
    assert {key: ours.metadata[key] for key in ("format-version", "partition-spec-id", "schema-id")} == {
        "format-version": str(version),
        "partition-spec-id": "2",
        "schema-id": "1",
    }
    assert ours.metadata.get("content") == (None if version == 1 else "data")
    for key in ("schema", "partition-spec"):
        assert orjson.loads(ours.metadata[key]) == orjson.loads(javas.metadata[key])


@pytest.mark.parametrize("version", [2, 3])
def test_javas_delete_manifests_are_reproduced(version: int) -> None:
    java = decode_list(golden(f"v{version}-list.avro"), "x")[1]
    entries = golden_deletes(version)
    data, line = write(version, as_new(entries), ManifestContent.DELETES)
    assert list(decode_manifest(data, "x", replace(line, sequence_number=5))) == entries
    assert line.partitions == java.partitions
    assert avro_file.decode(data, "x").metadata["content"] == "deletes"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_is_written(version: int, tmp_path: Path) -> None:
    entries = golden_entries(version)
    data, _ = write(version, as_new(entries))
    path = tmp_path / "m.avro"
    path.write_bytes(data)
    manifest = theirs.ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=len(data),
        partition_spec_id=2,
        content=theirs.ManifestContent.DATA,
        sequence_number=0 if version == 1 else 5,
        added_snapshot_id=77,
    )
    found = manifest.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
    for one, our in zip(found, entries, strict=True):
        assert (int(one.status), one.snapshot_id) == (our.status, our.snapshot_id)
        assert (one.sequence_number, one.file_sequence_number) == (our.sequence_number, our.file_sequence_number)
        file = our.data_file
        for name in (
            *("file_path", "file_format", "record_count", "file_size_in_bytes", "column_sizes", "value_counts"),
            *("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "key_metadata"),
            *("split_offsets", "equality_ids", "sort_order_id", "content", "spec_id"),
        ):
            assert getattr(one.data_file, name) == getattr(file, name), name
        assert [one.data_file.partition[at] for at in range(len(PARTITION))] == list(file.partition.values())


def test_missing_snapshot_ids_are_filled_in_only_for_v1() -> None:
    for version, expected in ((1, 77), (2, None)):
        data, _ = write(version, [ManifestEntry(EntryStatus.ADDED, small_file())])
        container = avro_file.decode(data, "x")
        assert next(container.records(container.schema))["snapshot_id"] == expected


def test_inherited_values_are_not_written() -> None:
    entry = ManifestEntry(EntryStatus.ADDED, small_file(first_row_id=9), 77, 3, 5)
    stored = as_written(entry, 3, 77)
    assert (stored.sequence_number, stored.file_sequence_number, stored.data_file.first_row_id) == (3, None, None)
    existing = as_written(replace(entry, status=EntryStatus.EXISTING), 3, 77)
    assert (existing.sequence_number, existing.file_sequence_number, existing.data_file.first_row_id) == (3, 5, 9)
    deletes = replace(
        entry, status=EntryStatus.EXISTING, data_file=small_file(content=FileContent.EQUALITY_DELETES, first_row_id=9)
    )
    assert as_written(deletes, 3, 77).data_file.first_row_id is None
    assert as_written(replace(entry, status=EntryStatus.EXISTING), 2, 77).data_file.first_row_id is None


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (
            ManifestEntry(EntryStatus.ADDED, data_file(content=FileContent.EQUALITY_DELETES)),
            "does not belong in a data manifest",
        ),
        (ManifestEntry(7, data_file()), "Unknown entry status 7"),
        (ManifestEntry(EntryStatus.EXISTING, data_file(), None, 1, 1), "snapshot id"),
        (ManifestEntry(EntryStatus.EXISTING, data_file(), 1, None, 1), "sequence numbers"),
        (ManifestEntry(EntryStatus.DELETED, data_file(), 1, 1, None), "sequence numbers"),
        (ManifestEntry(EntryStatus.ADDED, data_file(record_count=-1)), "not negative"),
        (ManifestEntry(EntryStatus.ADDED, data_file(file_size_in_bytes=-1)), "not negative"),
        (ManifestEntry(EntryStatus.ADDED, data_file(record_count=1.5)), "must be whole"),
        (ManifestEntry(EntryStatus.ADDED, data_file(), snapshot_id=66), "unassigned sequence number .* 66"),
        (ManifestEntry(EntryStatus.ADDED, data_file(record_count="many")), "must be whole"),
        (ManifestEntry(EntryStatus.ADDED, data_file(lower_bounds={1: "text"})), "Cannot write an entry"),
        (ManifestEntry(EntryStatus.ADDED, data_file(split_offsets=["x"])), "Cannot write an entry"),
        (ManifestEntry(EntryStatus.ADDED, data_file(partition={})), "has the fields"),
        (ManifestEntry(EntryStatus.ADDED, data_file(partition=PARTITION | {"more": 1})), "has the fields"),
        (ManifestEntry(EntryStatus.ADDED, data_file(partition=NULLS | {"dt": 1.5})), "dt as date"),
        (ManifestEntry(EntryStatus.ADDED, data_file(partition=NULLS | {"dt": 2**31})), "dt as date"),
        (ManifestEntry(EntryStatus.ADDED, data_file(partition=NULLS | {"d": Decimal("1.005")})), "d as decimal"),
        (ManifestEntry(EntryStatus.ADDED, data_file(partition=NULLS | {"d": Decimal("1e9")})), "d as decimal"),
        (ManifestEntry(EntryStatus.ADDED, data_file(partition=NULLS | {"u": str(UUID)})), "u as uuid"),
        (ManifestEntry(EntryStatus.ADDED, data_file(partition=NULLS | {"s": 1})), "s as string"),
    ],
)
def test_a_refused_entry_leaves_the_manifest_unchanged(entry: ManifestEntry, why: str) -> None:
    schema, spec = golden_layout(2)
    writer = ManifestWriter(2, schema, spec, 77)
    writer.add(ManifestEntry(EntryStatus.ADDED, small_file()))
    with pytest.raises(InvalidInput, match=why):
        writer.add(entry)
    data, line = writer.finish(WHERE)
    assert line.files_count == 1
    assert len(list(decode_manifest(data, "x", line))) == 1


def test_void_fields_may_be_left_out() -> None:
    partition = {name: value for name, value in PARTITION.items() if name != "i_null"}
    data, line = write(2, [ManifestEntry(EntryStatus.ADDED, data_file(partition=partition))])
    (found,) = decode_manifest(data, "x", line)
    assert found.data_file.partition == PARTITION


def layout(kind: str, transform: str = "identity") -> tuple[Schema, PartitionSpec]:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "c", "required": False, "type": kind}]})
    field = {"name": "p", "transform": transform, "source-id": 1, "field-id": 1000}
    return schema, PartitionSpec.parse({"spec-id": 0, "fields": [field]})


def test_delete_files_are_refused_in_v1() -> None:
    with pytest.raises(InvalidInput, match="v1 table"):
        ManifestWriter(1, *layout("int"), 77, ManifestContent.DELETES)


def test_later_versions_and_unknown_transforms_are_refused() -> None:
    with pytest.raises(UnsupportedFormat):
        ManifestWriter(4, *layout("int"), 77)
    with pytest.raises(InvalidInput, match=r"unknown transform zorder\[3\]"):
        ManifestWriter(2, *layout("int", "zorder[3]"), 77)


def test_fixed_partition_values_that_java_cannot_read_are_refused() -> None:
    writer = ManifestWriter(2, *layout("fixed[3]"), 77)
    with pytest.raises(InvalidInput, match="Java cannot read"):
        writer.add(ManifestEntry(EntryStatus.ADDED, DataFile("file:/x", "ORC", 1, 1, partition={"p": b"abc"})))
    writer.add(ManifestEntry(EntryStatus.ADDED, DataFile("file:/x", "ORC", 1, 1, partition={"p": None})))
    data, line = writer.finish(WHERE)
    assert [each.data_file.partition for each in decode_manifest(data, "x", line)] == [{"p": None}]


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": st.integers(-(2**31), 2**31 - 1),
    "time": st.integers(0, 86_399_999_999),
    "timestamp": st.integers(-(2**63), 2**63 - 1),
    "timestamptz_ns": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(),
    "uuid": st.uuids(),
    "binary": st.binary(),
    "decimal(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: values.from_unscaled(number, 10)),
}


@pytest.mark.parametrize("kind", VALUES)
def test_any_partition_value_survives(kind: str) -> None:
    schema, spec = layout(kind)

    @settings(max_examples=30)
    @given(st.lists(st.none() | VALUES[kind], min_size=1, max_size=4))
    def survives(partition: list[Any]) -> None:
        writer = ManifestWriter(3, schema, spec, 77)
        for value in partition:
            writer.add(ManifestEntry(EntryStatus.ADDED, DataFile("file:/x", "ORC", 1, 1, partition={"p": value})))
        data, line = writer.finish(WHERE)
        found = [each.data_file.partition["p"] for each in decode_manifest(data, "x", line)]
        assert repr(found) == repr(partition)
        seen = [value for value in partition if value is not None and value == value]
        assert line.partitions is not None
        summary = line.partitions[0]
        assert summary.contains_null == (None in partition)
        assert summary.contains_nan == any(value != value for value in partition)
        of = parse_type(kind)
        for bound, pick in ((summary.lower_bound, min), (summary.upper_bound, max)):
            found_bound = None if bound is None else values.from_bytes(of, bound)
            assert found_bound == (pick(seen) if seen else None)

    survives()


UUIDS = st.uuids() | st.integers(0, 3).map(lambda number: uuid.UUID(int=number << 126 | number << 62))


@given(st.lists(st.tuples(st.none() | UUIDS, st.none() | UUIDS), max_size=6))
def test_entries_of_one_kind_have_the_same_bounds_in_both_orders_of_uuids(drawn: list[tuple[Any, Any]]) -> None:
    kinds = EntryKinds(StructType(tuple(NestedField(at, f"p{at}", parse_type("uuid")) for at in (0, 1))))
    by_kind: dict[Any, list[tuple[Any, Any]]] = {}
    for pair in drawn:
        partition = {"p0": pair[0], "p1": pair[1], "n": 7}
        by_kind.setdefault(kinds.of(DataFile("file:/x", "ORC", 1, 1, partition=partition)), []).append(pair)
    for pairs in by_kind.values():
        for column in zip(*pairs, strict=True):
            seen = [value for value in column if value is not None]
            assert not seen or min(seen) == min(seen, key=uuid_order.signed)
            assert not seen or max(seen) == max(seen, key=uuid_order.signed)


def test_kinds_are_few() -> None:
    plain = EntryKinds(StructType((NestedField(1000, "p", parse_type("int")),)))
    file = DataFile("file:/x", "ORC", 1, 1, partition={"p": 5})
    assert plain.of(file) == (ManifestContent.DATA, ())
    assert plain.of(replace(file, content=FileContent.EQUALITY_DELETES)) == (ManifestContent.DELETES, ())
    by_key = EntryKinds(StructType((NestedField(1000, "p", parse_type("uuid")),)))
    ours = [uuid.uuid4() for _ in range(100)]
    assert len({by_key.of(replace(file, partition={"p": each})) for each in (*ours, None)}) <= 2


def test_negative_zero_comes_before_zero() -> None:
    schema, spec = layout("double")
    for order in ((0.0, -0.0), (-0.0, 0.0)):
        writer = ManifestWriter(2, schema, spec, 77)
        for value in order:
            writer.add(ManifestEntry(EntryStatus.ADDED, DataFile("file:/x", "ORC", 1, 1, partition={"p": value})))
        _, line = writer.finish(WHERE)
        assert line.partitions is not None
        bounds = (line.partitions[0].lower_bound, line.partitions[0].upper_bound)
        assert bounds == (bytes(7) + b"\x80", bytes(8))


def test_a_manifest_of_nan_has_no_bounds() -> None:
    schema, spec = layout("float")
    writer = ManifestWriter(2, schema, spec, 77)
    writer.add(ManifestEntry(EntryStatus.ADDED, DataFile("file:/x", "ORC", 1, 1, partition={"p": math.nan})))
    assert writer.finish(WHERE)[1].partitions == (FieldSummary(False, True, None, None),)


def test_a_summary_without_a_partition_type_counts_only() -> None:
    summary = ManifestSummary(None)
    for each in golden_entries(2):
        summary.add(each)
    line = summary.manifest_file(WHERE, 9, 2, 77)
    assert (line.files_count, line.added_rows_count, line.partitions, line.min_sequence_number) == (3, 100, None, 3)


def test_bounds_cover_deleted_files_too() -> None:
    struct = StructType((NestedField(1000, "p", parse_type("int")),))
    summary = ManifestSummary(struct)
    summary.add(ManifestEntry(EntryStatus.DELETED, DataFile("file:/x", "ORC", 1, 1, partition={"p": 3}), 1, 1, 1))
    assert summary.manifest_file(WHERE, 9, 0, 7).partitions == (
        FieldSummary(False, False, b"\x03\0\0\0", b"\x03\0\0\0"),
    )
    assert summary.min_sequence_number == UNASSIGNED


def test_the_size_grows() -> None:
    schema, spec = layout("int")
    writer = ManifestWriter(2, schema, spec, 77)
    before = writer.size
    writer.add(ManifestEntry(EntryStatus.ADDED, DataFile("file:/x", "ORC", 1, 1, partition={"p": 3})))
    assert writer.size > before
