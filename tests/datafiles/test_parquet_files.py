"""DataFile records from Parquet footers."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import (
    UnsupportedPyArrowTypeException,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema as PyIcebergSchema
from pyiceberg.table import StaticTable

from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.config import Settings
from iceberg_hms.datafiles.column_bounds import is_floating
from iceberg_hms.datafiles.described_file import needed_name_mapping
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.errors import CorruptFile, InvalidInput, MissingFile, StorageError, UnsupportedFormat
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import values
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.manifests import ManifestStore
from tests.catalog.parquet import open_input, table_for, with_ids, write

EVERY_TYPE = pa.schema(
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("small_decimal", pa.decimal128(9, 2)),
        ("middle_decimal", pa.decimal128(18, 0)),
        ("large_decimal", pa.decimal128(38, 10)),
        ("date", pa.date32()),
        ("time", pa.time64("us")),
        ("timestamp", pa.timestamp("us")),
        ("timestamptz", pa.timestamp("us", tz="UTC")),
        ("string", pa.string()),
        ("uuid", pa.uuid()),
        ("fixed", pa.binary(4)),
        ("binary", pa.binary()),
        ("nested", pa.struct([("a", pa.int64()), ("deep", pa.struct([("b", pa.string())]))])),
        ("list", pa.list_(pa.int32())),
        ("structs", pa.list_(pa.struct([("c", pa.string())]))),
        ("map", pa.map_(pa.string(), pa.float64())),
    ]
)

ONE_ROW: dict[str, Any] = {
    "boolean": True,
    "int": -5,
    "long": 2**40,
    "float": 1.5,
    "double": -2.25,
    "small_decimal": Decimal("-14.20"),
    "middle_decimal": Decimal(10**17),
    "large_decimal": Decimal("12345678901234567890.0000000001"),
    "date": date(1969, 12, 31),
    "time": time(23, 59, 59, 999999),
    "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC).replace(tzinfo=None),
    "timestamptz": datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
    "string": "naïve ☕",
    "uuid": uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes,
    "fixed": b"\xff\x00\x01\x02",
    "binary": b"\x00\xff",
    "nested": {"a": 7, "deep": {"b": "x"}},
    "list": [1, None, 3],
    "structs": [{"c": "p"}, None],
    "map": [("k", 1.0), ("l", None)],
}
NO_ROW: dict[str, Any] = dict.fromkeys(EVERY_TYPE.names)
SMALL_ROW: dict[str, Any] = {
    **ONE_ROW,
    "boolean": False,
    "int": -6,
    "large_decimal": Decimal("-1.0000000000"),
    "string": "",
    "uuid": uuid.UUID("f79c3e09-677c-4bbd-a479-000000000000").bytes,
    "binary": b"",
    "double": math.nan,
    "nested": {"a": None, "deep": None},
}


def data_file_from_parquet(location: str, metadata: TableMetadata, open_input: Callable[[str], Any]) -> DataFile:
    return describe(location, TableOfFiles(metadata), open_input).data_file


def pyicebergs(location: str, metadata: TableMetadata) -> dict[str, Any]:
    """What PyIceberg says of the same file, without counts of what is inside of lists and maps, as in Java."""
    schema = PyIcebergSchema.model_validate(metadata.schema.raw)
    found = data_file_statistics_from_parquet_metadata(
        pq.read_metadata(location),
        compute_statistics_plan(schema, dict(metadata.properties)),
        parquet_path_to_id_mapping(schema),
    ).to_serialized_dict()
    repeated = {
        field_id
        for name in ("list.element", "structs.element.c", "map.key", "map.value")
        if (field := metadata.schema.find(name)) is not None
        for field_id in (field.id,)
    }
    for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        found[name] = {key: value for key, value in found[name].items() if key not in repeated}
    return found


def top_level(found: Mapping[int, bytes] | None, metadata: TableMetadata) -> dict[int, bytes]:
    """PyIceberg has no bounds of what is inside of structs; Java has."""
    return {key: value for key, value in (found or {}).items() if metadata.schema.parent_of(key) is None}


def assert_as_pyiceberg(data_file: DataFile, metadata: TableMetadata) -> None:
    peer = pyicebergs(data_file.file_path, metadata)
    assert data_file.record_count == peer["record_count"]
    assert list(data_file.split_offsets or []) == peer["split_offsets"]
    for name in ("column_sizes", "value_counts", "null_value_counts"):
        assert getattr(data_file, name) == peer[name], name
    assert top_level(data_file.lower_bounds, metadata) == peer["lower_bounds"]
    upper = top_level(data_file.upper_bounds, metadata)
    floats = {each.id for each in metadata.schema.fields if is_floating(each.type)}
    # PyIceberg takes the bounds of pyarrow's footers, which leave NaN out, for those of all values.
    assert upper.keys() == peer["upper_bounds"].keys() - floats
    assert all(is_upper_bound_of(found, peer["upper_bounds"][key]) for key, found in upper.items())


def is_upper_bound_of(ours: bytes, theirs: bytes) -> bool:
    """Java, and so we, end a bound that was cut with the character that was raised; PyIceberg leaves the highest ones
    that follow it."""
    highest = (b"\xff", "\U0010ffff".encode())
    return theirs.startswith(ours) and any(not theirs[len(ours) :].replace(each, b"") for each in highest)


def bounds(data_file: DataFile, metadata: TableMetadata, column: str) -> tuple[Any, Any]:
    field = metadata.schema.find(column)
    assert field is not None
    pair: list[Mapping[int, bytes]] = [data_file.lower_bounds or {}, data_file.upper_bounds or {}]
    lower, upper = (values.from_bytes(field.type, each[field.id]) if field.id in each else None for each in pair)
    return lower, upper


@pytest.mark.parametrize("ids", [True, False], ids=["by field id", "by name"])
@pytest.mark.parametrize("group", [1, 100], ids=["many row groups", "one row group"])
@pytest.mark.parametrize("integers", [True, False], ids=["decimals as integers", "decimals as bytes"])
def test_counts_and_bounds_equal_pyicebergs_for_every_type(
    tmp_path: Path, ids: bool, group: int, integers: bool
) -> None:
    metadata = table_for(EVERY_TYPE)
    arrow = with_ids(EVERY_TYPE, metadata) if ids else EVERY_TYPE
    rows = pa.Table.from_pylist([ONE_ROW, NO_ROW, SMALL_ROW], schema=arrow)
    options = {"store_decimal_as_integer": integers, "store_schema": False}
    location = write(tmp_path / "a b.parquet", rows, row_group_size=group, **options)
    data_file = data_file_from_parquet(location, metadata, open_input)
    if group == 1:
        # The group whose only value is NaN has no bounds. PyIceberg takes those of the other groups, we take none.
        double = metadata.schema.find("double")
        assert double is not None
        peer = pyicebergs(location, metadata)
        assert double.id not in (data_file.lower_bounds or {})
        del peer["lower_bounds"][double.id], peer["upper_bounds"][double.id]
        single = metadata.schema.find("float")
        assert single is not None
        del peer["upper_bounds"][single.id]
        assert top_level(data_file.lower_bounds, metadata) == peer["lower_bounds"]
        assert top_level(data_file.upper_bounds, metadata) == peer["upper_bounds"]
    else:
        assert_as_pyiceberg(data_file, metadata)
    assert bounds(data_file, metadata, "string") == ("", "naïve ☕")
    assert bounds(data_file, metadata, "large_decimal") == (SMALL_ROW["large_decimal"], ONE_ROW["large_decimal"])
    assert bounds(data_file, metadata, "nested.deep.b") == ("x", "x")
    assert bounds(data_file, metadata, "list.element") == (None, None)
    assert data_file.file_size_in_bytes == Path(location).stat().st_size
    assert data_file.file_path == location


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "text": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
                "data": st.none() | st.binary(max_size=40),
                "number": st.none() | st.integers(-(2**63), 2**63 - 1),
                "double": st.none() | st.floats(allow_nan=False),
                "decimal": st.none() | st.decimals(-(10**20), 10**20, places=3),
            }
        ),
        min_size=1,
        max_size=12,
    ),
    group=st.integers(1, 5),
)
def test_bounds_contain_every_value(tmp_path: Path, rows: list[dict[str, Any]], group: int) -> None:
    arrow = pa.schema(
        [
            ("text", pa.string()),
            ("data", pa.binary()),
            ("number", pa.int64()),
            ("double", pa.float64()),
            ("decimal", pa.decimal128(24, 3)),
        ]
    )
    metadata = table_for(arrow)
    location = write(tmp_path / "any.parquet", pa.Table.from_pylist(rows, schema=arrow), row_group_size=group)
    data_file = data_file_from_parquet(location, metadata, open_input)
    assert_as_pyiceberg(data_file, metadata)
    for column in arrow.names:
        there = [row[column] for row in rows if row[column] is not None]
        lower, upper = bounds(data_file, metadata, column)
        assert all(lower is not None and lower <= value for value in there)
        assert all(upper is None or value <= upper for value in there)


def test_nan_is_not_in_bounds(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([("x", pa.float64())]))
    location = write(tmp_path / "a.parquet", pa.table({"x": [math.nan, 1.0, -1.0]}))
    data_file = data_file_from_parquet(location, metadata, open_input)
    assert bounds(data_file, metadata, "x") == (-1.0, None)
    assert data_file.value_counts == {1: 3}
    assert data_file.null_value_counts == {1: 0}
    assert data_file.nan_value_counts == {}


def test_a_column_of_nulls_has_counts_and_no_bounds(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([("x", pa.int64())]))
    location = write(tmp_path / "a.parquet", pa.table({"x": pa.array([None, None], pa.int64())}))
    data_file = data_file_from_parquet(location, metadata, open_input)
    assert (data_file.null_value_counts, data_file.lower_bounds) == ({1: 2}, {})


def test_a_file_without_statistics_has_sizes_and_value_counts_alone(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([("x", pa.int64())]))
    location = write(tmp_path / "a.parquet", pa.table({"x": [1, 2]}), write_statistics=False)
    data_file = data_file_from_parquet(location, metadata, open_input)
    assert data_file.value_counts == {1: 2}
    assert (data_file.null_value_counts, data_file.lower_bounds, data_file.upper_bounds) == ({}, {}, {})


@pytest.mark.parametrize(
    ("footer", "is_other_calendar"),
    [
        ({"org.apache.spark.legacyDateTime": "", "org.apache.spark.version": "3.5.0"}, True),
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"writer.date.proleptic": "false"}, True),
        ({"writer.date.proleptic": "true"}, False),
        ({"org.apache.spark.version": "3.5.0"}, False),
        ({}, False),
    ],
)
def test_days_that_the_writer_counted_in_another_calendar_are_found(
    tmp_path: Path, footer: dict[str, str], is_other_calendar: bool
) -> None:
    kinds = {"day": pa.date32(), "at": pa.timestamp("us"), "id": pa.int64()}
    metadata = table_for(pa.schema(list(kinds.items())))
    for first, expected in {-141_428: ("day", "at") if is_other_calendar else (), -141_427: ()}.items():
        columns = {
            "day": pa.array([first, 5], pa.int32()).cast(pa.date32()),
            "at": pa.array([first * 86_400_000_000, None], pa.int64()).cast(pa.timestamp("us")),
            "id": pa.array([-(1 << 62), 1]),
        }
        path = write(tmp_path / f"{first}.parquet", pa.table(columns).replace_schema_metadata(footer))
        assert describe(path, TableOfFiles(metadata), open_input).shifted == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", (None, None, None)),
        ("counts", (2, None, None)),
        ("truncate(2)", (2, b"ab", b"zz")),
        ("full", (2, b"abc", b"zyx")),
        (None, (2, b"abc", b"zyx")),
    ],
)
def test_the_tables_metrics_mode_decides_what_is_kept(
    tmp_path: Path, mode: str | None, expected: tuple[Any, ...]
) -> None:
    properties = {} if mode is None else {"write.metadata.metrics.default": mode}
    metadata = table_for(pa.schema([("x", pa.string())]), properties=properties)
    location = write(tmp_path / "a.parquet", pa.table({"x": ["abc", "zyx"]}))
    data_file = data_file_from_parquet(location, metadata, open_input)
    found = [(each or {}).get(1) for each in (data_file.value_counts, data_file.lower_bounds, data_file.upper_bounds)]
    assert tuple(found) == expected
    assert (data_file.column_sizes == {}) == (mode == "none")


def test_columns_are_found_by_field_id_whatever_their_name(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([("new_name", pa.int64()), ("other", pa.int64())]))
    arrow = pa.schema(
        [
            pa.field("other", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("new_name", pa.int64(), metadata={"PARQUET:field_id": "2"}),
            pa.field("dropped", pa.int64(), metadata={"PARQUET:field_id": "77"}),
            pa.field("no_id", pa.int64()),
        ]
    )
    location = write(tmp_path / "a.parquet", pa.table([[1], [2], [3], [4]], schema=arrow))
    data_file = data_file_from_parquet(location, metadata, open_input)
    assert bounds(data_file, metadata, "new_name") == (1, 1)
    assert bounds(data_file, metadata, "other") == (2, 2)
    assert set(data_file.value_counts or {}) == {1, 2}


def test_columns_are_found_by_the_tables_name_mapping(tmp_path: Path) -> None:
    mapping = [
        {"field-id": 1, "names": ["id", "old_id"]},
        {"field-id": 2, "names": ["p"], "fields": [{"field-id": 3, "names": ["was_x"]}]},
    ]
    metadata = table_for(
        pa.schema([("id", pa.int64()), ("p", pa.struct([("x", pa.int64())]))]),
        properties={"schema.name-mapping.default": orjson.dumps(mapping).decode()},
    )
    rows = pa.table({"p": [{"was_x": 5}], "old_id": [9]})
    data_file = data_file_from_parquet(write(tmp_path / "a.parquet", rows), metadata, open_input)
    assert bounds(data_file, metadata, "id") == (9, 9)
    assert bounds(data_file, metadata, "p.x") == (5, 5)


def test_partition_values_come_from_the_footer(tmp_path: Path) -> None:
    metadata = table_for(
        pa.schema([("t", pa.timestamp("us")), ("level", pa.string())]), ["day(t)", "level", "void(level) as gone"]
    )
    rows = pa.table({"t": pa.array([1714532400000000, 1714604400000000], pa.timestamp("us")), "level": ["warn"] * 2})
    data_file = data_file_from_parquet(write(tmp_path / "a.parquet", rows), metadata, open_input)
    assert data_file.partition == {"t_day": (date(2024, 5, 1) - date(1970, 1, 1)).days, "level": "warn", "gone": None}


def test_a_required_column_must_be_there_and_have_no_nulls(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())]))
    with pytest.raises(InvalidInput, match="required columns: id"):
        data_file_from_parquet(write(tmp_path / "a.parquet", pa.table({"x": [1]})), metadata, open_input)
    with pytest.raises(InvalidInput, match="1 nulls in column id"):
        data_file_from_parquet(write(tmp_path / "b.parquet", pa.table({"id": [1, None]})), metadata, open_input)
    with pytest.raises(InvalidInput, match="2 nulls in column id"):
        data_file_from_parquet(
            write(tmp_path / "n.parquet", pa.table({"id": pa.nulls(2, pa.int64())})), metadata, open_input
        )
    data_file_from_parquet(write(tmp_path / "c.parquet", pa.table({"id": [1]})), metadata, open_input)


def test_a_required_column_may_be_a_folder(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([pa.field("month", pa.int32(), nullable=False), ("x", pa.int64())]), ["month"])
    location = write(tmp_path / "month=5" / "a.parquet", pa.table({"x": [1]}))
    assert data_file_from_parquet(location, metadata, open_input).partition == {"month": 5}


@pytest.mark.parametrize("cut", [0, 3, 11, 12, 40, -1, -5, -9])
def test_a_truncated_file_is_damaged(tmp_path: Path, cut: int) -> None:
    metadata = table_for(pa.schema([("x", pa.int64())]))
    location = write(tmp_path / "a.parquet", pa.table({"x": [1]}))
    whole = Path(location).read_bytes()
    Path(location).write_bytes(whole[:cut])
    with pytest.raises(CorruptFile, match=r"a\.parquet is damaged"):
        data_file_from_parquet(location, metadata, open_input)


def test_a_damaged_footer_is_damaged(tmp_path: Path) -> None:
    metadata = table_for(pa.schema([("x", pa.int64())]))
    location = write(tmp_path / "a.parquet", pa.table({"x": [1]}))
    whole = Path(location).read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    for data in (
        whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        whole[:-8] + b"\x05\x00\x00\x00PAR1",
        whole[: -8 - length] + b"\xff" * 40 + whole[-8 - length + 40 :],
    ):
        Path(location).write_bytes(data)
        with pytest.raises(CorruptFile):
            data_file_from_parquet(location, metadata, open_input)


def test_an_encrypted_footer_is_refused(tmp_path: Path) -> None:
    location = tmp_path / "a.parquet"
    location.write_bytes(b"PARE" + bytes(40) + b"PARE")
    with pytest.raises(UnsupportedFormat, match="encrypted"):
        data_file_from_parquet(str(location), table_for(pa.schema([("x", pa.int64())])), open_input)


def test_errors_of_storage_pass_through() -> None:
    metadata = table_for(pa.schema([("x", pa.int64())]))

    def missing(location: str) -> Any:
        raise MissingFile(location)

    def broken(location: str) -> Any:
        raise OSError("disk on fire")

    with pytest.raises(MissingFile):
        data_file_from_parquet("file:/nowhere", metadata, missing)
    with pytest.raises(StorageError, match="disk on fire"):
        data_file_from_parquet("file:/nowhere", metadata, broken)


def as_pyiceberg_sees(folder: Path, metadata: TableMetadata, location: str) -> StaticTable:
    """A table with one file, loaded by PyIceberg."""
    files = RoutedFiles(fsync=False)
    manifests = ManifestStore(files, Settings.load({}, environ={}), ThreadRuntime()).open()
    metadata = TableMetadata.parse(metadata.replace(location=f"file:{folder}/table").raw)
    described = describe(location, TableOfFiles(metadata), files.open)
    change = Append(
        NewSnapshot(snapshot_id=100, table_uuid=metadata.uuid, now_ms=lambda: 5_000),
        NewDataFiles(
            [described.data_file],
            snapshot_id=100,
            schema_id=metadata.current_schema_id,
            specs={metadata.default_spec_id: None},
            name_mapping=needed_name_mapping(metadata, [described]),
        ),
    )
    metadata = apply(metadata, change.stage(metadata, manifests).updates, now_ms=5_000)
    manifests.flush()
    at = f"file:{folder}/table/metadata/v1.metadata.json"
    files.write(at, metadata.to_bytes())
    return StaticTable.from_metadata(at)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.large_list(pa.int64()),
        pa.list_(pa.int64(), 2),
        pa.list_view(pa.int64()),
        pa.list_view(pa.struct([("x", pa.int64()), ("y", pa.int64())])),
        pa.large_list_view(pa.map_(pa.string(), pa.int64())),
        pa.struct([("x", pa.int64()), ("y", pa.list_view(pa.map_(pa.string(), pa.int64())))]),
    ],
    ids=str,
)
def test_pyiceberg_plans_a_file_by_the_columns_behind_a_nested_one(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"a": [1, 2], "extra": pa.array([None, None], kind), "b": [1_000, 2_000], "c": ["p", "q"]})
    metadata = table_for(pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())]))
    peer = as_pyiceberg_sees(tmp_path, metadata, "file:" + write(tmp_path / "1.parquet", table))
    planned = {
        text: len(list(peer.scan(row_filter=text).plan_files()))
        for text in ("b >= 1000", "b > 2000", "b < 1000", "a <= 2", "a > 2", "c >= 'p'", "c > 'q'")
    }
    assert planned == {
        "b >= 1000": 1,
        "b > 2000": 0,
        "b < 1000": 0,
        "a <= 2": 1,
        "a > 2": 0,
        "c >= 'p'": 1,
        "c > 'q'": 0,
    }


def numbered(name: str, kind: pa.DataType, field_id: int | None) -> pa.Field:
    return pa.field(name, kind, metadata=None if field_id is None else {"PARQUET:field_id": str(field_id)})


@pytest.mark.parametrize(
    "columns",
    [
        [numbered("a", pa.int64(), 1), numbered("e", pa.string(), 9)],
        [numbered("a", pa.int64(), 1), numbered("e", pa.string(), None)],
        [numbered("a", pa.int64(), 1), numbered("e", pa.duration("us"), 2)],
        [numbered("a", pa.int64(), 1), numbered("e", pa.list_view(numbered("element", pa.int64(), 3)), 2)],
        [numbered("a", pa.int64(), 1), numbered("e", pa.list_(numbered("element", pa.int64(), 3)), 2)],
        [numbered("a", pa.int64(), 1), numbered("e", pa.dictionary(pa.int32(), pa.string()), 2)],
        [numbered("a", pa.int64(), 1), numbered("e", pa.json_(), 2)],
        [numbered("a", pa.int64(), 1), numbered("e", pa.uuid(), 2)],
        [numbered("a", pa.int64(), None)],
        [numbered("a", pa.int64(), None), numbered("e", pa.int64(), None)],
    ],
    ids=str,
)
def test_pyiceberg_reads_a_table_if_no_file_has_extra_columns(tmp_path: Path, columns: list[pa.Field]) -> None:
    """The table has a (1), and had columns with the ids 2 and 3. A column of an id that it never gave does not stop
    PyIceberg, but would be lost without a word."""
    made = table_for(pa.schema([("a", pa.int64())]))
    metadata = TableMetadata.parse({**made.raw, "last-column-id": 3})
    location = "file:" + write(tmp_path / "1.parquet", pa.Table.from_pylist([{"a": 1}], schema=pa.schema(columns)))
    extra = describe(location, TableOfFiles(metadata), RoutedFiles(fsync=False).open).extra_columns
    try:
        as_pyiceberg_sees(tmp_path, metadata, location).scan().to_arrow()
        readable = True
    except (ValueError, UnsupportedPyArrowTypeException):
        readable = False
    lost = any(int((each.metadata or {}).get(b"PARQUET:field_id", 0)) > 3 for each in columns)
    assert (extra == ()) == (readable and not lost)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("terms", [None, ["day(t)", "truncate(1, level)"]], ids=["unpartitioned", "partitioned"])
def test_pyiceberg_reads_what_was_appended_and_prunes_by_what_we_wrote(
    tmp_path: Path, version: int, terms: list[str] | None
) -> None:
    arrow = pa.schema([("t", pa.timestamp("us")), ("level", pa.string()), ("n", pa.struct([("x", pa.int64())]))])
    metadata = table_for(arrow, terms, version=version).replace(location=f"file:{tmp_path}/a table")
    metadata = TableMetadata.parse(metadata.raw)
    files = RoutedFiles(fsync=False)
    store = ManifestStore(files, Settings.load({}, environ={}), ThreadRuntime())
    days = [
        [{"t": day * 86_400_000_000 + hour, "level": f"w{hour}", "n": {"x": day}} for hour in range(5)]
        for day in range(4)
    ]
    for number, rows in enumerate(days):
        ids = number % 2 == 0
        table = pa.Table.from_pylist(rows, schema=with_ids(arrow, metadata) if ids else arrow)
        location = "file:" + write(tmp_path / "a table" / "data" / f"{number}.parquet", table)
        described = describe(location, TableOfFiles(metadata), files.open)
        change = Append(
            NewSnapshot(snapshot_id=100 + number, table_uuid=metadata.uuid, now_ms=lambda: 5_000),
            NewDataFiles(
                [described.data_file],
                snapshot_id=100 + number,
                schema_id=metadata.current_schema_id,
                specs={metadata.default_spec_id: None},
                name_mapping=needed_name_mapping(metadata, [described]),
            ),
        )
        manifests = store.open()
        change.check(metadata)
        metadata = apply(metadata, change.stage(metadata, manifests).updates, now_ms=5_000)
        manifests.flush()
    at = f"file:{tmp_path}/a table/metadata/v1.metadata.json"
    files.write(at, metadata.to_bytes())
    peer = StaticTable.from_metadata(at)
    assert sorted(peer.scan().to_arrow().column("level").to_pylist()) == sorted(
        str(row["level"]) for rows in days for row in rows
    )
    one_day = peer.scan(row_filter="t >= '1970-01-03T00:00:00' and t < '1970-01-04T00:00:00'")
    assert [Path(task.file.file_path).name for task in one_day.plan_files()] == ["2.parquet"]
    assert one_day.to_arrow().column("n").to_pylist() == [{"x": 2}] * 5
    assert peer.metadata.current_snapshot().summary["total-records"] == "20"  # type: ignore[union-attr, index]


def test_files_of_one_table_are_described_as_each_alone(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())])), ("t", pa.timestamp("us"))])
    metadata = table_for(schema).replace(**{"last-column-id": 50})
    plain = pa.table({"id": [1, 2], "s": [{"a": 5}, None], "t": [1_000, None]}).cast(schema)
    with_nanos = plain.cast(schema.set(2, pa.field("t", pa.timestamp("ns"))))
    dropped = {"metadata": {"PARQUET:field_id": "40"}}
    marked = plain.cast(with_ids(schema, metadata))
    tables: list[tuple[pa.Table, dict[str, Any]]] = [
        (plain, {}),
        (plain.select(["t", "s", "id"]), {}),
        (plain.rename_columns(["id", "z", "t"]), {}),
        (marked, {}),
        (plain.set_column(1, "s", pa.array([{"b": 5}, None])), {}),
        (plain.set_column(0, "id", pa.array([1, 2], pa.int32())), {}),
        # Equal for pyarrow, and not for Parquet; then equal for Parquet, and not for pyarrow.
        (with_nanos, {"use_deprecated_int96_timestamps": True}),
        (with_nanos, {}),
        (marked.append_column(pa.field("x", pa.int64(), **dropped), pa.array([1, 2])), {}),
        (marked.append_column(pa.field("x", pa.duration("s"), **dropped), pa.array([1, 2], pa.duration("s"))), {}),
        (plain.slice(0, 1), {}),
    ]
    paths = [write(tmp_path / f"{at}.parquet", each, **options) for at, (each, options) in enumerate(tables)]

    def outcome(path: str, table: TableOfFiles) -> Any:
        try:
            return describe(path, table, open_input)
        except InvalidInput as error:
            return str(error)

    alone = [outcome(each, TableOfFiles(metadata)) for each in paths]
    assert len({isinstance(each, str) for each in alone}) == 2
    for order in (slice(None), slice(None, None, -1)):
        together = TableOfFiles(metadata)
        assert [outcome(each, together) for each in paths[order]] == alone[order]
