"""Manifests as columns: value by value what `decode_manifest` says, by either reader, and refused where it refuses."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iceberg_hms.errors import CorruptFile, FileBeyondLimit, ResourceExhausted
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds, Limit
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry, decode_manifest, open_manifest
from iceberg_hms.format.manifests.manifest_list import ManifestFile, decode_list
from iceberg_hms.format.manifests.manifest_writer import ManifestWriter
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import IdentityTransform
from iceberg_hms.format.schema.types import LONG, NestedField
from iceberg_hms.planning import arrow_avro, decode, layout
from iceberg_hms.planning.decode import decode_columns
from iceberg_hms.planning.entries import entries_of
from iceberg_hms.planning.inherit import inherited
from tests.format.samples import golden
from tests.planning.sample_manifests import (
    SampleManifest,
    comparable,
    manifest_bytes,
    manifests,
    simple_record,
)

READERS = ("datafusion", "ours")
#: Each example is decoded by the reader of the fixture, which is the same for all of them.
examples = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which reader decodes manifests of any size."""
    name: str = request.param
    monkeypatch.setattr(decode, "SMALL_ENTRIES", 1)
    if name == "ours":
        monkeypatch.setattr(arrow_avro, "read", lambda *_: None)
    else:
        importlib.import_module("datafusion")
    return name


@contextmanager
def nothing_left_to_ours(reader: str) -> Iterator[None]:
    """DataFusion must read what is given to it."""
    read = arrow_avro.read

    def by_datafusion(*arguments: Any) -> Any:
        found = read(*arguments)
        assert found is not None, "left to our own reader"
        return found

    with pytest.MonkeyPatch.context() as patch:
        if reader == "datafusion":
            patch.setattr(arrow_avro, "read", by_datafusion)
        yield


def said(columns: pa.RecordBatch, data: bytes, line: ManifestFile) -> list[Any]:
    stored = open_manifest(data, "m.avro", line)
    ids = {name: field_id for field_id, name in stored.names.items()}
    # As `decode_manifest`: the spec in the header names a field, else the schema.
    names = {
        ids[each.name] if each.field_id is None else each.field_id: stored.names.get(each.field_id or 0, each.name)
        for each in stored.partition
    }
    fields = [NestedField(field_id, name, LONG) for field_id, name in names.items()]
    found = entries_of(inherited(columns, line), line.partition_spec_id, fields)
    return [comparable(each) for each in found]


def check(sample: SampleManifest) -> None:
    columns = decode_columns(sample.data, "m.avro", sample.line)
    assert said(columns, sample.data, sample.line) == [comparable(each) for each in sample.entries()]
    check_layout(columns)


def test_a_partition_column_of_nulls_is_there(reader: str) -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "key", "required": False, "type": "uuid"}]})
    writer = ManifestWriter(2, schema, PartitionSpec.of([PartitionField(1, 1000, IdentityTransform(), "key")]), 1)
    writer.add(ManifestEntry(EntryStatus.ADDED, DataFile("file:/a.parquet", "PARQUET", 1, 1, {"key": None})))
    data, line = writer.finish("m.avro")
    assert decode_columns(data, "m.avro", line).column(layout.partition(1000)).to_pylist() == [None]


def check_layout(columns: pa.RecordBatch) -> None:
    types = dict(zip(columns.schema.names, columns.schema.types, strict=True))
    for name, kind in types.items():
        begin = name.partition(".")[0]
        if name in layout.TYPES:
            assert kind == layout.TYPES[name], name
        elif begin in layout.STATISTICS:
            assert kind == (pa.binary() if begin.endswith("bound") else pa.int64()), name
        else:
            assert begin == "partition"
    assert set(layout.REQUIRED) <= types.keys()


@examples
@given(sample=manifests())
def test_columns_say_what_the_entries_do(reader: str, sample: SampleManifest) -> None:
    with nothing_left_to_ours(reader):
        check(sample)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_javas_manifests_are_read(reader: str, version: int) -> None:
    for name, line in zip(("data", "deletes"), decode_list(golden(f"v{version}-list.avro"), "list"), strict=False):
        with nothing_left_to_ours(reader):
            check(SampleManifest(golden(f"v{version}-{name}.avro"), line))


#: What fastavro says of a union's branch that its schema lacks. DataFusion takes it for the one that is not null: as
#: for the bytes of a number, nothing tells that it was another one.
_NO_SUCH_BRANCH = "IndexError('list index out of range')"
DAMAGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=3)


@examples
@given(sample=manifests(), damages=DAMAGES, cut=st.none() | st.floats(0, 1))
def test_damaged_manifests_are_refused_or_read_as_decode_manifest_does(
    reader: str, sample: SampleManifest, damages: list[tuple[float, int]], cut: float | None
) -> None:
    """Flipped bytes anywhere, in the blocks most of all; and files that were cut off."""
    data = bytearray(sample.data)
    for place, byte in damages:
        data[int(place * len(data))] = byte
    damaged = bytes(data) if cut is None else bytes(data)[: int(cut * len(data))]
    try:
        expected = [comparable(each) for each in decode_manifest(damaged, "m.avro", sample.line) if each.is_live]
    except CorruptFile as error:
        if _NO_SUCH_BRANCH not in str(error):
            with pytest.raises(CorruptFile):
                decode_columns(damaged, "m.avro", sample.line)
        return
    try:
        columns = decode_columns(damaged, "m.avro", sample.line)
        found = said(columns, damaged, sample.line)
    except CorruptFile:
        # Columns have types: a number of 64 bits is no 32 bits.
        return
    assert found == expected


