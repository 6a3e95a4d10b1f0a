"""DataFile records from ORC footers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.datafiles.orc_footer import KINDS
from iceberg_hms.errors import CorruptFile, InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from tests.catalog.parquet import open_input, table_for, table_of, with_ids
from tests.datafiles.orc_messages import file_of, footer_of, message, one_column, packed, zigzag
from tests.file_matrix import rule

TYPES = pa.schema(
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(38, 10)),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us")),
        ("timestamptz", pa.timestamp("us", tz="UTC")),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("nested", pa.struct([("a", pa.int64()), ("deep", pa.struct([("b", pa.string())]))])),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.float64())),
    ]
)
ROW: dict[str, Any] = {
    "boolean": True,
    "int": -5,
    "long": 2**40,
    "float": 1.5,
    "double": -2.25,
    "decimal": Decimal("12345678901234567890.0000000001"),
    "date": date(1969, 12, 31),
    "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC).replace(tzinfo=None),
    "timestamptz": datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
    "string": "naïve ☕ and longer than sixteen",
    "binary": b"\x00\xff",
    "nested": {"a": 7, "deep": {"b": "x"}},
    "list": [1, None, 3],
    "map": [("k", 1.0), ("l", None)],
}
OTHER: dict[str, Any] = {**ROW, "boolean": False, "int": 9, "string": "", "nested": {"a": None, "deep": None}}


def write(path: Path, rows: pa.Table, **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(rows, path, **options)
    return str(path)


def with_orc_ids(arrow: pa.Schema, metadata: TableMetadata) -> pa.Schema:
    """The same schema with the field ids of the table's columns, as ORC has them."""

    def renamed(field: pa.Field) -> pa.Field:
        kind = field.type
        if pa.types.is_struct(kind):
            kind = pa.struct([renamed(child) for child in kind])
        elif pa.types.is_list(kind):
            kind = pa.list_(renamed(kind.value_field))
        elif pa.types.is_map(kind):
            kind = pa.map_(renamed(kind.key_field), renamed(kind.item_field))
        metadata = field.metadata or {}
        found = {b"iceberg.id": metadata[b"PARQUET:field_id"]} if metadata else {}
        return pa.field(field.name, kind, nullable=field.nullable, metadata=found)

    return pa.schema([renamed(field) for field in with_ids(arrow, metadata)])


def record(location: str, metadata: TableMetadata) -> DataFile:
    return describe(location, TableOfFiles(metadata), open_input).data_file


def by_name(found: Mapping[int, Any] | None, metadata: TableMetadata) -> dict[str, Any]:
    return {str(metadata.schema.name_of(key)): value for key, value in (found or {}).items()}


def bounds(data_file: DataFile, metadata: TableMetadata, column: str) -> tuple[Any, Any]:
    field = metadata.schema.find(column)
    assert field is not None
    pair: list[Mapping[int, bytes]] = [data_file.lower_bounds or {}, data_file.upper_bounds or {}]
    lower, upper = (values.from_bytes(field.type, each[field.id]) if field.id in each else None for each in pair)
    return lower, upper


