"""Reading files that were written with one schema of a table with another one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from iceberg_hms.changes.evolution import (
    add_schema_names,
    check_promotion,
    incompatible_columns,
    is_promotion_allowed,
    promoted_default,
    remapped_names,
)
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import parse_type
from tests.changes.operations.columns import column, wide_table


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def list_of(element_id: int, element: Any, required: bool = False) -> dict[str, Any]:
    return {"type": "list", "element-id": element_id, "element": element, "element-required": required}


def map_of(key_id: int, value_id: int, value: Any) -> dict[str, Any]:
    map_ = {"type": "map", "key-id": key_id, "key": "string", "value-id": value_id, "value": value}
    return {**map_, "value-required": False}


def schema(*fields: dict[str, Any]) -> Schema:
    return Schema.parse(struct(*fields))


WRITTEN = schema(
    column(1, "id"),
    column(2, "small", "int"),
    column(3, "price", "decimal(9, 2)"),
    column(4, "day", "date"),
    column(5, "s", struct(column(6, "x"), column(7, "y", "float"))),
    column(8, "tags", list_of(9, struct(column(10, "t", "string")))),
    column(11, "m", map_of(12, 13, "int")),
    column(14, "sure", required=True),
    column(15, "nothing", "unknown"),
)


def like_written(**changes: dict[str, Any] | None) -> Schema:
    """WRITTEN with columns changed by name; None drops one, and new names are added."""
    fields = {field["name"]: field for field in WRITTEN.raw["fields"]} | changes
    return schema(*(field for field in fields.values() if field is not None))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"id": None},
        {"more": column(20, "more")},
        {"more": column(20, "more", required=True, **{"initial-default": 5})},
        {"more": column(20, "more", struct(column(21, "inner", required=True)))},
        {"id": column(1, "renamed")},
        {"small": column(2, "small", "long")},
        {"price": column(3, "price", "decimal(12, 2)")},
        {"day": column(4, "day", "timestamp")},
        {"s": column(5, "s", struct(column(7, "z", "double"), column(6, "x")))},
        {"s": column(5, "s", struct(column(7, "y", "float")))},
        {"tags": column(8, "tags", list_of(9, struct(column(10, "u", "string"), column(20, "v"))))},
        {"m": column(11, "m", map_of(12, 13, "long"))},
        {"sure": column(14, "sure")},
        {"nothing": column(15, "nothing", "string")},
        {"nothing": column(15, "nothing", list_of(30, "long"))},
    ],
    ids=str,
)
def test_legal_evolution_leaves_files_readable(changes: dict[str, Any]) -> None:
    assert incompatible_columns(WRITTEN, like_written(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": column(1, "id", "string")}, "column id was long and is string now"),
        ({"id": column(1, "id", "int")}, "column id was long and is int now"),
        ({"price": column(3, "price", "decimal(12, 3)")}, "column price was decimal(9, 2) and is decimal(12, 3) now"),
        ({"price": column(3, "price", "decimal(8, 2)")}, "column price was decimal(9, 2) and is decimal(8, 2) now"),
        ({"day": column(4, "day", "timestamptz")}, "column day was date and is timestamptz now"),
        ({"s": column(5, "s")}, "column s was a struct and is long now"),
        ({"s": column(5, "s", list_of(6, "long"))}, "column s was a struct and is a list with element id 6 now"),
        ({"s": column(5, "s", struct(column(6, "x", "date")))}, "column s.x was long and is date now"),
        (
            {"tags": column(8, "tags", list_of(30, struct(column(10, "t", "string"))))},
            "column tags was a list with element id 9 and is a list with element id 30 now",
        ),
        (
            {"m": column(11, "m", map_of(12, 30, "int"))},
            "column m was a map with key id 12 and value id 13 and is a map with key id 12 and value id 30 now",
        ),
        ({"more": column(20, "more", required=True)}, "column more is new and required, and has no default"),
        (
            {"s": column(5, "s", struct(column(6, "x"), column(20, "new", required=True)))},
            "column s.new is new and required, and has no default",
        ),
        (
            {"tags": column(8, "tags", list_of(9, struct(column(20, "new", required=True))))},
            "column tags.element.new is new and required, and has no default",
        ),
        ({"id": column(1, "id", required=True)}, "column id was optional and is required now"),
        (
            {"id": column(1, "id", required=True, **{"initial-default": 5})},
            "column id was optional and is required now",
        ),
    ],
    ids=str,
)
def test_a_column_that_means_something_else_is_named(changes: dict[str, Any], problem: str) -> None:
    assert incompatible_columns(WRITTEN, like_written(**changes))[0] == problem


def test_a_field_that_moved_into_another_column_is_named() -> None:
    moved = like_written(s=column(5, "s", struct(column(7, "y", "float"))), x=column(6, "x"))
    assert incompatible_columns(WRITTEN, moved) == ["column x was s.x, which is in another place"]


def test_every_incompatible_column_is_reported() -> None:
    found = incompatible_columns(WRITTEN, schema(column(1, "id", "date"), column(2, "small", "date")))
    assert found == ["column id was long and is date now", "column small was int and is date now"]


def test_a_promotion_is_never_reversed() -> None:
    for old, new in (("int", "long"), ("float", "double"), ("decimal(9, 2)", "decimal(10, 2)"), ("date", "timestamp")):
        assert is_promotion_allowed(parse_type(old), parse_type(new))
        assert not is_promotion_allowed(parse_type(new), parse_type(old))


def mapping(*entries: tuple[int | None, str, *tuple[Any, ...]]) -> str:
    return orjson.dumps(
        [{"field-id": id_, "names": [name], **({"fields": more[0]} if more else {})} for id_, name, *more in entries]
    ).decode()


NESTED = [{"field-id": 3, "names": ["x"]}]


@pytest.mark.parametrize(
    ("now", "moved"),
    [
        (mapping((1, "id"), (2, "s", NESTED)), []),
        ('[{"names": ["s"], "field-id": 2, "fields": [{"field-id": 3, "names": ["y", "x"]}]}, '
         '{"field-id": 1, "names": ["id", "key"]}, {"field-id": 4, "names": ["more"]}]', []),
        (mapping((5, "id"), (2, "s", NESTED)), ["id"]),
        (mapping((2, "s", [{"field-id": 6, "names": ["x"]}])), ["id", "s.x"]),
        ("[]", ["id", "s", "s.x"]),
        ("not json", ["id", "s", "s.x"]),
        ('{"field-id": 1}', ["id", "s", "s.x"]),
        ('[1, {"field-id": 1, "names": null}]', ["id", "s", "s.x"]),
    ],
)  # fmt: skip
def test_names_that_now_belong_to_other_columns_are_reported(now: str, moved: list[str]) -> None:
    assert remapped_names(mapping((1, "id"), (2, "s", NESTED), (None, "nobody")), now) == moved


def test_a_mapping_without_names_removes_none() -> None:
    assert remapped_names("[]", "anything") == []


def test_a_mapping_is_extended_by_the_names_of_a_schema() -> None:
    evolved = schema(
        column(1, "key"),
        column(2, "s", struct(column(3, "y"), column(4, "z", list_of(5, "int")))),
        column(6, "gone", "int"),
        column(8, "more"),
    )
    planned = mapping((1, "id"), (2, "s", NESTED), (7, "gone"))
    assert orjson.loads(add_schema_names(planned, evolved)) == [
        {"field-id": 1, "names": ["id", "key"]},
        {
            "field-id": 2,
            "names": ["s"],
            "fields": [
                {"field-id": 3, "names": ["x", "y"]},
                {"field-id": 4, "names": ["z"], "fields": [{"field-id": 5, "names": ["element"]}]},
            ],
        },
        {"field-id": 7, "names": ["gone"]},
        {"field-id": 6, "names": []},
        {"field-id": 8, "names": ["more"]},
    ]
    assert remapped_names(planned, add_schema_names(planned, evolved)) == []


def test_an_unreadable_mapping_is_kept() -> None:
    assert add_schema_names("mine", WRITTEN) == "mine"


def test_a_mapping_may_leave_names_and_fields_out() -> None:
    bare = schema(column(1, "id"), column(2, "s", struct(column(3, "x"))))
    found = orjson.loads(add_schema_names('[{"field-id": 1}, {"field-id": 2, "names": ["s"], "fields": null}]', bare))
    assert [(each["names"], each.get("fields")) for each in found] == [(["id"], None), (["s"], NESTED)]


def check(old: str, new: str, *, version: int = 3, transform: str | None = None, old_spec: bool = False) -> None:
    spec = {"spec-id": 0, "fields": []}
    if transform is not None:
        spec["fields"] = [{"source-id": 1, "field-id": 1000, "transform": transform, "name": "part"}]
    specs = [spec, {"spec-id": 1, "fields": []}]
    base = wide_table(
        version,
        columns=[column(1, "c", old)],
        partition_specs=specs,
        default_spec_id=1 if old_spec else 0,
        last_partition_id=1000,
    )
    check_promotion(base, "c", base.schema.fields[0], parse_type(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [("int", "long"), ("float", "double"), ("decimal(9,2)", "decimal(10,2)"), ("string", "string")],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_widens_numbers(old: str, new: str, version: int) -> None:
    check(old, new, version=version)


@pytest.mark.parametrize(("old", "new"), [("date", "timestamp"), ("date", "timestamp_ns"), ("unknown", "string")])
def test_version_three_promotes_more(old: str, new: str) -> None:
    check(old, new)
    with pytest.raises(InvalidInput, match=f"c: {old} -> {new}: this promotion needs format version 3"):
        check(old, new, version=2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "int"),
        ("double", "float"),
        ("decimal(9,2)", "decimal(8,2)"),
        ("decimal(9,2)", "decimal(10,3)"),
        ("date", "timestamptz"),
        ("date", "timestamptz_ns"),
        ("timestamp", "timestamp_ns"),
        ("int", "string"),
        ("string", "binary"),
        ("int", "unknown"),
    ],
)
def test_the_spec_has_no_other_promotion(old: str, new: str) -> None:
    with pytest.raises(InvalidInput, match="Cannot change column type: c: "):
        check(old, new)


@pytest.mark.parametrize("transform", ["identity", "bucket[4]"])
@pytest.mark.parametrize("old_spec", [False, True])
def test_a_date_whose_partition_values_would_change_stays(transform: str, old_spec: bool) -> None:
    with pytest.raises(InvalidInput, match=r"partition field part .* of spec 0 would change"):
        check("date", "timestamp", transform=transform, old_spec=old_spec)


@pytest.mark.parametrize("transform", ["year", "month", "day", "void"])
def test_a_date_whose_partition_values_stay_is_promoted(transform: str) -> None:
    check("date", "timestamp", transform=transform)


def test_numbers_keep_their_partition_values() -> None:
    check("int", "long", transform="bucket[4]")
    check("int", "long", transform="truncate[4]")
    check("decimal(9,2)", "decimal(12,2)", transform="bucket[4]")


def test_only_a_dates_default_changes_its_form() -> None:
    assert promoted_default(types.DATE, types.TIMESTAMP_NS, "2021-04-01") == "2021-04-01T00:00:00"
    assert promoted_default(types.DATE, types.TIMESTAMP, None) is None
    assert promoted_default(types.INT, types.LONG, 5) == 5
