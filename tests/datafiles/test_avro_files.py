"""DataFile records from Avro files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.datafiles.avro_files import found_in_avro
from iceberg_hms.datafiles.described_file import DescribedFile
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.errors import CorruptFile, InvalidInput, MissingFile, StorageError
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from tests.catalog.parquet import table_for, table_of
from tests.datafiles.orc_messages import varint, zigzag
from tests.file_matrix import rule

TABLE = table_for(
    pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("n", pa.struct([("a", pa.int32())])),
            ("l", pa.list_(pa.float64())),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("k", pa.map_(pa.int64(), pa.int64())),
        ]
    )
)


def ids(path: str) -> int:
    found = TABLE.schema.find(path)
    assert found is not None
    return found.id


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


def schema(*, with_ids: bool) -> dict[str, Any]:
    def field(name: str, kind: Any, path: str = "") -> dict[str, Any]:
        return {"name": name, "type": kind, **({"field-id": ids(path or name)} if with_ids else {})}

    def extra(**more: str) -> dict[str, int]:
        return {key.replace("_", "-"): ids(path) for key, path in more.items()} if with_ids else {}

    entry = {
        "type": "record",
        "name": "k6_k7",
        "fields": [field("key", "long", "k.key"), field("value", optional("long"), "k.value")],
    }
    nested = {"type": "record", "name": "r3", "fields": [field("a", optional("int"), "n.a")]}
    return {
        "type": "record",
        "name": "table",
        "fields": [
            field("id", "long"),
            field("name", optional("string")),
            field("n", optional(nested)),
            field("l", optional({"type": "array", "items": optional("double"), **extra(element_id="l.element")})),
            field("m", {"type": "map", "values": "long", **extra(key_id="m.key", value_id="m.value")}),
            field("k", optional({"type": "array", "logicalType": "map", "items": entry})),
        ],
    }


ROW = {"id": 1, "name": "a", "n": {"a": 5}, "l": [1.5], "m": {"x": 1}, "k": [{"key": 1, "value": None}]}


def written(of: Any, rows: list[Any], **options: Any) -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, of, rows, **options)
    return target.getvalue()


def described(data: bytes, metadata: TableMetadata = TABLE, location: str = "file:/a.avro") -> DescribedFile:
    found = describe(location, TableOfFiles(metadata), lambda _: pa.BufferReader(data))
    assert found is not None
    return found


@pytest.mark.parametrize("with_ids", [True, False], ids=["by field id", "by name"])
@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_rows_are_counted_and_columns_found(with_ids: bool, codec: str) -> None:
    data = written(schema(with_ids=with_ids), [ROW] * 5_000, codec=codec, sync_interval=1_000)
    found = described(data)
    assert (found.has_field_ids, found.extra_columns) == (with_ids, ())
    file = found.data_file
    assert (file.file_format, file.record_count, file.file_size_in_bytes) == ("AVRO", 5_000, len(data))
    metrics = [file.column_sizes, file.value_counts, file.null_value_counts, file.lower_bounds, file.upper_bounds]
    assert metrics == [None] * 5
    assert file.split_offsets is None


class Counted(io.BytesIO):
    """A file that counts what is read of it."""

    bytes_read = 0

    def size(self) -> int:
        return len(self.getbuffer())

    def read(self, count: int | None = -1, /) -> bytes:
        data = super().read(count)
        self.bytes_read += len(data)
        return data


def test_large_blocks_are_skipped() -> None:
    of = {"type": "record", "name": "t", "fields": [{"name": "name", "type": "string"}]}
    data = written(of, [{"name": "x" * (4 << 20)}] * 5, sync_interval=1)
    file = Counted(data)
    assert describe("file:/a.avro", TableOfFiles(TABLE), lambda _: file).data_file.record_count == 5
    assert file.bytes_read < len(data) * 0.6


@pytest.mark.parametrize("cut", [0, 3, 20, -1, -17, -20])
def test_a_truncated_file_is_damaged(cut: int) -> None:
    data = written(schema(with_ids=True), [ROW] * 3)
    with pytest.raises(CorruptFile, match=r"a\.avro is damaged"):
        described(data[:cut])


@given(st.data())
def test_flipped_bytes_are_read_damaged_or_refused(data: st.DataObject) -> None:
    whole = bytearray(written(schema(with_ids=True), [ROW] * 3))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        described(bytes(whole))
    except (CorruptFile, InvalidInput):
        return


def with_header(text: bytes, blocks: bytes = b"") -> bytes:
    entry = varint(zigzag(11)) + b"avro.schema" + varint(zigzag(len(text))) + text
    return b"Obj\x01" + varint(zigzag(1)) + entry + varint(0) + bytes(16) + blocks


def block(count: int, length: int) -> bytes:
    return varint(zigzag(count)) + varint(zigzag(length))


ONE_ROW = block(1, 0) + bytes(16)
ID_COLUMN = orjson.dumps({"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"PAR1" + bytes(40), "not an Avro file"),
        (with_header(b"{"), "schema cannot be read"),
        (with_header(b'"long"'), "rows are no records"),
        (with_header(b'{"type": "record", "name": "t"}'), "schema cannot be read"),
        (
            with_header(b'{"type": "record", "name": "t", "fields": [{"name": "id", "type": 5}]}'),
            "schema cannot be read",
        ),
        (
            with_header(
                b'{"type": "record", "name": "t", "fields": [{"name": "id", "type": {"type": "fixed", "name": "f"}}]}'
            ),
            "schema cannot be read",
        ),
        (
            with_header(b'{"type": "record", "name": "t", "fields": [{"name": "id", "field-id": -1, "type": "long"}]}'),
            "field-id -1",
        ),
        (
            with_header(b'{"type": "record", "name": "t", "fields": [{"name": "n", "type": ["null", "t"]}]}'),
            "contains itself",
        ),
        (
            with_header(
                b'{"type": "record", "name": "t", "fields": [{"name": "l", "type": '
                + b'["null",' * 90
                + b'"int"'
                + b"]" * 90
                + b"}]}"
            ),
            "nested deeper|cannot be read",
        ),
        (with_header(ID_COLUMN, block(1, 1 << 40)), "ends inside its block 1"),
        (with_header(ID_COLUMN, block(-1, 0) + bytes(16)), "negative size"),
        (with_header(ID_COLUMN, block(1, -1) + bytes(16)), "negative size"),
        (with_header(ID_COLUMN, block(1, 0) + bytes(15) + b"x"), "sync marker"),
        (with_header(ID_COLUMN, (block(1 << 61, 0) + bytes(16)) * 4), "9223372036854775808 rows"),
        (with_header(ID_COLUMN, b"\xff" * 20), "too long"),
        (b"Obj\x01" + varint(zigzag(5_000)), "more than 1000 entries"),
        (b"Obj\x01" + varint(zigzag(1)) + varint(zigzag(1 << 50)), "ends inside its header"),
    ],
)
def test_what_makes_no_sense_is_damage(data: bytes, why: str) -> None:
    with pytest.raises(CorruptFile, match=why):
        found_in_avro("file:/a.avro", TableOfFiles(TABLE), lambda _: pa.BufferReader(data))


def test_a_schema_that_doubles_at_each_level_is_refused() -> None:
    of: Any = "long"
    for level in range(30):
        name = f"r{level}"
        of = {"type": "record", "name": name, "fields": [{"name": "a", "type": of}, {"name": "b", "type": of}]}
        if level:
            of["fields"][1]["type"] = f"r{level - 1}"
    root = {"type": "record", "name": "t", "fields": [{"name": "n", "type": of}]}
    with pytest.raises(CorruptFile, match="more than 100000 fields"):
        described(with_header(orjson.dumps(root)))


def test_a_header_of_gigabytes_is_not_read() -> None:
    class Huge(Counted):
        def size(self) -> int:
            return 1 << 40

    file = Huge(b"Obj\x01" + varint(zigzag(1)) + varint(zigzag(1 << 32)) + bytes(100))
    with pytest.raises(CorruptFile, match="more than 16777216 bytes"):
        found_in_avro("file:/a.avro", TableOfFiles(TABLE), lambda _: file)


def test_identity_partitions_come_from_the_folders() -> None:
    metadata = table_for(pa.schema([("id", pa.int64()), ("day", pa.string())]), ["day"])
    data = with_header(ID_COLUMN, ONE_ROW)
    assert described(data, metadata, "file:/t/day=a/1.avro").data_file.partition == {"day": "a"}
    with pytest.raises(InvalidInput, match="partition field day is not known"):
        described(data, metadata)


def test_extra_columns_are_named() -> None:
    metadata = table_for(pa.schema([("id", pa.int64())]))
    of = {"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": "int"}]}
    assert described(written(of, [{"id": 1, "x": 2}]), metadata).extra_columns == ("x",)


def test_a_missing_required_column_is_named() -> None:
    metadata = table_for(pa.schema([("id", pa.int64()), pa.field("must", pa.int64(), nullable=False)]))
    with pytest.raises(InvalidInput, match="required columns: must"):
        described(with_header(ID_COLUMN, ONE_ROW), metadata)


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"f{size}", "size": size, **more}


def decimal(precision: int, **more: Any) -> dict[str, Any]:
    return {"logicalType": "decimal", "precision": precision, **more}


#: One type of the table for each kind, and some more.
KINDS = (
    *("boolean", "int", "long", "float", "double", "decimal(9, 0)", "decimal(9, 2)", "decimal(20, 2)", "date", "time"),
    *(
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "fixed[4]",
        "fixed[16]",
        "binary",
    ),
)
DECIMALS = ("decimal(9, 2)", "decimal(20, 2)")
#: Avro types, and the table's types as which Java's generic readers and Spark read them as they were written: in full,
#: and under filters.
TYPES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "null": ("null", KINDS),
    "boolean": ("boolean", ("boolean",)),
    "int": ("int", ("int", "long")),
    "long": ("long", ("long",)),
    "float": ("float", ("float", "double")),
    "double": ("double", ("double",)),
    "bytes": ("bytes", ("binary",)),
    "string": ("string", ("string",)),
    "string of Java": ({"type": "string", "avro.java.string": "String"}, ("string",)),
    "varchar of Hive": (logical("string", "varchar", maxLength=5), ("string",)),
    "char of Hive": (logical("string", "char", maxLength=5), ("string",)),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A"]}, ()),
    "fixed 4": (fixed(4), ("fixed[4]",)),
    "fixed 16": (fixed(16), ("fixed[16]",)),
    "uuid": (fixed(16, logicalType="uuid"), ("uuid",)),
    "uuid as string": (logical("string", "uuid"), ()),
    "uuid as bytes": (logical("bytes", "uuid"), ()),
    "duration": (fixed(12, logicalType="duration"), ()),
    "date": (logical("int", "date"), ("date",)),
    "date as long": (logical("long", "date"), ()),
    "time-millis": (logical("int", "time-millis"), ()),
    "time-micros": (logical("long", "time-micros"), ("time",)),
    "decimal as bytes": ({"type": "bytes", **decimal(9, scale=2)}, DECIMALS),
    "narrower decimal": ({"type": "bytes", **decimal(5, scale=2)}, DECIMALS),
    "wider decimal": ({"type": "bytes", **decimal(20, scale=2)}, ("decimal(20, 2)",)),
    "decimal as fixed": (fixed(9, **decimal(9, scale=2)), DECIMALS),
    "decimal without scale": ({"type": "bytes", **decimal(9)}, ("decimal(9, 0)",)),
    "decimal of 40 digits": ({"type": "bytes", **decimal(40, scale=2)}, ()),
    "decimal as string": ({"type": "string", **decimal(9, scale=2)}, ()),
    "big-decimal": (logical("bytes", "big-decimal"), ()),
    **{
        f"{kind} {adjusted}": (logical("long", kind, **adjusted), (of if zoned else of.replace("tz", ""),))
        for kind, of in (
            ("timestamp-millis", "timestamptz"),
            ("timestamp-micros", "timestamptz"),
            ("timestamp-nanos", "timestamptz_ns"),
        )
        for adjusted, zoned in (
            ({}, False),
            ({"adjust-to-utc": True}, True),
            ({"adjust-to-utc": "true"}, True),
            ({"adjust-to-utc": False}, False),
            ({"adjust-to-utc": "false"}, False),
        )
    },
    **{f"local {unit}": (logical("long", f"local-timestamp-{unit}"), ()) for unit in ("millis", "micros", "nanos")},
}
#: Those on which readers fail also where the table does not have the column.
NOT_SKIPPED = {
    name
    for name, (_, kinds) in TYPES.items()
    if name.startswith(("time-micros", "timestamp-nanos")) or (not kinds and name != "decimal of 40 digits")
}


def record_of(kind: Any, name: str = "id") -> dict[str, Any]:
    return {"type": "record", "name": "t", "fields": [{"name": name, "type": kind}, {"name": "k", "type": "int"}]}


def outcome(of: Any, metadata: TableMetadata) -> InvalidInput | None:
    try:
        described(with_header(orjson.dumps(of), ONE_ROW), metadata)
    except InvalidInput as error:
        return error
    return None


@pytest.mark.parametrize("name", TYPES)
def test_only_what_every_reader_reads_as_it_was_written_is_taken(name: str) -> None:
    stored, kinds = TYPES[name]
    for wanted in KINDS:
        metadata = table_of({"id": wanted, "k": "int"})
        for kind in (stored, [stored, "null"], ["null", stored]):
            if stored == "null" and isinstance(kind, list):
                continue
            error = outcome(record_of(kind), metadata)
            assert (error is None) == (wanted in kinds), (wanted, kind, error)
            assert error is None or "column id is " in error.message
            assert error is None or error.next_step


@pytest.mark.parametrize("name", TYPES)
def test_a_column_that_the_table_lacks_must_be_one_that_readers_skip(name: str) -> None:
    error = outcome(record_of(TYPES[name][0], "more"), table_of({"k": "int"}))
    assert (error is not None) == (name in NOT_SKIPPED)
    assert error is None or "column more is " in error.message


@pytest.mark.parametrize(
    "union", [["long"], ["null"], [], ["long", "string"], ["null", "long", "string"], ["null", "long", "int"]], ids=str
)
@pytest.mark.parametrize("name", ["id", "more"])
def test_a_union_is_one_of_null_and_one_type(union: list[str], name: str) -> None:
    error = outcome(record_of(union, name), table_of({"id": "long", "k": "int"}))
    assert error is not None
    assert f"column {name} is a union" in error.message


@pytest.mark.parametrize("fields", [("value", "key"), ("key",), ("key", "value", "more"), ("k", "v")])
def test_the_entries_of_a_map_are_keys_and_values_in_this_order(fields: tuple[str, ...]) -> None:
    entry = {"type": "record", "name": "e", "fields": [{"name": each, "type": "long"} for each in fields]}
    error = outcome(record_of({"type": "array", "logicalType": "map", "items": entry}, "k"), TABLE)
    assert error is not None
    assert "column k is an array in the file" in error.message


def test_errors_of_storage_pass_through(tmp_path: Path) -> None:
    def missing(location: str) -> Any:
        raise MissingFile(location)

    def broken(location: str) -> Any:
        raise OSError("disk on fire")

    with pytest.raises(MissingFile):
        describe("file:/nowhere", TableOfFiles(TABLE), missing)
    with pytest.raises(StorageError, match="disk on fire"):
        describe("file:/nowhere", TableOfFiles(TABLE), broken)


def test_a_column_is_taken_if_every_reader_reads_it_and_only_then(tmp_path: Path) -> None:
    """As integration/file_matrix measured it."""
    assert not rule.differences("Avro", tmp_path)
