"""Schemas."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.schema import Schema, assign_fresh_ids
from iceberg_hms.format.schema.types import LONG, NestedField, StructType


def column(id_: int, name: str, type_: Any = "long", *, required: bool = False, **more: Any) -> dict[str, Any]:
    return {"id": id_, "name": name, "required": required, "type": type_, **more}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def list_of(id_: int, element: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": id_, "element-required": True, "element": element}


def map_of(key_id: int, value_id: int, value: Any) -> dict[str, Any]:
    return {
        "type": "map",
        "key-id": key_id,
        "key": "string",
        "value-id": value_id,
        "value": value,
        "value-required": True,
    }


NESTED = {
    **struct(
        column(10, "id", required=True),
        column(20, "location", struct(column(21, "lat", "float"), column(22, "long", "float")), required=True),
        column(30, "points", list_of(31, struct(column(32, "x"), column(33, "y")))),
        column(40, "scores", map_of(41, 42, struct(column(43, "best")))),
        column(50, "tags", list_of(51, "string")),
    ),
    "schema-id": 4,
    "identifier-field-ids": [10],
}


def test_fields_are_found_by_id_and_by_dotted_name() -> None:
    schema = Schema.parse(NESTED)
    for field_id, name in [
        (10, "id"),
        (22, "location.long"),
        (31, "points.element"),
        (33, "points.element.y"),
        (41, "scores.key"),
        (43, "scores.value.best"),
        (51, "tags.element"),
    ]:
        assert schema.name_of(field_id) == name
        found = schema.find(name)
        assert found is not None
        assert found.id == field_id
        assert schema.field(field_id) == found
    assert schema.find("points.y") == schema.field(33)
    assert schema.find("scores.best") == schema.field(43)
    assert schema.find("ID") is None
    assert schema.field(99) is None
    assert schema.name_of(99) is None
    assert schema.highest_field_id == 51
    assert Schema.parse(struct()).highest_field_id == 0


def test_the_short_name_of_a_field_gives_way_to_a_full_name() -> None:
    raw = struct(column(1, "a", list_of(2, struct(column(3, "element"), column(4, "x")))))
    found = Schema.parse(raw).find("a.element")
    assert found is not None
    assert found.id == 2


def test_parents_are_known() -> None:
    schema = Schema.parse(NESTED)
    assert schema.parent_of(10) is None
    assert schema.parent_of(32) == schema.field(31)
    assert schema.parent_of(31) == schema.field(30)


def test_ids_default_and_unknown_fields_survive() -> None:
    schema = Schema.parse({"type": "struct", "fields": [], "tomorrow": 1})
    assert schema.schema_id == 0
    assert schema.with_id(7).raw == {"type": "struct", "fields": [], "tomorrow": 1, "schema-id": 7}
    assert schema.raw == {"type": "struct", "fields": [], "tomorrow": 1}


def test_schemas_are_compared_without_their_id() -> None:
    schema = Schema.parse(NESTED)
    assert schema.same_as(schema.with_id(9))
    assert schema.content == schema.with_id(9).content
    assert schema.content != Schema.parse({**NESTED, "identifier-field-ids": []}).content
    assert schema != schema.with_id(9)
    assert schema == Schema.parse(dict(NESTED))
    assert not schema.same_as(Schema.parse({**NESTED, "identifier-field-ids": []}))
    assert not schema.same_as(Schema.parse({**NESTED, "fields": NESTED["fields"][:1]}))


def test_a_schema_is_made_of_fields() -> None:
    schema = Schema.of([NestedField(1, "a", LONG, required=True)], schema_id=3, identifier_field_ids=[1])
    assert schema.raw["identifier-field-ids"] == [1]
    assert schema.as_struct() == StructType((NestedField(1, "a", LONG, required=True),))
    assert schema.fields[0].name == "a"
    with pytest.raises(InvalidInput, match="same id 1"):
        Schema.of([NestedField(1, "a", LONG), NestedField(1, "b", LONG)])


def test_fresh_ids_are_assigned_level_by_level() -> None:
    fresh = assign_fresh_ids(Schema.parse({**NESTED, "tomorrow": True}))
    assert fresh.schema_id == 0
    assert [field.id for field in fresh.fields] == [1, 2, 3, 4, 5]
    names = ["location.lat", "location.long", "points.element", "points.element.x", "points.element.y"]
    names += ["scores.key", "scores.value", "scores.value.best", "tags.element"]
    assert {fresh.name_of(id_) for id_ in range(6, 15)} == set(names)
    assert [fresh.find(name).id for name in names] == list(range(6, 15))  # type: ignore[union-attr]
    assert fresh.identifier_field_ids == {1}
    assert fresh.raw["tomorrow"] is True
    assert assign_fresh_ids(Schema.parse(NESTED), 100).fields[0].id == 100
    assert NESTED["fields"][0]["id"] == 10


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"fields": None},
        {"fields": [], "schema-id": "1"},
        {"fields": [], "identifier-field-ids": [None]},
        {"fields": [column(1, "a", "int32")]},
    ],
)
def test_json_that_is_not_a_schema_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidInput):
        Schema.parse(raw)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (struct(column(1, "a"), column(1, "b")), "same id 1"),
        (struct(column(1, "a", list_of(1, "int"))), "same id 1"),
        (struct(column(1, "a"), column(2, "a")), "multiple fields for name a"),
        (struct(column(1, "s", struct(column(2, "a"), column(3, "a")))), r"multiple fields for name s\.a"),
        (struct(column(1, "a.b"), column(2, "a", struct(column(3, "b")))), r"multiple fields for name a\.b"),
        (struct(column(1, "a", struct(column(2, "b"))), column(3, "a.b")), r"multiple fields for name a\.b"),
        (struct(column(1, "a", list_of(2, "int")), column(3, "a.element")), r"multiple fields for name a\.element"),
        (
            struct(column(1, "s", struct(column(2, "x.y"), column(3, "x", struct(column(4, "y")))))),
            r"multiple fields for name s\.x\.y",
        ),
        ({**struct(column(1, "a")), "identifier-field-ids": [2]}, "does not exist"),
        ({**struct(column(1, "a")), "identifier-field-ids": [1]}, "must be a required field"),
        ({**struct(column(1, "a", "double", required=True)), "identifier-field-ids": [1]}, "float or double"),
        (
            {**struct(column(1, "a", list_of(2, struct(column(3, "b", required=True))))), "identifier-field-ids": [3]},
            "nested in required structs only",
        ),
        (
            {**struct(column(1, "s", struct(column(2, "b", required=True)))), "identifier-field-ids": [2]},
            "nested in required structs only",
        ),
    ],
)
def test_a_new_schema_is_validated_and_an_old_one_is_not(raw: dict[str, Any], why: str) -> None:
    schema = Schema.parse(raw)
    with pytest.raises(InvalidInput, match=why):
        schema.validate()


def test_types_and_defaults_of_v3_need_v3() -> None:
    schema = Schema.parse(struct(column(1, "s", struct(column(2, "at", "timestamp_ns"))), column(3, "v", "variant")))
    schema.validate(3)
    with pytest.raises(InvalidInput, match=r"s\.at: timestamp_ns is not supported until v3; .* v: variant"):
        schema.validate(2)
    default = Schema.parse(struct(column(1, "a", **{"initial-default": 0})))
    default.validate(3)
    with pytest.raises(InvalidInput, match="Invalid initial default for a"):
        default.validate(1)
    with pytest.raises(InvalidInput, match="must be optional"):
        Schema.parse(struct(column(1, "a", "unknown", required=True))).validate(3)


def test_names_are_found_whatever_their_case() -> None:
    schema = Schema.parse(NESTED)
    for name in ("LOCATION.Lat", "location.lat"):
        found = schema.find_ignoring_case(name)
        assert found is not None
        assert found.id == 21
    assert schema.find_ignoring_case("Points.X").id == 32  # type: ignore[union-attr]
    assert schema.find_ignoring_case("none") is None


def test_a_name_of_several_fields_but_for_the_case_is_ambiguous() -> None:
    schema = Schema.parse(struct(column(1, "ab"), column(2, "aB")))
    assert schema.find_ignoring_case("aB").id == 2  # type: ignore[union-attr]
    with pytest.raises(InvalidInput, match="Column name AB is ambiguous: aB, ab"):
        schema.find_ignoring_case("AB")
