"""The partition of a whole file."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from iceberg_hms.datafiles.column_bounds import ColumnStatistics
from iceberg_hms.datafiles.partition_values import has_text, partition_of, path_columns, value_of_text
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.types import BINARY, TIMESTAMPTZ, parse_type
from tests.catalog.parquet import table_for

DAY = 86_400_000_000
NO_FOLDER = "file:/data/a.parquet"


def between(lower: Any, upper: Any, *, nulls: int | None = 0, values: int = 5) -> ColumnStatistics:
    return ColumnStatistics(size=10, values=values, nulls=nulls, lower=lower, upper=upper, bounded=True)


ALL_NULL = ColumnStatistics(size=10, values=5, nulls=5, bounded=True)
NOT_KNOWN = ColumnStatistics(size=10, values=5, nulls=None)


def partition(
    term: str, arrow: pa.DataType, found: ColumnStatistics | None, location: str = NO_FOLDER, *, missing: bool = False
) -> Any:
    metadata = table_for(pa.schema([("c", arrow)]), [f"{term} as p"] if "(" in term else [term])
    there = frozenset() if missing else frozenset({1})
    (value,) = partition_of(location, metadata, {} if found is None else {1: found}, there).values()
    return value


@pytest.mark.parametrize(
    ("term", "arrow", "found", "expected"),
    [
        ("c", pa.string(), between("x", "x"), "x"),
        ("c", pa.int64(), between(7, 7), 7),
        ("c", pa.string(), ALL_NULL, None),
        ("day(c)", pa.timestamp("us"), between(DAY, 2 * DAY - 1), 1),
        ("day(c)", pa.timestamp("us"), between(-1, -1), -1),
        ("month(c)", pa.date32(), between(0, 30), 0),
        ("year(c)", pa.date32(), between(365, 700), 1),
        ("hour(c)", pa.timestamp("us", tz="UTC"), between(DAY, DAY + 1), 24),
        ("truncate(2, c)", pa.string(), between("abc", "abz"), "ab"),
        ("truncate(10, c)", pa.int64(), between(-9, -1), -10),
        ("bucket(16, c)", pa.int64(), between(34, 34), 3),
        ("bucket(16, c)", pa.int64(), ALL_NULL, None),
    ],
)
def test_bounds_prove_a_single_partition(term: str, arrow: pa.DataType, found: ColumnStatistics, expected: Any) -> None:
    assert partition(term, arrow, found) == expected


@pytest.mark.parametrize(
    ("term", "arrow", "found", "message"),
    [
        ("c", pa.string(), between("x", "y"), "spans partitions: c goes from x to y"),
        ("c", pa.string(), between("x", "x", nulls=2), "spans partitions: c goes from null to x"),
        ("day(c)", pa.timestamp("us"), between(DAY - 1, DAY), "spans partitions: p goes from 1970-01-01 to 1970-01-02"),
        ("truncate(2, c)", pa.string(), between("ab", "ac"), "spans partitions"),
        ("bucket(16, c)", pa.int64(), between(1, 2), "several values"),
        ("c", pa.string(), NOT_KNOWN, "prove nothing"),
        ("c", pa.string(), None, "prove nothing"),
        ("c", pa.float64(), between(1.0, 1.0), "prove nothing for double"),
    ],
)
def test_an_unproved_partition_is_refused(
    term: str, arrow: pa.DataType, found: ColumnStatistics | None, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        partition(term, arrow, found)
    assert NO_FOLDER in str(caught.value)
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("arrow", "folder", "expected"),
    [
        (pa.string(), "c=warn", "warn"),
        (pa.string(), "c=a%2Fb%3D%20c", "a/b= c"),
        (pa.string(), "c=", ""),
        (pa.string(), "c=__HIVE_DEFAULT_PARTITION__", None),
        (pa.int32(), "c=-5", -5),
        (pa.int64(), "c=5", 5),
        (pa.float64(), "c=1.5", 1.5),
        (pa.bool_(), "c=True", True),
        (pa.bool_(), "c=1", True),
        (pa.int32(), "c=%201", 1),
        (pa.date32(), "c=1970-01-02 00%3A00%3A00", 1),
        (pa.date32(), "c=1970-01-02", 1),
        (pa.date32(), "c=1970-1-2", 1),
        (pa.float32(), "c=0.1", 0.10000000149011612),
        (pa.timestamp("us"), "c=1970-01-01 00%3A00%3A01.5", 1_500_000),
        (pa.timestamp("us", tz="UTC"), "c=1970-01-01T01%3A00%3A00%2B01%3A00", 0),
        (pa.decimal128(9, 2), "c=1.5", Decimal("1.50")),
    ],
)
def test_hive_folders_name_the_partition_of_a_file_without_the_column(
    arrow: pa.DataType, folder: str, expected: Any
) -> None:
    value = partition("c", arrow, None, f"file:/data/{folder}/a.parquet", missing=True)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("arrow", "folder"),
    [
        (pa.int32(), "c=x"),
        (pa.int32(), "c=1_0"),
        (pa.int32(), "c=3000000000"),
        (pa.bool_(), "c=2"),
        (pa.date32(), "c=yesterday"),
        (pa.date32(), "c=19700102"),
        (pa.date32(), "c=1970-W01-1"),
        (pa.timestamp("us"), "c=19700102T000000"),
        (pa.int32(), "c=\u0663"),
        (pa.float32(), "c=1e39"),
        (pa.timestamp("us", tz="UTC"), "c=1970-01-01 00%3A00%3A00"),
        (pa.decimal128(9, 2), "c=1.555"),
        (pa.decimal128(9, 2), "c=NaN"),
        (pa.decimal128(3, 2), "c=10.00"),
        (pa.binary(), "c=abc"),
    ],
)
def test_a_folder_without_a_valid_value_is_refused(arrow: pa.DataType, folder: str) -> None:
    with pytest.raises(InvalidInput, match="is no value of type"):
        partition("c", arrow, None, f"file:/data/{folder}/a.parquet", missing=True)


def test_the_footer_takes_precedence_over_the_folder() -> None:
    assert partition("c", pa.string(), between("x", "x"), "file:/data/c=y/a.parquet") == "x"
    with pytest.raises(InvalidInput, match="spans partitions"):
        partition("c", pa.string(), between("x", "y"), "file:/data/c=x/a.parquet")


def test_the_refusal_of_a_file_of_two_partitions_names_the_page_with_the_way_out() -> None:
    with pytest.raises(InvalidInput) as caught:
        partition("day(c)", pa.timestamp("us"), between(DAY - 1, DAY))
    assert caught.value.next_step == "write one file for each partition, as docs/files.md shows"
    page = Path(__file__).parents[2] / "docs" / "files.md"
    assert "\n## One file for each partition\n" in page.read_text(encoding="utf-8")


def test_the_folder_counts_where_the_footer_proves_nothing() -> None:
    assert partition("c", pa.string(), NOT_KNOWN, "file:/data/c=y/a.parquet") == "y"
    assert partition("c", pa.float64(), between(1.0, 1.0), "file:/data/c=1.0/a.parquet") == 1.0


def test_folders_count_for_identity_only() -> None:
    with pytest.raises(InvalidInput, match="is not known"):
        partition("bucket(16, c)", pa.int64(), NOT_KNOWN, "file:/data/c=5/p=3/a.parquet")


def test_a_missing_column_is_null_under_a_transform_and_unknown_under_identity() -> None:
    assert partition("day(c)", pa.timestamp("us"), None, missing=True) is None
    with pytest.raises(InvalidInput, match="no folder of its path is called c="):
        partition("c", pa.string(), None, missing=True)


def test_an_unknown_transform_is_refused() -> None:
    metadata = table_for(pa.schema([("c", pa.string())]), ["c"])
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "spiral", "name": "p"}]}
    metadata = TableMetadata.parse({**metadata.raw, "partition-specs": [spec]})
    with pytest.raises(InvalidInput, match="transform spiral is not known"):
        partition_of(NO_FOLDER, metadata, {1: between("x", "x")}, frozenset({1}))


def test_an_unpartitioned_table_has_no_values() -> None:
    assert partition_of("file:/data/c=1/a", table_for(pa.schema([("c", pa.int64())])), {}, frozenset({1})) == {}


def test_columns_that_readers_take_from_the_partition() -> None:
    metadata = table_for(pa.schema([("a", pa.int64()), ("b", pa.int64())]), ["a", "bucket(4, b)"])
    assert path_columns("file:/t/a=1/b=2/x.parquet", metadata) == {1}
    assert path_columns("file:/t/x.parquet", metadata) == frozenset()


def test_a_bucket_of_several_columns_needs_more_than_the_first() -> None:
    made = table_for(pa.schema([("c", pa.int64()), ("d", pa.int64())]))
    bucket = {"source-ids": [1, 2], "field-id": 1000, "transform": "bucket[16]", "name": "b"}
    metadata = TableMetadata.parse({**made.raw, "partition-specs": [{"spec-id": 0, "fields": [bucket]}]})
    found = {1: between(34, 34), 2: between(5, 5)}
    with pytest.raises(InvalidInput, match="Cannot write partition field b: transform bucket"):
        partition_of(NO_FOLDER, metadata, found, frozenset({1, 2}))


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("1970-01-01 01:00:00", timezone(timedelta(hours=1)), 0),
        ("1970-01-01 00:00:00.000001999", UTC, 1),
        ("1970-01-01", UTC, 0),
        # A zone in the text is what counts.
        ("1970-01-01T00:00:00Z", timezone(timedelta(hours=1)), 0),
        # 02:30 is there twice: Java takes the first one, in summer time. Then it is there never, and Java goes on by
        # the hour that is left out.
        ("2024-10-27 02:30:00", ZoneInfo("Europe/Berlin"), 1_729_989_000_000_000),
        ("2024-03-31 02:30:00", ZoneInfo("Europe/Berlin"), 1_711_848_600_000_000),
    ],
)
def test_a_moment_without_a_zone_is_one_of_the_given_zone(text: str, zone: Any, expected: int) -> None:
    assert value_of_text(TIMESTAMPTZ, text, time_zone=zone) == expected


def test_a_moment_without_a_zone_is_refused_where_none_is_given() -> None:
    with pytest.raises(InvalidInput, match="it has no time zone"):
        value_of_text(TIMESTAMPTZ, "1970-01-01 00:00:00")


def test_hives_text_is_known_of_the_types_that_it_is_parsed_for() -> None:
    assert all(has_text(parse_type(known)) for known in ("int", "decimal(3,1)", "timestamptz", "string"))
    assert not has_text(BINARY)


@pytest.mark.parametrize(
    ("term", "found", "given", "proved"),
    [
        ("c", None, 3, True),
        ("c", between(3, 3), 3, True),
        ("c", ALL_NULL, None, True),
        ("c", between(3, 3), 4, False),
        ("c", between(3, 3), None, False),
        ("c", ALL_NULL, 3, False),
        ("c", NOT_KNOWN, 3, False),
        ("bucket(16, c)", between(34, 34), 3, True),
        ("bucket(16, c)", between(34, 34), 4, False),
        # Readers take the rows of another transform's source from the file.
        ("bucket(16, c)", between(34, 35), 4, True),
    ],
)
def test_what_the_file_says_of_a_given_value_is_the_same(
    term: str, found: ColumnStatistics | None, given: Any, proved: bool
) -> None:
    metadata = table_for(pa.schema([("c", pa.int64())]), [f"{term} as p"] if "(" in term else [term])
    (field,) = metadata.spec.fields
    statistics = {} if found is None else {1: found}
    present = frozenset() if found is None else frozenset({1})
    if proved:
        location = "file:/t/c=9/p=9/a"
        assert partition_of(location, metadata, statistics, present, {field.name: given}) == {field.name: given}
    else:
        with pytest.raises(InvalidInput, match="that its rows have this value is not proved"):
            partition_of(NO_FOLDER, metadata, statistics, present, {field.name: given})


def test_fields_without_a_given_value_are_found_in_the_path() -> None:
    metadata = table_for(pa.schema([("a", pa.int64()), ("b", pa.int64())]), ["a", "b"])
    assert partition_of("file:/t/a=1/b=2/x", metadata, {}, frozenset(), {"b": 5}) == {"a": 1, "b": 5}
    assert path_columns("file:/t/a=1/b=2/x", metadata, {"b": None}) == {1}
    assert path_columns("file:/t/x", metadata, {"b": 5}) == {2}


SPARK = json.loads(Path(__file__).with_name("spark_partition_values.json").read_text())
NEW_YORK = ZoneInfo(SPARK["time-zone"])
#: Spark's types whose partitions have a text, and ours.
TYPES = {
    "BOOLEAN": "boolean",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL(7, 2)": "decimal(7,2)",
    "DATE": "date",
    "TIMESTAMP": "timestamptz",
}


def as_spark_writes(of: str, value: Any) -> Any:
    match of:
        case "BOOLEAN":
            return str(value).lower()
        case "DATE":
            return str(date(1970, 1, 1) + timedelta(value))
        case _:
            return str(value)


def as_number(of: str, text: str) -> Any:
    """Of a float or double, which Java and Python write differently; other texts as they are."""
    if of not in ("FLOAT", "DOUBLE"):
        return text
    number = float(text.replace("Infinity", "inf"))
    return struct.pack(">f" if of == "FLOAT" else ">d", number)


@pytest.mark.parametrize("of", TYPES)
def test_a_text_has_the_value_that_spark_gives_it_or_none(of: str) -> None:
    refused = []
    for text, wanted in SPARK["values"][of].items():
        try:
            found = value_of_text(parse_type(TYPES[of]), text, time_zone=NEW_YORK)
        except InvalidInput:
            if wanted is not None:
                refused.append(text)
            continue
        assert wanted is not None, f"{text!r} is {found!r}, and Spark refuses it"
        assert as_number(of, as_spark_writes(of, found)) == as_number(of, wanted), text
    assert refused == SPARK["refused-here"][of], "docs/migration.md says which these are"


@pytest.mark.parametrize("text", ["2021-04-01 10:00:00Z", "2021-04-01 10:00:00+02:00", "2021-03-14 02:30:00"])
def test_a_time_that_spark_s_column_shows_as_another_one_is_no_timestamp(text: str) -> None:
    with pytest.raises(InvalidInput, match="no value of type timestamp"):
        value_of_text(parse_type("timestamp"), text, time_zone=NEW_YORK)
    assert value_of_text(parse_type("timestamp"), "1970-01-01 00:00:01", time_zone=NEW_YORK) == 1_000_000
