"""Schemas, specs and sort orders from what callers have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.catalog.schemas import name_mapping, to_order, to_schema, to_spec
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.partition import UNPARTITIONED, PartitionSpec
from iceberg_hms.format.schema import Schema
from iceberg_hms.format.sort_order import UNSORTED

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


@pytest.mark.parametrize(
    ("arrow", "ours"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "int"),
        (pa.int16(), "int"),
        (pa.int32(), "int"),
        (pa.uint8(), "int"),
        (pa.uint16(), "int"),
        (pa.uint32(), "long"),
        (pa.int64(), "long"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(9, 2), "decimal(9, 2)"),
        (pa.decimal256(38, 10), "decimal(38, 10)"),
        (pa.date32(), "date"),
        (pa.time64("us"), "time"),
        (pa.time32("ms"), "time"),
        (pa.timestamp("s"), "timestamp"),
        (pa.timestamp("us"), "timestamp"),
        (pa.timestamp("us", tz="UTC"), "timestamptz"),
        (pa.timestamp("ms", tz="Europe/Berlin"), "timestamptz"),
        (pa.timestamp("ns"), "timestamp_ns"),
        (pa.timestamp("ns", tz="UTC"), "timestamptz_ns"),
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.uuid(), "uuid"),
        (pa.binary(16), "fixed[16]"),
        (pa.binary(), "binary"),
        (pa.large_binary(), "binary"),
        (pa.null(), "unknown"),
    ],
    ids=str,
)
def test_pyarrows_types_become_icebergs(arrow: pa.DataType, ours: str) -> None:
    assert str(to_schema(pa.schema([("c", arrow)])).fields[0].type) == ours


@pytest.mark.parametrize(
    "arrow",
    [pa.uint64(), pa.float16(), pa.date64(), pa.time64("ns"), pa.decimal256(50, 2), pa.duration("us")],
    ids=str,
)
def test_a_type_that_iceberg_lacks_is_refused_with_the_columns_name(arrow: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match=r"a\.element\.b") as caught:
        to_schema(pa.schema([("a", pa.list_(pa.struct([("b", arrow)])))]))
    assert caught.value.next_step


def test_ids_are_given_a_level_at_a_time_as_java_does() -> None:
    schema = to_schema(
        pa.schema(
            [
                ("p", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())]))),
                ("m", pa.map_(pa.string(), pa.int64())),
                ("z", pa.int32()),
            ]
        )
    )
    names = ["p", "m", "z", "p.element", "p.element.x", "p.element.y", "m.key", "m.value"]
    assert [schema.find(name).id for name in names] == list(range(1, 9))  # type: ignore[union-attr]


def test_required_and_docs_are_kept() -> None:
    (field,) = to_schema(pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"doc": "who"})])).fields
    assert (field.required, field.doc) == (True, "who")


def test_ours_and_the_specs_json_pass() -> None:
    assert to_schema(EVENTS) is EVENTS
    assert to_schema(EVENTS.raw).same_as(EVENTS)


@pytest.mark.parametrize("source", [None, "id long", 5, [("id", "long")], {}, {"type": "struct", "fields": [{}]}])
def test_what_is_no_schema_is_refused(source: Any) -> None:
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
    assert to_spec("level", EVENTS).compatible_with(to_spec(["level"], EVENTS))
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
def test_a_spec_that_cannot_be_is_refused(terms: Any, message: str) -> None:
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
def test_an_order_that_cannot_be_is_refused(source: Any) -> None:
    with pytest.raises(InvalidInput):
        to_order(source, EVENTS)


def test_a_name_mapping_names_every_field_at_every_depth() -> None:
    schema = Schema.parse(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "id", "required": True, "type": "long"},
                {
                    "id": 2,
                    "name": "points",
                    "required": False,
                    "type": {
                        "type": "list",
                        "element-id": 3,
                        "element-required": True,
                        "element": {
                            "type": "struct",
                            "fields": [{"id": 4, "name": "x", "required": True, "type": "float"}],
                        },
                    },
                },
            ],
        }
    )
    assert name_mapping(schema) == [
        {"field-id": 1, "names": ["id"]},
        {
            "field-id": 2,
            "names": ["points"],
            "fields": [{"field-id": 3, "names": ["element"], "fields": [{"field-id": 4, "names": ["x"]}]}],
        },
    ]