def micros(value: datetime) -> int:
    return (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize("ids", [True, False], ids=["by field id", "by name"])
def test_counts_and_bounds_of_every_type(tmp_path: Path, ids: bool) -> None:
    metadata = table_for(TYPES)
    arrow = with_orc_ids(TYPES, metadata) if ids else TYPES
    rows = pa.Table.from_pylist([ROW, dict.fromkeys(TYPES.names), OTHER], schema=arrow)
    location = write(tmp_path / "a b.orc", rows)
    described = describe(location, TableOfFiles(metadata), open_input)
    found = described.data_file
    assert described.has_field_ids == ids
    assert described.extra_columns == ()
    assert (found.file_format, found.record_count, found.file_path) == ("ORC", 3, location)
    assert found.file_size_in_bytes == Path(location).stat().st_size
    assert list(found.split_offsets or []) == [3]
    outside = {*TYPES.names, "nested.a", "nested.deep", "nested.deep.b"}
    assert by_name(found.value_counts, metadata) == dict.fromkeys(outside, 3)
    nulls = {"nested.a": 2, "nested.deep": 2, "nested.deep.b": 2}
    assert by_name(found.null_value_counts, metadata) == {**dict.fromkeys(TYPES.names, 1), **nulls}
    expected = {
        "boolean": (False, True),
        "int": (-5, 9),
        "long": (2**40, 2**40),
        "float": (1.5, 1.5),
        "double": (-2.25, -2.25),
        "decimal": (ROW["decimal"], ROW["decimal"]),
        "date": (-1, -1),
        "timestamp": (-1, -1),
        "timestamptz": (micros(ROW["timestamptz"]), micros(ROW["timestamptz"])),
        "string": ("", "naïve ☕ and lonh"),
        "nested.a": (7, 7),
        "nested.deep.b": ("x", "x"),
    }
    for column in outside | {"list.element", "map.key", "map.value"}:
        assert bounds(found, metadata, column) == expected.get(column, (None, None)), column


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "text": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
                "number": st.none() | st.integers(-(2**63), 2**63 - 1),
                "double": st.none() | st.floats(allow_nan=False),
                "decimal": st.none() | st.decimals(-(10**20), 10**20, places=3),
                "date": st.none() | st.dates(date(1000, 1, 1), date(3000, 1, 1)),
                "time": st.none() | st.integers(-(10**16), 10**16),
            }
        ),
        min_size=1,
        max_size=12,
    )
)
def test_bounds_contain_every_value(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    arrow = pa.schema(
        [
            ("text", pa.string()),
            ("number", pa.int64()),
            ("double", pa.float64()),
            ("decimal", pa.decimal128(24, 3)),
            ("date", pa.date32()),
            ("time", pa.timestamp("us")),
        ]
    )
    metadata = table_for(arrow)
    found = record(write(tmp_path / "any.orc", pa.Table.from_pylist(rows, schema=arrow)), metadata)
    for column in arrow.names:
        there = [row[column] for row in rows if row[column] is not None]
        there = [(each - date(1970, 1, 1)).days if isinstance(each, date) else each for each in there]
        lower, upper = bounds(found, metadata, column)
        unsure = column == "date" and any(each < -141_427 for each in there)
        assert (lower is not None) == (bool(there) and not unsure)
        assert lower is None or all(lower <= value for value in there)
        assert upper is None or all(value <= upper for value in there)
        assert by_name(found.null_value_counts, metadata)[column] == len(rows) - len(there)


@pytest.mark.parametrize("nanos", [0, 1, 999, 1_000, 999_999, 1_000_001, -1, -999, -1_000, -1_001, -(10**9) - 1])
def test_bounds_of_timestamps_are_those_of_all_ways_to_round(tmp_path: Path, nanos: int) -> None:
    arrow = pa.schema([("t", pa.timestamp("ns"))])
    location = write(tmp_path / "a.orc", pa.table({"t": pa.array([nanos], pa.timestamp("ns"))}))
    metadata = table_for(pa.schema([("t", pa.timestamp("us"))]))
    lower, upper = bounds(record(location, metadata), metadata, "t")
    down, to_zero = nanos // 1_000, abs(nanos) // 1_000 * (1 if nanos >= 0 else -1)
    assert (lower, upper) == (down, to_zero)
    with pytest.raises(InvalidInput, match="column t is timestamp in the file and timestamp_ns in the table"):
        record(location, table_for(arrow, version=3))


def long_column(lower: int, upper: int, *, there: int = 10) -> bytes:
    return message((1, there), (2, message((1, zigzag(lower)), (2, zigzag(upper)))))


def decimals(lower: str, upper: str) -> bytes:
    return one_column(14, message((1, 10), (6, message((1, lower), (2, upper)))), precision=9, scale=2)


def described_bytes(tmp_path: Path, data: bytes, kind: Any, **options: Any) -> DataFile:
    path = tmp_path / "by hand.orc"
    path.write_bytes(data)
    return record(str(path), table_for(pa.schema([("x", kind)]), **options))


def pair_of(tmp_path: Path, data: bytes, kind: Any) -> tuple[Any, Any]:
    return bounds(described_bytes(tmp_path, data, kind), table_for(pa.schema([("x", kind)])), "x")


def test_the_column_size_is_that_on_disk(tmp_path: Path) -> None:
    data = one_column(4, message((1, 9), (2, message((1, 2), (2, 4))), (11, 77)))
    found = described_bytes(tmp_path, data, pa.int64())
    assert (found.column_sizes, found.value_counts, found.null_value_counts) == ({1: 77}, {1: 10}, {1: 1})


def test_dates_of_an_unknown_calendar_have_no_bounds_before_it_changed(tmp_path: Path) -> None:
    def column(day: int) -> bytes:
        return message((1, 10), (7, message((1, zigzag(day)), (2, zigzag(5)))))

    assert pair_of(tmp_path, one_column(15, column(-141_427)), pa.date32()) == (-141_427, 5)
    assert pair_of(tmp_path, one_column(15, column(-141_428)), pa.date32()) == (None, None)
    assert pair_of(tmp_path, one_column(15, column(-141_428), more=((11, 2),)), pa.date32()) == (-141_428, 5)


@pytest.mark.parametrize("unit", [1, 86_400_000])
def test_days_that_the_writer_counted_in_another_calendar_are_found(tmp_path: Path, unit: int) -> None:
    kind, of = (15, pa.date32()) if unit == 1 else (9, pa.timestamp("us"))

    def shifted(day: int, more: Any = ()) -> tuple[str, ...]:
        lower = (1, zigzag(day)) if unit == 1 else (3, zigzag(day * unit))
        column = message((1, 10), (7 if unit == 1 else 9, message(lower)))
        path = tmp_path / "by hand.orc"
        path.write_bytes(one_column(kind, column, more=more))
        return describe(str(path), TableOfFiles(table_for(pa.schema([("x", of)]))), open_input).shifted

    assert shifted(-141_427) == ()
    assert shifted(-141_428) == ("x",)
    assert shifted(-141_428, ((11, 2),)) == ()


def test_timestamps_of_an_unknown_zone_have_no_bounds(tmp_path: Path) -> None:
    local = message((1, 10), (9, message((1, zigzag(5)), (2, zigzag(6)))))
    assert pair_of(tmp_path, one_column(9, local), pa.timestamp("us")) == (None, None)
    utc = message((1, 10), (9, message((3, zigzag(5)), (4, zigzag(6)))))
    assert pair_of(tmp_path, one_column(9, utc), pa.timestamp("us")) == (5_000, 6_999)


def test_bounds_that_the_writer_shortened_are_none(tmp_path: Path) -> None:
    shortened = message((1, 10), (4, message((4, "a"), (5, "b"))))
    assert pair_of(tmp_path, one_column(7, shortened), pa.string()) == (None, None)
    half = message((1, 10), (4, message((1, "a"), (5, "b"))))
    assert pair_of(tmp_path, one_column(7, half), pa.string()) == (None, None)


NAN = float("nan")


@pytest.mark.parametrize("kind", [5, 6], ids=["float", "double"])
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # The smallest, the largest, and the sum.
        ((1.0, 3.0, 9.0), (1.0, 3.0)),
        ((1.0, 3.0, NAN), (1.0, None)),
        ((float("-inf"), float("inf"), NAN), (float("-inf"), None)),
        ((1.0, 3.0), (1.0, None)),
        ((NAN, NAN, NAN), (None, None)),
        ((0.0, -0.0, 0.0), (-0.0, 0.0)),
    ],
)
def test_floats_have_an_upper_bound_if_their_sum_tells_that_none_is_nan(
    tmp_path: Path, kind: int, found: tuple[float, ...], expected: tuple[float | None, ...]
) -> None:
    data = one_column(kind, message((1, 10), (3, message(*enumerate(found, 1)))))
    assert str(pair_of(tmp_path, data, pa.float64())) == str(expected)


