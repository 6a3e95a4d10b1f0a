"""Schemas, specs and sort orders from what callers have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyiceberg.partitioning
import pyiceberg.schema
import pyiceberg.table.sorting
import pyiceberg.transforms
import pyiceberg.types
import pytest

from iceberg_hms.catalog.schemas import to_order, to_schema, to_spec, to_type
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.partition_spec import UNPARTITIONED, PartitionSpec
from iceberg_hms.format.schema.sort_order import UNSORTED

EVENTS = to_schema(
    pa.schema(
        [
            pa.field("event_time", pa.timestamp("us"), nullable=False),
            ("level", pa.string()),
            ("user", pa.struct([("id", pa.int64())])),
            ("score", pa.float64()),
            ("tags", pa.list_(pa.string())),
        ]
    )
)


def test_ours_and_the_specs_json_pass() -> None:
    assert to_schema(EVENTS) is EVENTS
    assert to_schema(EVENTS.raw).same_as(EVENTS)


def test_pyicebergs_classes_pass() -> None:
    schema = pyiceberg.schema.Schema(
        pyiceberg.types.NestedField(7, "t", pyiceberg.types.TimestampType(), required=True),
        pyiceberg.types.NestedField(9, "price", pyiceberg.types.DecimalType(10, 2)),
    )
    day, bucket = pyiceberg.transforms.DayTransform(), pyiceberg.transforms.BucketTransform(4)
    spec = pyiceberg.partitioning.PartitionSpec(pyiceberg.partitioning.PartitionField(7, 1000, day, "t_day"))
    order = pyiceberg.table.sorting.SortOrder(pyiceberg.table.sorting.SortField(9, bucket))
    ours = to_schema(schema)
    assert [(field.id, field.name, str(field.type)) for field in ours.fields] == [
        (7, "t", "timestamp"),
        (9, "price", "decimal(10, 2)"),
    ]
    assert to_spec(spec, ours) == to_spec(["day(t)"], ours)
    assert to_order(order, ours) == to_order(["bucket(4, price)"], ours)
    assert to_type(pyiceberg.types.ListType(3, pyiceberg.types.StringType()), "tags") == types.parse_type(
        {"type": "list", "element-id": 3, "element": "string", "element-required": True}
    )


@pytest.mark.parametrize("source", [None, "id long", 5, [("id", "long")], {}, {"type": "struct", "fields": [{}]}])
def test_other_objects_are_no_schema(source: Any) -> None:
    with pytest.raises(InvalidInput):
        to_schema(source)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="multiple fields"):
        to_schema(pa.schema([("a", pa.int32()), ("a", pa.int32())]))


@pytest.mark.parametrize(
    ("term", "transform", "name"),
    [
        ("level", "identity", "level"),
        ("identity(level)", "identity", "level"),
        ("user.id", "identity", "user.id"),
        ("year(event_time)", "year", "event_time_year"),
        ("months(event_time)", "month", "event_time_month"),
        ("day(event_time)", "day", "event_time_day"),
        ("DAYS( event_time )", "day", "event_time_day"),
        ("date(event_time)", "day", "event_time_day"),
        ("date_hour(event_time)", "hour", "event_time_hour"),
        ("bucket(16, user.id)", "bucket[16]", "user.id_bucket"),
        ("bucket(level, 8)", "bucket[8]", "level_bucket"),
        ("truncate(4, level)", "truncate[4]", "level_trunc"),
        ("day(event_time) as event_day", "day", "event_day"),
        ("void(level)", "void", "level_null"),
    ],
)
def test_terms_are_read_and_named_as_java_names_them(term: str, transform: str, name: str) -> None:
    (field,) = to_spec([term], EVENTS).fields
    assert (str(field.transform), field.name, field.field_id) == (transform, name, 1000)


def test_a_single_term_needs_no_list_and_several_have_rising_ids() -> None:
    assert to_spec("level", EVENTS).content == to_spec(["level"], EVENTS).content
    assert [field.field_id for field in to_spec(["day(event_time)", "level"], EVENTS).fields] == [1000, 1001]


def test_specs_of_other_forms_pass() -> None:
    ours = to_spec(["level"], EVENTS)
    assert to_spec(ours, EVENTS) is ours
    assert to_spec(ours.raw, EVENTS) == ours
    assert to_spec(None, EVENTS) is UNPARTITIONED
    assert to_spec([], EVENTS).is_unpartitioned


def test_a_column_whose_name_looks_like_a_term_is_a_column() -> None:
    schema = to_schema(pa.schema([("day(x)", pa.date32()), ("a as b", pa.int32())]))
    assert [str(field.transform) for field in to_spec(["day(x)", "a as b"], schema).fields] == ["identity", "identity"]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (["nothing"], "No column 'nothing'"),
        (["day(nothing)"], "No column 'nothing'"),
        (["century(event_time)"], "the transforms are"),
        (["bucket(level)"], r"bucket\(number, column\)"),
        (["bucket(0, level)"], "must be > 0"),
        (["truncate(2, 3)"], r"truncate\(number, column\)"),
        (["day(level)"], "Invalid source type string"),
        (["bucket(4, score)"], "Invalid source type double"),
        (["tags"], "non-primitive"),
        (["tags.element"], "Invalid partition field parent"),
        (["level", "level"], "more than once"),
        (["day(event_time) as level"], "exists in schema"),
        (["level as user"], "exists in schema"),
        (["day(event_time)", "hour(event_time)"], "redundant"),
        (["bucket(4, level)", "bucket(4, level) as b"], "redundant"),
        ([5], "string such as"),
        (5, "list of terms"),
        ({"fields": "level"}, "fields"),
        ({"fields": [{"source-id": 99, "transform": "identity", "name": "x"}]}, "source column"),
    ],
    ids=str,
)
def test_an_invalid_spec_is_refused(terms: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        to_spec(terms, EVENTS)


def test_a_spec_of_two_buckets_of_different_size_is_allowed_as_in_java() -> None:
    spec = to_spec(["bucket(4, level)", "bucket(8, level) as b8"], EVENTS)
    assert isinstance(spec, PartitionSpec)
    assert len(spec.fields) == 2


@pytest.mark.parametrize(
    ("term", "transform", "direction", "nulls"),
    [
        ("level", "identity", "asc", "nulls-first"),
        ("level desc", "identity", "desc", "nulls-last"),
        ("level ASC NULLS LAST", "identity", "asc", "nulls-last"),
        ("day(event_time) desc nulls first", "day", "desc", "nulls-first"),
        ("bucket(4, level)", "bucket[4]", "asc", "nulls-first"),
    ],
)
def test_sort_terms_are_read(term: str, transform: str, direction: str, nulls: str) -> None:
    (field,) = to_order(term, EVENTS).fields
    assert (str(field.transform), field.direction, field.null_order) == (transform, direction, nulls)


def test_orders_of_other_forms_pass() -> None:
    ours = to_order(["level desc"], EVENTS)
    assert to_order(ours, EVENTS) is ours
    assert to_order(ours.raw, EVENTS) == ours
    assert to_order(None, EVENTS) is UNSORTED


@pytest.mark.parametrize("source", [["nothing"], ["tags"], [5], 5, {"fields": 5}], ids=str)
def test_an_invalid_sort_order_is_refused(source: Any) -> None:
    with pytest.raises(InvalidInput):
        to_order(source, EVENTS)


def test_types_are_ours_the_specs_or_pyarrows() -> None:
    assert to_type(types.LONG, "c") is types.LONG
    assert to_type("decimal(9,2)", "c") == types.decimal_type(9, 2)
    assert to_type({"type": "struct", "fields": []}, "c") == types.StructType(())
    assert str(to_type(pa.list_(pa.int32()), "c")) == "list<int>"


@pytest.mark.parametrize("source", ["text", 5, None, pa.uint64(), {"type": "none"}])
def test_other_objects_are_no_type_of_the_named_column(source: Any) -> None:
    with pytest.raises(InvalidInput, match=r"Column place\.x: "):
        to_type(source, "place.x")
