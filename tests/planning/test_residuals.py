"""What is left of a filter for the rows of a partition."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.expressions import ALWAYS_FALSE, ALWAYS_TRUE, Expression, col, parse
from iceberg_hms.expressions.binding import bind
from iceberg_hms.expressions.expression import Operator, Predicate
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Day, IdentityTransform
from iceberg_hms.planning.residuals import Residuals
from tests.expressions.rows import matches
from tests.planning.batches import batch_of_files
from tests.planning.drawn import SCHEMA, drawn_filters, drawn_rows, drawn_specs, partition_of


def of_partition(partition: dict[str, Any], spec: PartitionSpec) -> DataFile:
    return DataFile("file:/f", "PARQUET", 1, 10, partition, spec_id=spec.spec_id)


@given(st.data())
@settings(max_examples=200)
def test_a_row_of_a_partition_matches_its_residual_as_it_matches_the_filter(data: st.DataObject) -> None:
    where = data.draw(drawn_filters())
    spec = data.draw(drawn_specs(where))
    rows = data.draw(drawn_rows(spec, where))
    files = [of_partition(partition_of(row, spec), spec) for row in rows]
    residuals = Residuals(where, SCHEMA, {spec.spec_id: spec})
    places = residuals.of(batch_of_files(files, spec, SCHEMA), spec.spec_id).to_pylist()
    for row, place in zip(rows, places, strict=True):
        left = bind(residuals.expressions[place], SCHEMA)
        assert matches(left, row) == matches(bind(where, SCHEMA), row)


LOGS = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "level", "required": False, "type": "string"},
            {"id": 2, "name": "at", "required": False, "type": "timestamp"},
            {"id": 3, "name": "n", "required": True, "type": "long"},
            {"id": 4, "name": "user", "required": False, "type": "uuid"},
        ],
    }
)
BY_DAY = PartitionSpec.of(
    [PartitionField(2, 1000, Day(), "day"), PartitionField(1, 1001, IdentityTransform(), "level")], spec_id=1
)
UNPARTITIONED = PartitionSpec.of([], spec_id=2)


def left(where: Expression | str, spec: PartitionSpec, *partitions: dict[str, Any]) -> list[Expression]:
    """The residual of each partition."""
    residuals = Residuals(parse(where) if isinstance(where, str) else where, LOGS, {spec.spec_id: spec})
    batch = batch_of_files([of_partition(each, spec) for each in partitions], spec, LOGS)
    return [residuals.expressions[place] for place in residuals.of(batch, spec.spec_id).to_pylist()]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("at >= '2021-04-01' and at < '2021-04-02'", ["true", "false", "false"]),
        ("at >= '2021-04-01T12:00:00'", ["at >= '2021-04-01T12:00:00'", "true", "false"]),
        ("at <= '2021-04-02T12:00:00'", ["true", "at <= '2021-04-02T12:00:00'", "false"]),
        ("at is null", ["false", "false", "true"]),
        ("level = 'E' and n > 5", ["n > 5", "false", "false"]),
        ("level = 'E' or n > 5", ["true", "n > 5", "n > 5"]),
        ("level <> 'E'", ["false", "true", "false"]),
        ("level = 'E' or at > '2021-04-02T12:00:00'", ["true", "at > '2021-04-02T12:00:00'", "false"]),
        ("n > 5", ["n > 5", "n > 5", "n > 5"]),
        ("n is null", ["false", "false", "false"]),
        ("day(at) = 18718", ["true", "false", "false"]),
        ("month(at) = 615", ["month(at) = 615", "month(at) = 615", "false"]),
        ("true", ["true", "true", "true"]),
    ],
)
def test_partitions_decide_predicate_by_predicate(where: str, expected: list[str]) -> None:
    partitions = ({"day": 18718, "level": "E"}, {"day": 18719, "level": "W"}, {"day": None, "level": None})
    assert [str(each) for each in left(where, BY_DAY, *partitions)] == expected


def test_what_no_partition_decides_stays_what_the_caller_wrote() -> None:
    where = parse("n > 5 and (n < 1 or n = 2 or n = 3)")
    (found,) = left(where, BY_DAY, {"day": 1, "level": "E"})
    assert found is where


def test_without_partitions_all_of_the_filter_is_left() -> None:
    where = parse("n is not null and level = 'E'")
    assert left(where, UNPARTITIONED, {}, {}) == [where, where]
    residuals = Residuals(where, LOGS, {})
    batch = batch_of_files([of_partition({}, UNPARTITIONED)], UNPARTITIONED, LOGS)
    assert residuals.of(batch, 7).to_pylist() == [0], "a spec that is gone decides nothing"
    assert residuals.expressions == [where]


def test_equal_residuals_are_kept_once() -> None:
    where = parse("level = 'E' and n > 5")
    residuals = Residuals(where, LOGS, {1: BY_DAY})
    files = [of_partition({"day": day, "level": level}, BY_DAY) for day in range(3) for level in ("E", "W", None)]
    assert residuals.of(batch_of_files(files, BY_DAY, LOGS), 1).to_pylist() == [0, 1, 1] * 3
    assert [str(each) for each in residuals.expressions] == ["n > 5", "false"]
    assert residuals.of(batch_of_files(files[1:2], BY_DAY, LOGS), 1).to_pylist() == [1]


def test_each_pair_of_values_has_its_own_residual() -> None:
    days, levels = (18717, 18718, 18719), ("E", "W", None)
    where = "at = '2021-04-01T10:00:00' and level = 'E' or n = 1 and level = 'W' or n = 2 and level is null"
    partitions = [{"day": day, "level": level} for day in days for level in levels]
    found = [str(each) for each in left(where, BY_DAY, *partitions, *partitions[::-1])]
    assert found[:9] == found[:8:-1]
    assert found[:9] == [
        *("false", "n = 1", "n = 2"),
        *("at = '2021-04-01T10:00:00'", "n = 1", "n = 2"),
        *("false", "n = 1", "n = 2"),
    ]


def test_a_partition_column_that_a_batch_lacks_decides_nothing() -> None:
    where = parse("level = 'E' and at < '2021-04-01'")
    residuals = Residuals(where, LOGS, {1: BY_DAY})
    batch = batch_of_files([of_partition({"day": 1, "level": None}, BY_DAY)], BY_DAY, LOGS)
    (place,) = residuals.of(batch.drop_columns(["partition.1001"]), 1).to_pylist()
    assert str(residuals.expressions[place]) == "level = 'E'"
    (place,) = residuals.of(batch.drop_columns(["partition.1000", "partition.1001"]), 1).to_pylist()
    assert residuals.expressions[place] is where
    (place,) = residuals.of(batch, 1).to_pylist()
    assert residuals.expressions[place] == ALWAYS_FALSE


def test_times_before_1970_may_be_in_the_partition_above_their_own() -> None:
    partitions = [{"day": day, "level": None} for day in (-2, -1, 0, 1)]
    assert [str(each) for each in left("at >= '1970-01-01'", BY_DAY, *partitions)] == [
        *("false", "false"),
        *("at >= '1970-01-01'", "true"),
    ]


def test_a_partition_decides_what_is_said_of_its_own_transform() -> None:
    """As in Java. Spark asks no row again."""
    partitions = [{"day": day, "level": None} for day in (-2, -1, 0, 1)]
    found = {text: [str(each) for each in left(text, BY_DAY, *partitions)] for text in ("day(at) >= 0", "day(at) = -1")}
    assert found == {
        "day(at) >= 0": ["false", "false", "true", "true"],
        "day(at) = -1": ["false", "true", "false", "false"],
    }


def test_uuids_of_partitions_decide() -> None:
    by_user = PartitionSpec.of([PartitionField(4, 1000, IdentityTransform(), "user")], spec_id=1)
    ids = [uuid.UUID(int=each) for each in (1, 2)]
    assert left(col("user") == ids[0], by_user, *({"user": each} for each in ids)) == [ALWAYS_TRUE, ALWAYS_FALSE]


def test_values_without_a_hash_are_literals_too() -> None:
    where = (col("level") == "E") & (col("n") == 5) & Predicate(Operator.EQ, "user", (uuid.UUID(int=1),))
    assert left(where, BY_DAY, {"day": 1, "level": "W"}) == [ALWAYS_FALSE]
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "b", "required": False, "type": "binary"}]})
    by_b = PartitionSpec.of([PartitionField(1, 1000, IdentityTransform(), "b")], spec_id=1)
    residuals = Residuals(Predicate(Operator.EQ, "b", (bytearray(b"x"),)), schema, {1: by_b})
    batch = batch_of_files([of_partition({"b": each}, by_b) for each in (b"x", b"y")], by_b, schema)
    assert residuals.of(batch, 1).to_pylist() == [0, 1]
    assert residuals.expressions == [ALWAYS_TRUE, ALWAYS_FALSE]
