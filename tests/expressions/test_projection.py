"""Predicates on columns as predicates on partitions; that they are sound is in test_file_filter.py."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.expressions import Expression, col, parse
from iceberg_hms.expressions.binding import BoundPredicate, bind
from iceberg_hms.expressions.projection import inclusive, strict
from iceberg_hms.format.schema.partition_spec import PartitionField
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import parse_transform

SCHEMA = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "id", "required": False, "type": "int"},
            {"id": 2, "name": "level", "required": False, "type": "string"},
            {"id": 3, "name": "time", "required": False, "type": "timestamp"},
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
        (ID < 20, "truncate[10]", ("lt-eq", [10]), ("lt", [20])),
        (ID <= 19, "truncate[10]", ("lt-eq", [10]), ("lt", [20])),
        (ID > 19, "truncate[10]", ("gt-eq", [20]), ("gt", [10])),
        (ID >= 20, "truncate[10]", ("gt-eq", [20]), ("gt", [10])),
        (ID == 25, "truncate[10]", ("in", [20]), None),
        (ID != 25, "truncate[10]", ("not-null", []), ("not-in", [20])),
        (ID == 34, "bucket[4]", ("in", [3]), None),
        (ID > 34, "bucket[4]", ("not-null", []), None),
        (ID.is_null(), "bucket[4]", ("is-null", []), ("is-null", [])),
        (ID.is_null(), "void", None, None),
        (ID == 1, "hyperspace[3]", None, None),
        (ID > 2**31 - 1, "truncate[10]", ("not-null", []), ("gt", [2_147_483_640])),
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
