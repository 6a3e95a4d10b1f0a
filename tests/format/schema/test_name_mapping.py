"""A name mapping names every field."""

from __future__ import annotations

from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.name_mapping import evolved_mapping, mapping_text, name_mapping, parse_mapping
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import NestedField


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


def field(field_id: int, name: str) -> NestedField:
    return NestedField(field_id, name, types.INT)


def test_a_renamed_column_keeps_its_old_names() -> None:
    mapping = [{"field-id": 1, "names": ["a", "old"]}, {"field-id": 2, "names": ["b"]}]
    assert evolved_mapping(mapping, {1: field(1, "c")}, {}) == [
        {"field-id": 1, "names": ["a", "old", "c"]},
        {"field-id": 2, "names": ["b"]},
    ]


def test_a_name_goes_to_the_column_that_has_it_now() -> None:
    mapping = [{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["b", "old"]}, {"names": ["c", "d"]}]
    changed = {1: field(1, "b"), 9: field(9, "c")}
    assert evolved_mapping(mapping, changed, {None: [changed[9]]}) == [
        {"field-id": 1, "names": ["a", "b"]},
        {"field-id": 2, "names": ["old"]},
        {"names": ["d"]},
        {"field-id": 9, "names": ["c"]},
    ]


def test_columns_that_exchange_names_exchange_them_in_the_mapping() -> None:
    mapping = [{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["b"]}]
    assert evolved_mapping(mapping, {1: field(1, "b"), 2: field(2, "a")}, {}) == [
        {"field-id": 1, "names": ["b"]},
        {"field-id": 2, "names": ["a"]},
    ]


def test_nested_columns_are_added_where_there_were_none() -> None:
    assert evolved_mapping([{"field-id": 1, "names": ["s"]}], {}, {1: [field(2, "x")]}) == [
        {"field-id": 1, "names": ["s"], "fields": [{"field-id": 2, "names": ["x"]}]}
    ]


def test_fields_at_any_depth_get_further_names() -> None:
    schema = Schema.of([field(1, "id"), NestedField(2, "place", types.StructType((field(3, "x"),))), field(4, "y")])
    names = {1: ["ID", "Id"], 3: ["X"], 9: ["of no field"]}
    assert parse_mapping(mapping_text(schema, names)) == [
        {"field-id": 1, "names": ["id", "ID", "Id"]},
        {"field-id": 2, "names": ["place"], "fields": [{"field-id": 3, "names": ["x", "X"]}]},
        {"field-id": 4, "names": ["y"]},
    ]
