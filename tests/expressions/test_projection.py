"""Predicates on columns as predicates on partitions; that they are sound is in test_file_filter.py."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from iceberg_hms.expressions import Expression, col, parse
from iceberg_hms.expressions.binding import BoundPredicate, bind, value_matches
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.expressions.projection import inclusive, strict
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import parse_transform
from iceberg_hms.format.schema.types import parse_type

SCHEMA = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "id", "required": False, "type": "int"},
            {"id": 2, "name": "level", "required": False, "type": "string"},
            {"id": 3, "name": "time", "required": False, "type": "timestamp"},
            {"id": 4, "name": "long", "required": False, "type": "long"},
        ],
    }
)
ID, LEVEL, TIME = col("id"), col("level"), col("time")


def shown(found: BoundPredicate | None) -> Any:
    return None if found is None else (found.operator.value, sorted(found.values))


@pytest.mark.parametrize(
    ("given", "transform", "may", "must"),
    [
        (ID < 25, "identity", ("lt", [25]), ("lt", [25])),
        (ID < 20, "truncate[16]", ("lt-eq", [16]), ("lt", [16])),
        (ID > 19, "truncate[16]", ("gt-eq", [16]), ("gt", [16])),
        (ID < 20, "truncate[10]", ("not-null", []), ("lt", [20])),
        (ID <= 19, "truncate[10]", ("not-null", []), ("lt", [20])),
        (ID > 19, "truncate[10]", ("gt-eq", [20]), None),
        (ID >= 20, "truncate[10]", ("gt-eq", [20]), None),
        (ID == -(2**31), "truncate[10]", ("in", [2_147_483_646]), None),
        (ID >= -(2**31) + 7, "truncate[10]", ("not-null", []), None),
        (ID >= -(2**31) + 8, "truncate[10]", ("gt-eq", [-2_147_483_640]), None),
        (ID < -(2**31) + 7, "truncate[10]", ("not-null", []), None),
        (ID == 5, "truncate[1073741825]", ("not-null", []), None),
        (ID != 5, "truncate[1073741825]", ("not-null", []), None),
        (ID == 5, "truncate[1073741824]", ("in", [0]), None),
        (ID == 25, "truncate[10]", ("in", [20]), None),
        (ID != 25, "truncate[10]", ("not-null", []), ("not-in", [20])),
        (ID == 34, "bucket[4]", ("in", [3]), None),
        (ID > 34, "bucket[4]", ("not-null", []), None),
        (ID.is_null(), "bucket[4]", ("is-null", []), ("is-null", [])),
        (ID.is_null(), "void", None, None),
        (ID == 1, "hyperspace[3]", None, None),
        (ID > 2**31 - 1, "truncate[16]", ("not-null", []), ("gt", [2_147_483_632])),
        (LEVEL.starts_with("E"), "truncate[2]", ("starts-with", ["E"]), ("starts-with", ["E"])),
        (LEVEL.starts_with("ERR"), "truncate[2]", ("starts-with", ["ER"]), None),
        (~LEVEL.starts_with("ERR"), "truncate[2]", ("not-null", []), ("not-starts-with", ["ER"])),
        (LEVEL < "ERR", "truncate[2]", ("lt-eq", ["ER"]), ("lt", ["ER"])),
        (TIME >= "2021-04-01", "day", ("gt-eq", [18718]), ("gt", [18717])),
        (TIME < "2021-04-01", "month", ("lt-eq", [614]), ("lt", [615])),
        (TIME == "1969-12-31T23:00:00", "hour", ("in", [-1, 0]), None),
        (TIME != "1969-12-31T23:00:00", "hour", ("not-null", []), ("not-in", [-1, 0])),
        (parse("bucket(4, id) = 3"), "bucket[4]", ("eq", [3]), ("eq", [3])),
        (parse("bucket(4, id) <> 3"), "bucket[4]", ("not-eq", [3]), ("not-eq", [3])),
        (parse("bucket(4, id) = 3"), "bucket[8]", ("not-null", []), None),
        (parse("bucket(4, id) = 3"), "identity", ("not-null", []), None),
        (parse("bucket(4, id) is null"), "bucket[8]", ("is-null", []), ("is-null", [])),
        (parse("bucket(4, id) = 3"), "void", None, None),
        (parse("truncate(2, level) like 'E%'"), "truncate[2]", ("starts-with", ["E"]), ("starts-with", ["E"])),
        (parse("day(time) = 5"), "day", ("in", [5]), ("in", [5])),
        (parse("day(time) = -5"), "day", ("in", [-5, -4]), None),
        (parse("day(time) in (0, 5)"), "day", ("in", [0, 5]), ("in", [5])),
        (parse("day(time) <> 5"), "day", ("not-in", [5]), ("not-in", [5])),
        (parse("day(time) <> -5"), "day", ("not-null", []), ("not-in", [-5, -4])),
        (parse("day(time) < -5"), "day", ("lt-eq", [-5]), ("lt", [-5])),
        (parse("day(time) <= -5"), "day", ("lt-eq", [-4]), ("lt", [-4])),
        (parse("day(time) > -5"), "day", ("gt-eq", [-4]), ("gt", [-4])),
        (parse("day(time) >= 0"), "day", ("gt-eq", [0]), ("gt", [0])),
        (parse("day(time) >= 5"), "day", ("gt-eq", [5]), ("gt", [4])),
        (parse("day(time) = 5"), "month", ("not-null", []), None),
    ],
)
def test_a_predicate_becomes_one_on_the_partition(given: Expression, transform: str, may: Any, must: Any) -> None:
    bound = bind(given, SCHEMA)
    assert isinstance(bound, BoundPredicate)
    field = PartitionField(bound.field_id, 1000, parse_transform(transform), "part")
    assert (shown(inclusive(bound, field)), shown(strict(bound, field))) == (may, must)
    found = inclusive(bound, field)
    assert found is None or (found.field_id, found.path) == (1000, ("part",))


@pytest.mark.parametrize("text", ["day(time) = -1", "day(time) <> -1", "day(time) < 0"])
def test_a_plan_takes_partitions_as_they_are_stored(text: str) -> None:
    bound = bind(parse(text), SCHEMA)
    assert isinstance(bound, BoundPredicate)
    field = PartitionField(bound.field_id, 1000, parse_transform("day"), "part")
    said = (bound.operator.value, sorted(bound.values))
    assert shown(inclusive(bound, field, as_stored=True)) == said
    assert shown(strict(bound, field, as_stored=True)) == said
    other = PartitionField(bound.field_id, 1000, parse_transform("month"), "part")
    assert strict(bound, other, as_stored=True) is None


def truncated_in_java(value: int, width: int, bits: int) -> int:
    """TruncateUtil.truncateInt and truncateLong: sums and differences wrap, a remainder has the sign of the value."""

    def wrapped(number: int) -> int:
        return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))

    def remainder(number: int) -> int:
        return number % width if number >= 0 else -(-number % width)

    return wrapped(value - remainder(wrapped(remainder(value) + width)))


@pytest.mark.parametrize("width", [1, 7, 10, 16, 1_000, 2**30, 2**30 + 1, 2**31 - 1])
@pytest.mark.parametrize(("name", "bits"), [("id", 32), ("long", 64)])
def test_no_row_near_the_least_number_is_missed_or_taken_for_another(name: str, bits: int, width: int) -> None:
    limit = 1 << (bits - 1)
    near = [*range(-limit, -limit + 30), -limit + width, *range(-30, 30), *range(limit - 30, limit)]
    rows = [value for value in near if -limit <= value < limit]
    column, transform = col(name), parse_transform(f"truncate[{width}]")
    for literal in (-limit, -limit + 5, -limit + 8, -11, -1, 0, 9, 10, limit - 3, limit - 1):
        for given in (
            *(column < literal, column <= literal, column > literal, column >= literal, column == literal),
            *(column != literal, column.is_in([literal, 3]), column.not_in([literal, 3])),
        ):
            bound = bind(given, SCHEMA)
            assert isinstance(bound, BoundPredicate)
            field = PartitionField(bound.field_id, 1000, transform, "part")
            may, must = inclusive(bound, field), strict(bound, field)
            for row in rows:
                stored, matches = truncated_in_java(row, width, bits), value_matches(bound, row)
                assert not matches or may is None or value_matches(may, stored), (str(given), row)
                assert matches or must is None or not value_matches(must, stored), (str(given), row)


@pytest.mark.parametrize(("kind", "bits"), [("int", 32), ("long", 64)])
def test_a_number_is_truncated_as_java_does(kind: str, bits: int) -> None:
    limit = 1 << (bits - 1)
    for width in (1, 7, 10, 16, 2**30):
        for value in (-limit, -limit + 1, -limit + width - 1, -width - 1, -1, 0, 1, width, limit - 1):
            found = parse_transform(f"truncate[{width}]").apply(value, parse_type(kind))
            assert found == truncated_in_java(value, width, bits)


@pytest.mark.parametrize(
    ("text", "may", "must"),
    [
        ("truncate(10, id) = 2147483646", True, False),
        ("truncate(10, id) < 0", True, False),
        ("truncate(10, id) > 100", True, False),
        ("truncate(16, id) > 100", False, False),
    ],
)
def test_bounds_of_the_least_number_prove_nothing_of_its_partition(text: str, may: bool, must: bool) -> None:
    lower, upper = ({1: struct.pack("<i", value)} for value in (-(2**31), 5))
    file = DataFile("f", "PARQUET", 2, 9, {}, null_value_counts={1: 0}, lower_bounds=lower, upper_bounds=upper)
    found = FileFilter(bind(parse(text), SCHEMA), {}, text)
    assert (found.may_match(file), found.must_match(file)) == (may, must)