@pytest.mark.parametrize("of", [pa.float32(), pa.float64()])
def test_nan_in_structs_too_takes_the_upper_bound_away(tmp_path: Path, of: pa.DataType) -> None:
    columns = pa.schema([("x", of), ("s", pa.struct([("y", of)]))])
    metadata = table_for(columns)
    for number, value in enumerate((2.0, NAN)):
        rows = [{"x": 1.0, "s": {"y": 1.0}}, {"x": value, "s": {"y": value}}]
        data_file = record(write(tmp_path / f"{number}.orc", pa.Table.from_pylist(rows, schema=columns)), metadata)
        assert by_name(data_file.nan_value_counts, metadata) == ({"x": 0, "s.y": 0} if value == value else {})
        for name in ("x", "s.y"):
            assert bounds(data_file, metadata, name) == (1.0, 2.0 if value == value else None)


@pytest.mark.parametrize(("trues", "expected"), [(0, (False, False)), (4, (False, True)), (10, (True, True))])
def test_booleans_are_bounded_by_how_many_are_true(tmp_path: Path, trues: int, expected: tuple[bool, bool]) -> None:
    data = one_column(0, message((1, 10), (5, message((1, packed(trues))))))
    assert pair_of(tmp_path, data, pa.bool_()) == expected


def test_a_file_without_statistics_has_its_rows_alone(tmp_path: Path) -> None:
    data = one_column(4, b"")
    found = described_bytes(tmp_path, data, pa.int64())
    assert (found.record_count, found.value_counts, found.lower_bounds) == (10, {}, {})


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (one_column(4, long_column(1, 2, there=11)), pa.int64()),
        (one_column(3, long_column(1, 2**40)), pa.int32()),
        (decimals("x", "y"), pa.decimal128(9, 2)),
        (
            one_column(
                14, message((1, 10), (6, message((1, "1E999999999"), (2, "2E999999999")))), precision=9, scale=2
            ),
            pa.decimal128(9, 2),
        ),
        (one_column(7, message((1, 10), (4, message((1, b"\xff"), (2, b"\xff"))))), pa.string()),
        (one_column(4, message((1, b"abc"))), pa.int64()),
        (one_column(6, message((1, 10), (3, message((1, b"short"), (2, b"x"))))), pa.float64()),
        (one_column(5, message((1, 10), (3, message((1, -1e300), (2, 1e300))))), pa.float32()),
    ],
    ids=["more values than rows", "int", "decimal", "long decimal", "text", "count", "double", "float"],
)
def test_statistics_without_sense_are_damage(tmp_path: Path, data: bytes, kind: Any) -> None:
    with pytest.raises(CorruptFile, match="statistics in its footer cannot be read"):
        described_bytes(tmp_path, data, kind)