def sized(**changes: int) -> FileBounds:
    """The default bounds with others."""
    fields = {name: getattr(DEFAULT_BOUNDS, name) for name in DEFAULT_BOUNDS.__dataclass_fields__}
    return FileBounds(**{name: replace(each, value=changes.get(name, each.value)) for name, each in fields.items()})


LINE = ManifestFile("m.avro", 1, 3, 77, sequence_number=5)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"inflate_ratio": 2}, "inflates to more than 2 times"),
        ({"manifest_bytes": 10_000}, "more than 10000 bytes"),
        ({"record_bytes": 5_000}, "an entry has more than 5000 bytes"),
        ({"entries": 1_999}, "it has 2000 records"),
    ],
)
def test_files_beyond_a_limit_are_refused(reader: str, bounds: dict[str, int], said: str) -> None:
    data = manifest_bytes(2, [], [simple_record("file:/" + "a" * 10_000)] * 2_000)
    assert len(decode_columns(data, "m.avro", LINE)) == 2_000
    for decoded in (decode_columns, lambda *arguments: list(decode_manifest(*arguments))):
        with pytest.raises(FileBeyondLimit, match=said):
            decoded(data, "m.avro", LINE, sized(**bounds))


def test_memory_is_asked_for_as_it_becomes_known(reader: str) -> None:
    data = manifest_bytes(2, [], [simple_record("file:/" + "a" * 1_000)] * 5_000)
    asked: list[int] = []
    columns = decode_columns(data, "m.avro", LINE, admit=asked.append)
    *decoding, kept = asked
    assert decoding == sorted(decoding)
    assert len(decoding) > 3
    assert decoding[-1] > kept >= columns.nbytes

    def refuse(size: int) -> None:
        if size > 1_000_000:
            raise ResourceExhausted(f"no {size} bytes")

    with pytest.raises(ResourceExhausted):
        decode_columns(data, "m.avro", LINE, admit=refuse)


