"""Types and their JSON form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    decimal_type,
    fixed_type,
    nested_fields,
    parse_type,
    walk_fields,
)

PLAIN = [
    *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid"),
    *("binary", "unknown", "variant", "timestamp_ns", "timestamptz_ns"),
]

primitives = st.one_of(
    st.sampled_from(PLAIN).map(PrimitiveType),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: decimal_type(p, s))),
    st.integers(0, 100).map(fixed_type),
    st.sampled_from(["geometry", "geometry(srid:4326)", "geography(srid:4326, vincenty)"]).map(PrimitiveType),
)


def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    ids = st.integers(1, 1000)
    field = st.builds(NestedField, ids, st.text(min_size=1), inner, st.booleans(), st.none() | st.text())
    return st.one_of(
        st.builds(ListType, ids, st.booleans(), inner),
        st.builds(MapType, ids, inner, ids, st.booleans(), inner),
        st.lists(field, max_size=3).map(lambda fields: StructType(tuple(fields))),
    )


@given(st.recursive(primitives, nested, max_leaves=8))
def test_a_type_has_the_values_of_its_json(type_: Type) -> None:
    assert parse_type(type_.to_json()) == type_


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("decimal(9,2)", "decimal(9, 2)"),
        (" decimal( 9 , 2 ) ", "decimal(9, 2)"),
        ("fixed[ 16 ]", "fixed[16]"),
        ("LONG", "long"),
        ("geometry( srid:4326 )", "geometry(srid:4326)"),
        ("geography(OGC:CRS84,karney)", "geography(OGC:CRS84, karney)"),
    ],
)
def test_white_space_and_case_do_not_matter(text: str, canonical: str) -> None:
    assert parse_type(text) == PrimitiveType(canonical)


def test_parameters_are_read_from_the_name() -> None:
    assert (parse_type("decimal(9,2)").precision, parse_type("decimal(9,2)").scale) == (9, 2)  # type: ignore[union-attr]
    assert fixed_type(16).length == 16
    assert decimal_type(9, 2).kind == "decimal"
    assert PrimitiveType("geometry(srid:4326)").kind == "geometry"
    for name in ("precision", "scale", "length"):
        with pytest.raises(InvalidInput, match="long has no"):
            getattr(types.LONG, name)


@pytest.mark.parametrize("name", ["timestamp_ns", "variant", "unknown", "geography"])
def test_types_of_v3_have_that_minimum_version(name: str) -> None:
    assert PrimitiveType(name).min_format_version == 3
    assert types.TIMESTAMP.min_format_version == 1


@pytest.mark.parametrize(
    "raw",
    [
        None,
        7,
        [],
        "",
        "int32",
        "decimal(39, 2)",
        "decimal(2, 3)",
        "decimal(0, 0)",
        "decimal(9)",
        "fixed[-1]",
        "fixed[x]",
        "long\nlong",
        {"type": "set"},
        {"type": "struct"},
        {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True}]},
        {"type": "struct", "fields": [{"id": "1", "name": "a", "required": True, "type": "int"}]},
        {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "int"}]},
        {"type": "struct", "fields": ["a"]},
        {"type": "list", "element-id": 1, "element": "int"},
        {"type": "list", "element-id": 1, "element-required": True},
        {"type": "map", "key-id": 1, "key": "int", "value-id": 2, "value": "int"},
    ],
)
def test_json_that_is_not_a_type_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_type(raw)


def test_a_type_nested_too_deep_is_refused() -> None:
    raw: Any = "int"
    for _ in range(5000):
        raw = {"type": "list", "element-id": 1, "element-required": True, "element": raw}
    with pytest.raises(InvalidInput, match="nested deeper"):
        parse_type(raw)


def test_fields_are_walked_parents_first() -> None:
    inner = StructType((NestedField(5, "x", types.INT),))
    type_ = StructType((NestedField(1, "m", MapType(2, types.STRING, 3, False, inner)), NestedField(4, "l", types.INT)))
    assert [field.id for field in walk_fields(type_)] == [1, 2, 3, 5, 4]
    assert [field.name for field in nested_fields(type_.fields[0].type)] == ["key", "value"]
    assert nested_fields(types.INT) == ()
    assert type_.field(4) == NestedField(4, "l", types.INT)
    assert type_.field(5) is None


def test_defaults_and_docs_survive() -> None:
    raw = {"id": 1, "name": "a", "required": False, "type": "int", "doc": "d", "initial-default": 0, "write-default": 5}
    parsed = parse_type({"type": "struct", "fields": [raw]})
    assert parsed.to_json() == {"type": "struct", "fields": [raw]}
    assert str(parsed) == "struct<1: a: optional int>"