def test_decimals_are_compared_as_numbers_not_as_texts(tmp_path: Path) -> None:
    expected = (Decimal("2.00"), Decimal("1000.00"))
    assert pair_of(tmp_path, decimals("2", "1000"), pa.decimal128(9, 2)) == expected
    assert pair_of(tmp_path, decimals("1000", "2"), pa.decimal128(9, 2)) == (None, None)


def test_swapped_bounds_are_none(tmp_path: Path) -> None:
    assert pair_of(tmp_path, one_column(4, long_column(2, 1)), pa.int64()) == (None, None)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", (None, None, None)),
        ("counts", (2, None, None)),
        ("truncate(2)", (2, b"ab", b"zz")),
        ("full", (2, b"abc", b"zyx")),
    ],
)
def test_the_tables_metrics_mode_decides_what_is_kept(tmp_path: Path, mode: str, expected: tuple[Any, ...]) -> None:
    metadata = table_for(pa.schema([("x", pa.string())]), properties={"write.metadata.metrics.default": mode})
    found = record(write(tmp_path / "a.orc", pa.table({"x": ["abc", "zyx"]})), metadata)
    assert (
        tuple((each or {}).get(1) for each in (found.value_counts, found.lower_bounds, found.upper_bounds)) == expected
    )


def test_columns_are_found_by_the_name_mapping(tmp_path: Path) -> None:
    mapping = [{"field-id": 1, "names": ["id", "old_id"]}]
    text = {"schema.name-mapping.default": orjson.dumps(mapping).decode()}
    metadata = table_for(pa.schema([("id", pa.int64())]), properties=text)
    assert bounds(record(write(tmp_path / "a.orc", pa.table({"old_id": [9]})), metadata), metadata, "id") == (9, 9)


def test_extra_columns_are_named(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([("id", pa.int64())]))
    location = write(tmp_path / "a.orc", pa.table({"id": [1], "more": ["x"]}))
    assert describe(location, TableOfFiles(metadata), open_input).extra_columns == ("more",)


def attribute(key: str, value: str) -> tuple[int, bytes]:
    return 7, message((1, f"iceberg.{key}"), (2, value))


def decimal(precision: int, scale: int) -> tuple[tuple[int, int], ...]:
    return (5, precision), (6, scale)