def test_few_bytes_of_entries_are_objects_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects take fifty times the bytes: a block of the largest size would take gigabytes."""
    monkeypatch.setattr(arrow_avro, "read", lambda *_: None)
    parts: list[int] = []
    chunk = decode.chunk_of

    def noted(records: Any, *arguments: Any) -> Any:
        parts.append(len(records))
        return chunk(records, *arguments)

    monkeypatch.setattr(decode, "chunk_of", noted)
    large = [simple_record("file:/" + "a" * 300_000)] * 10
    data = manifest_bytes(2, [], [*large, *[simple_record("file:/a")] * 2_000])
    assert len(decode_columns(data, "m.avro", LINE)) == 2_010
    assert max(parts[: parts.index(1_024)]) == 4
    assert sum(parts) == 2_010


def test_fewer_entries_than_the_list_counted_are_refused(reader: str) -> None:
    data = manifest_bytes(2, [], [simple_record("file:/a")] * 9)
    line = replace(LINE, added_files_count=10, existing_files_count=0, deleted_files_count=0)
    with pytest.raises(CorruptFile, match="9 entries"):
        decode_columns(data, "m.avro", line)


@pytest.mark.parametrize("count", [3, 7])
def test_blocks_with_more_or_less_than_their_entries_are_refused(reader: str, count: int) -> None:
    """Five entries, of which the frame says otherwise."""
    data = manifest_bytes(2, [], [simple_record("file:/a")] * 5, codec="null")
    [(at, _)] = [(at, byte) for at, byte in enumerate(data) if byte == 10 and data[at - 16 : at] == data[-16:]]
    damaged = data[:at] + bytes([2 * count]) + data[at + 1 :]
    with pytest.raises(CorruptFile, match="block 1 cannot be decoded"):
        decode_columns(damaged, "m.avro", LINE)


def test_only_wanted_statistics_are_columns(reader: str) -> None:
    record = simple_record("file:/a")
    record["data_file"]["value_counts"] = [{"key": key, "value": key} for key in (1, 2, 3)]
    data = manifest_bytes(2, [], [record] * 4)

    def names(stats: frozenset[int] | None) -> set[str]:
        return {each for each in decode_columns(data, "m.avro", LINE, stats=stats).schema.names if "count." in each}

    assert names(None) == {"value_count.1", "value_count.2", "value_count.3"}
    assert names(frozenset({3, 9})) == {"value_count.3"}
    assert names(frozenset()) == set()


def test_partition_values_have_the_types_of_the_layout(reader: str) -> None:
    stored = {
        "decimal(9, 2)": (b"\xff\xff\xfa\x74", Decimal("-14.20"), pa.decimal128(38, 2)),
        "uuid": (bytes(range(16)), bytes(range(16)), pa.binary(16)),
        "fixed[3]": (b"abc", b"abc", pa.binary()),
        "date": (-1, -1, pa.int32()),
        "timestamptz_ns": (2**62, 2**62, pa.int64()),
        "float": (0.5, 0.5, pa.float32()),
    }
    record = simple_record("file:/a")
    for at, (value, _, _) in enumerate(stored.values(), 1):
        record["data_file"]["partition"][f"p{1_100 - at}"] = value
    columns = decode_columns(manifest_bytes(2, list(stored), [record] * 2), "m.avro", LINE)
    for at, (_, value, kind) in enumerate(stored.values(), 1):
        column = columns.column(layout.partition(1_100 - at))
        assert (column.to_pylist(), column.type) == ([value] * 2, kind)


def without_partition_ids(schema: Any) -> Any:
    for field in schema["fields"][-1]["type"]["fields"]:
        if field["name"] == "partition":
            for each in field["type"]["fields"]:
                del each["field-id"]
    return schema


def test_partition_fields_without_ids_are_those_of_the_spec_in_the_header(reader: str) -> None:
    record = simple_record("file:/a")
    record["data_file"]["partition"] = {"part_x201": 7, "part_x202": "x"}
    data = manifest_bytes(2, ["int", "string"], [record] * 3, spell=without_partition_ids)
    with nothing_left_to_ours(reader):
        check(SampleManifest(data, LINE))
    columns = decode_columns(data, "m.avro", LINE)
    assert columns.column(layout.partition(1_099)).to_pylist() == [7, 7, 7]


def test_a_partition_field_that_the_header_does_not_know_is_refused(reader: str) -> None:
    """Its values would count as null, and files as outside of what a filter asks for."""

    def renamed(schema: Any) -> Any:
        text = orjson.dumps(without_partition_ids(schema)).decode().replace('"part 1"', '"gone"')
        return orjson.loads(text)

    record = simple_record("file:/a")
    record["data_file"]["partition"] = {"part_x201": 7}
    data = manifest_bytes(2, ["int"], [record] * 3, spell=renamed)
    with pytest.raises(CorruptFile, match="partition field gone has no id"):
        decode_columns(data, "m.avro", LINE)


@pytest.mark.parametrize(("name", "value"), [("status", 3), ("content", 3), ("status", -1)])
def test_entries_of_an_unknown_kind_are_refused(reader: str, name: str, value: int) -> None:
    record = simple_record("file:/a")
    (record if name == "status" else record["data_file"])[name] = value
    data = manifest_bytes(2, [], [simple_record("file:/b"), record])
    with pytest.raises(CorruptFile, match=f"{value} is no {name}"):
        decode_columns(data, "m.avro", LINE)
    with pytest.raises(CorruptFile):
        list(decode_manifest(data, "m.avro", LINE))


def test_what_is_no_manifest_is_refused(reader: str) -> None:
    with pytest.raises(CorruptFile, match="not an Avro file"):
        decode_columns(b"Parquet", "m.avro", LINE)
    with pytest.raises(CorruptFile, match="no fields with ids"):
        decode_columns(golden("v2-list.avro"), "m.avro", LINE)


@pytest.mark.parametrize("column", ["file_path", "record_count"])
def test_entries_without_what_all_have_are_refused(reader: str, column: str) -> None:
    """Another writer may declare it optional."""

    def optional(schema: Any) -> Any:
        for field in schema["fields"][-1]["type"]["fields"]:
            if field["name"] == column:
                field["type"] = ["null", field["type"]]
        return schema

    record = simple_record("file:/a")
    good = manifest_bytes(2, [], [record] * 3, spell=optional)
    assert len(decode_columns(good, "m.avro", LINE)) == 3
    record["data_file"][column] = None
    with pytest.raises(CorruptFile, match=f"an entry has no {column}"):
        decode_columns(manifest_bytes(2, [], [record] * 3, spell=optional), "m.avro", LINE)


def test_small_manifests_are_left_to_our_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """DataFusion takes longer to begin than our reader takes for them."""
    asked: list[int] = []
    monkeypatch.setattr(arrow_avro, "read", lambda stored, *_: asked.append(stored.container.record_count))
    for count in (decode.SMALL_ENTRIES - 1, decode.SMALL_ENTRIES):
        assert len(decode_columns(manifest_bytes(2, [], [simple_record("file:/a")] * count), "m.avro", LINE)) == count
    assert asked == [decode.SMALL_ENTRIES]


def test_limits_are_named(reader: str) -> None:
    data = manifest_bytes(2, [], [simple_record("file:/" + "a" * 10_000)] * 2_000)
    with pytest.raises(FileBeyondLimit) as raised:
        decode_columns(data, "m.avro", LINE, sized(inflate_ratio=2))
    assert Limit("storage.max-inflate-ratio", 2).key in str(raised.value.next_step)
