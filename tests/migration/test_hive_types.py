"""Hive's text for types, as the metastore has it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.coordinator.hive_ports import HiveColumn
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import (
    MAX_NESTING,
    TIMESTAMP,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    walk_fields,
)
from iceberg_hms.metastore.tables.columns import hive_type
from iceberg_hms.migration.hive_types import MAX_HIVE_TYPE_TEXT, hive_schema, parse_hive_type


def parse(text: str, *, timestamp: PrimitiveType = types.TIMESTAMPTZ) -> Type:
    return parse_hive_type(text, "c", itertools.count(1).__next__, timestamp=timestamp)


PRIMITIVES = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "integer": "int", "bigint": "long",
    "float": "float", "double": "double", "string": "string", "char(3)": "string", "varchar(65535)": "string",
    "binary": "binary", "date": "date", "timestamp": "timestamptz", "timestamp with local time zone": "timestamptz",
    "timestamp with local time zone('Europe/Berlin')": "timestamptz", "decimal": "decimal(10, 0)",
    "decimal(5)": "decimal(5, 0)", "decimal(38,18)": "decimal(38, 18)", "decimal( 9 , 2 )": "decimal(9, 2)",
    "INT": "int", " bigint ": "long", "Timestamp With Local Time Zone": "timestamptz",
}  # fmt: skip


@pytest.mark.parametrize(("hive", "iceberg"), PRIMITIVES.items())
def test_each_primitive_type_of_hives_becomes_the_one_that_spark_gives_it(hive: str, iceberg: str) -> None:
    assert parse(hive) == types.parse_type(iceberg)


def test_a_timestamp_becomes_what_the_caller_says_and_one_with_a_local_time_zone_does_not() -> None:
    assert parse("array<timestamp>", timestamp=TIMESTAMP) == ListType(1, False, TIMESTAMP)
    assert parse("timestamp with local time zone", timestamp=TIMESTAMP) == types.TIMESTAMPTZ


def test_nested_types_have_optional_fields_of_any_depth() -> None:
    assert str(parse("map<string,array<struct<a:int,b:struct<c:decimal(7,2),d:map<int,date>>>>>")) == str(
        types.parse_type(
            {
                "type": "map", "key-id": 1, "key": "string", "value-id": 2, "value-required": False,
                "value": {
                    "type": "list", "element-id": 3, "element-required": False,
                    "element": {"type": "struct", "fields": [
                        {"id": 4, "name": "a", "required": False, "type": "int"},
                        {"id": 5, "name": "b", "required": False, "type": {"type": "struct", "fields": [
                            {"id": 6, "name": "c", "required": False, "type": "decimal(7, 2)"},
                            {"id": 7, "name": "d", "required": False, "type": {
                                "type": "map", "key-id": 8, "key": "int", "value-id": 9, "value-required": False,
                                "value": "date"}},
                        ]}},
                    ]},
                },
            }
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("struct<a:int, b : string >", ["a", "b"]),
        ("struct<>", []),
        ("struct<größe:int>", ["größe"]),
        ("struct<a b:int,1st:int,$x-y.z:int,_a:int>", ["a b", "1st", "$x-y.z", "_a"]),
        ("struct<a<b>:int,c):int>", ["a<b>", "c)"]),
        ("struct<>:int,>>:struct<>>", [">", ">>"]),
        ("struct<`a:b,c`:int,`tick``ed`:int>", ["a:b,c", "tick`ed"]),
        ("struct<array:array<int>,int:int,struct:struct<map:int>>", ["array", "int", "struct"]),
        ("struct<Camel:int>", ["Camel"]),
    ],
)
def test_names_of_nested_fields_may_be_odd(text: str, names: list[str]) -> None:
    found = parse(text)
    assert isinstance(found, StructType)
    assert [field.name for field in found.fields] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uniontype<int,string>", "Column c: Iceberg has no type for Hive's 'uniontype'"),
        ("interval_year_month", "Column c: Iceberg has no type for Hive's 'interval_year_month'"),
        ("array<interval_day_time>", "Column c.element: Iceberg has no type for Hive's 'interval_day_time'"),
        ("void", "Column c: Iceberg has no type for Hive's 'void'"),
        ("unknown", "Column c: Iceberg has no type for Hive's 'unknown'"),
        ("map<string,struct<a:int,b:void>>", "Column c.value.b: Iceberg has no type for Hive's 'void'"),
        ("map<uniontype<int>,int>", "Column c.key: Iceberg has no type for Hive's 'uniontype'"),
        ("timestamp without time zone", "Column c: Iceberg has no type for Hive's 'timestamp without time zone'"),
        ("decimal(39,0)", "Column c: decimal(39, 0): the precision must be 1 to 38"),
        ("decimal(3,4)", "Column c: decimal(3, 4): the precision must be"),
        ("", "Column c: '' is no type of Hive's: a type is expected at character 1"),
        ("array", "Column c: 'array' is no type of Hive's: < is expected at character 6"),
        ("array<int", "Column c: 'array<int' is no type of Hive's: > is expected at character 10"),
        ("array<int>>", "Column c: 'array<int>>' is no type of Hive's: the end is expected at character 11"),
        ("map<int>", "Column c: 'map<int>' is no type of Hive's: , is expected at character 8"),
        ("struct<a>", "the name of a field is expected at character 8"),
        ("struct<a:int,>", "the name of a field is expected at character 14"),
        ("struct<:int>", "the name of a field is expected at character 8"),
        ("struct<``:int>", "the name of a field is expected at character 8"),
        ("struct<a:int", "> is expected at character 13"),
        ("struct<", "the name of a field is expected at character 8"),
        ("struct<a:int b:int>", "Iceberg has no type for Hive's 'int b'"),
        ("struct<a:int;b:int>", "> is expected at character 13"),
        ("int(5)", "nothing in brackets after int is expected"),
        ("timestamp(3)", "nothing in brackets after timestamp is expected"),
        ("decimal(x)", "precision and scale is expected"),
        ("decimal(1,2,3)", "precision and scale is expected"),
        ("decimal(\u0663,\u0661)", "precision and scale is expected"),
        ("int,string", "the end is expected at character 4"),
    ],
)
def test_what_iceberg_lacks_or_hive_does_not_write_is_refused_with_the_columns_path(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert message in caught.value.message
    if "decimal(3" not in text:
        assert caught.value.next_step


def test_the_depth_and_the_length_of_a_type_are_bounded() -> None:
    def nested(depth: int) -> str:
        return "array<" * depth + "int" + ">" * depth

    deepest = hive_schema([HiveColumn("c", nested(MAX_NESTING - 1))])
    assert deepest.highest_field_id == MAX_NESTING
    with pytest.raises(InvalidInput, match="nested deeper than 64 levels"):
        parse(nested(MAX_NESTING))
    with pytest.raises(InvalidInput, match="nested deeper than 64 levels"):
        parse("struct<a:" * 100_000)
    with pytest.raises(InvalidInput, match="Column c: its type has more than 1000000 characters"):
        parse("a" * (MAX_HIVE_TYPE_TEXT + 1))
    with pytest.raises(InvalidInput, match="no type"):
        parse("a " * (MAX_HIVE_TYPE_TEXT // 2))


def test_ids_are_given_to_the_columns_first_and_then_to_what_is_in_each_as_java_does() -> None:
    schema = hive_schema(
        [
            HiveColumn("a", "struct<x:array<int>,y:int>", "of a"),
            HiveColumn("b", "map<int,struct<z:int>>", ""),
            HiveColumn("c", "int", "from deserializer"),
        ]
    )
    assert {schema.name_of(field.id): field.id for field in walk_fields(schema.as_struct())} == {
        "a": 1, "b": 2, "c": 3, "a.x": 4, "a.y": 5, "a.x.element": 6, "b.key": 7, "b.value": 8, "b.value.z": 9,
    }  # fmt: skip
    assert [field.doc for field in schema.fields] == ["of a", None, None]
    assert not any(field.required for field in walk_fields(schema.as_struct()) if schema.name_of(field.id) != "b.key")


def test_a_second_column_of_a_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="multiple fields for name a"):
        hive_schema([HiveColumn("a", "int"), HiveColumn("a", "int")])


#: What Hive has types for, so that they come back as they were.
_SAME = ["boolean", "int", "long", "float", "double", "string", "binary", "date", "timestamptz"]
_NAMES = st.text(st.characters(exclude_characters="`:,;", exclude_categories=("C", "Z")), min_size=1, max_size=5)


def _nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.lists(st.tuples(_NAMES, inner), max_size=4, unique_by=lambda field: field[0])
    return st.one_of(
        inner.map(lambda element: ListType(0, False, element)),
        st.tuples(inner, inner).map(lambda pair: MapType(0, pair[0], 0, False, pair[1])),
        fields.map(lambda pairs: StructType(tuple(NestedField(0, name, type_) for name, type_ in pairs))),
    )


_DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: types.decimal_type(precision, scale))
)
HIVES: st.SearchStrategy[Type] = st.recursive(
    st.one_of(st.sampled_from(_SAME).map(PrimitiveType), _DECIMALS), _nested, max_leaves=20
)


def without_ids(of: Type) -> Any:
    """A type's JSON with each id 0."""

    def cleared(raw: Any) -> Any:
        if isinstance(raw, dict):
            return {key: 0 if key == "id" or key.endswith("-id") else cleared(value) for key, value in raw.items()}
        return [cleared(each) for each in raw] if isinstance(raw, list) else raw

    return cleared(of.to_json())


@given(HIVES)
def test_a_type_that_we_write_into_a_row_is_read_back(type_: Type) -> None:
    text = hive_type(type_, local_time_zones=True)
    assert without_ids(parse(text)) == without_ids(type_)


@given(HIVES)
def test_the_ids_of_a_type_differ(type_: Type) -> None:
    found = parse(hive_type(type_, local_time_zones=False))
    ids = [field.id for field in walk_fields(found)]
    assert len(set(ids)) == len(ids)


@given(st.text(alphabet="arymapstructin<>(),:` 1", max_size=30))
def test_any_text_is_a_type_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except InvalidInput:
        return
    Schema.of([NestedField(1_000, "c", found)])