#: One type of the table for each kind, and some more.
WANTED = (
    *("boolean", "int", "long", "float", "double", "decimal(9, 2)", "decimal(20, 2)", "decimal(9, 3)", "date", "time"),
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
    "variant",
)
#: ORC types with their attributes, and the table's types as which Java's generic readers, Spark and PyIceberg read them
#: as they were written: in full, and under filters. Timestamps: in tables of version 2.
ORC_TYPES: dict[str, tuple[str, tuple[tuple[int, Any], ...], tuple[str, ...]]] = {
    "boolean": ("boolean", (), ("boolean",)),
    "byte": ("byte", (), ("int",)),
    "short": ("short", (), ("int",)),
    "int": ("int", (), ("int", "long")),
    "long": ("long", (), ("long",)),
    "long of Iceberg": ("long", (attribute("long-type", "LONG"),), ("long",)),
    "time of Iceberg": ("long", (attribute("long-type", "TIME"),), ()),
    "float": ("float", (), ("float", "double")),
    "double": ("double", (), ("double",)),
    "string": ("string", (), ("string",)),
    "char": ("char", ((4, 5),), ()),
    "varchar": ("varchar", ((4, 5),), ("string",)),
    "binary": ("binary", (), ("binary",)),
    "binary of Iceberg": ("binary", (attribute("binary-type", "BINARY"),), ("binary",)),
    "fixed of Iceberg": ("binary", (attribute("binary-type", "FIXED"), attribute("length", "16")), ()),
    "uuid of Iceberg": ("binary", (attribute("binary-type", "UUID"),), ()),
    "date": ("date", (), ("date",)),
    "decimal": ("decimal", decimal(9, 2), ("decimal(9, 2)", "decimal(20, 2)")),
    "wider decimal": ("decimal", decimal(20, 2), ("decimal(20, 2)",)),
    "decimal of Hive without digits": ("decimal", (), ()),
    "timestamp": ("timestamp", (), ("timestamp",)),
    "timestamp of Iceberg": ("timestamp", (attribute("timestamp-unit", "MICROS"),), ("timestamp",)),
    "timestamp_ns of Iceberg": ("timestamp", (attribute("timestamp-unit", "NANOS"),), ()),
    "timestamptz": ("timestamp_instant", (), ("timestamptz",)),
    "timestamptz_ns of Iceberg": ("timestamp_instant", (attribute("timestamp-unit", "NANOS"),), ()),
    "struct": ("struct", (), ()),
    "union": ("union", (), ()),
    "a type to come": ("type 30", (), ()),
}


def one_typed(kind: str, more: tuple[tuple[int, Any], ...]) -> bytes:
    """A file of ten rows with one column `x`."""
    number = KINDS.index(kind) if kind in KINDS else int(kind.removeprefix("type "))
    root = message((1, KINDS.index("struct")), (2, packed(1)), (3, "x"))
    return file_of(footer_of([root, message((1, number), *more)], [message((1, 10)), message((1, 10))]))


def refusal(data: bytes, metadata: TableMetadata) -> InvalidInput | None:
    try:
        describe("file:/a.orc", TableOfFiles(metadata), lambda _: pa.BufferReader(data))
    except InvalidInput as error:
        return error
    return None


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ORC_TYPES)
def test_only_what_every_reader_reads_as_it_was_written_is_taken(name: str, version: int) -> None:
    kind, more, taken = ORC_TYPES[name]
    data = one_typed(kind, more)
    for wanted in WANTED:
        if version == 2 and wanted in ("timestamp_ns", "timestamptz_ns", "variant"):
            continue
        metadata = table_of({"x": wanted}, version=version)
        expected = wanted in taken and not (version == 3 and "timestamp" in wanted)
        error = refusal(data, metadata)
        assert (error is None) == expected, (wanted, error)
        assert error is None or ("column x is " in error.message and error.next_step)


def test_a_required_column_must_be_there_and_have_no_nulls(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())]))
    with pytest.raises(InvalidInput, match="required columns: id"):
        record(write(tmp_path / "a.orc", pa.table({"x": [1]})), metadata)
    with pytest.raises(InvalidInput, match="1 nulls in column id"):
        record(write(tmp_path / "b.orc", pa.table({"id": [1, None]})), metadata)


def test_partition_values_come_from_the_footer(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([("t", pa.timestamp("us")), ("level", pa.string())]), ["day(t)", "level"])
    times = pa.array([1714532400000000, 1714604400000000], pa.timestamp("us"))
    location = write(tmp_path / "a.orc", pa.table({"t": times, "level": ["warn"] * 2}))
    assert record(location, metadata).partition == {
        "t_day": (date(2024, 5, 1) - date(1970, 1, 1)).days,
        "level": "warn",
    }
    two = write(tmp_path / "b.orc", pa.table({"t": times, "level": ["warn", "info"]}))
    with pytest.raises(InvalidInput, match="spans partitions"):
        record(two, metadata)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(b"ORC" + bytes(100))
    with pytest.raises(CorruptFile, match=r"a\.orc is damaged"):
        record(str(path), table_for(pa.schema([("x", pa.int64())])))


def test_a_column_is_taken_if_every_reader_reads_it_and_only_then(tmp_path: Path) -> None:
    """As integration/file_matrix measured it."""
    assert not rule.differences("ORC", tmp_path)
