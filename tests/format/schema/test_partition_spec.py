"""Partition specs, and which ids their fields have."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.partition_spec import UNPARTITIONED, PartitionField, PartitionFieldIds, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import Bucket, UnknownTransform, parse_transform
from iceberg_hms.format.schema.types import parse_type

SCHEMA = Schema.parse(
    {
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "long"},
            {"id": 2, "name": "at", "required": True, "type": "timestamp"},
            {
                "id": 3,
                "name": "s",
                "required": False,
                "type": {"type": "struct", "fields": [{"id": 4, "name": "x", "required": False, "type": "string"}]},
            },
            {
                "id": 5,
                "name": "l",
                "required": False,
                "type": {"type": "list", "element-id": 6, "element-required": True, "element": "string"},
            },
        ]
    }
)


def spec(*fields: tuple[int, str, str], spec_id: int = 0, **more: Any) -> PartitionSpec:
    raw = [{"source-id": source, "transform": transform, "name": name} for source, transform, name in fields]
    return PartitionSpec.parse({"spec-id": spec_id, "fields": raw, **more})


def test_fields_without_ids_count_from_1000() -> None:
    parsed = spec((2, "day", "at_day"), (1, "bucket[16]", "id_bucket"), spec_id=3)
    assert parsed.spec_id == 3
    assert [str(field) for field in parsed.fields] == ["1000: at_day: day(2)", "1001: id_bucket: bucket[16](1)"]
    assert parsed.last_field_id == 1001
    assert parsed.has_sequential_ids()
    assert parsed.field(1001) == PartitionField(1, 1001, parse_transform("bucket[16]"), "id_bucket")
    assert parsed.field(7) is None


def test_the_partition_type_has_the_results_of_the_transforms() -> None:
    type_ = spec((2, "hour", "h"), (4, "truncate[3]", "t"), (9, "void", "gone")).partition_type(SCHEMA)
    assert [(field.id, field.name, str(field.type), field.required) for field in type_.fields] == [
        (1000, "h", "int", False),
        (1001, "t", "string", False),
        (1002, "gone", "unknown", False),
    ]


def test_specs_are_compatible_if_they_partition_rows_the_same_way() -> None:
    one = spec((2, "day", "d"), (1, "identity", "i"), spec_id=1)
    other = one.with_id(2, [1005, 1004])
    assert one.content == other.content
    assert one != other
    assert not other.has_sequential_ids()
    assert one.content != spec((1, "identity", "i"), (2, "day", "d")).content
    assert one.content != spec((2, "day", "renamed"), (1, "identity", "i")).content
    assert one.content != spec((2, "hour", "d"), (1, "identity", "i")).content
    assert one.content != spec((2, "day", "d")).content


def test_a_spec_of_void_fields_partitions_nothing() -> None:
    assert UNPARTITIONED.is_unpartitioned
    assert UNPARTITIONED.last_field_id == 999
    assert spec((1, "void", "v")).is_unpartitioned
    assert not spec((1, "void", "v"), (2, "day", "d")).is_unpartitioned


def test_unknown_transforms_several_sources_and_unknown_fields_survive() -> None:
    raw = {
        "spec-id": 1,
        "fields": [{"source-ids": [1, 2], "field-id": 1000, "transform": "zorder", "name": "z", "hint": 1}],
        "tomorrow": 1,
    }
    parsed = PartitionSpec.parse(raw)
    assert parsed.raw == raw
    assert parsed.fields[0].source_id == 1
    assert str(parsed.fields[0].transform) == "zorder"
    assert parsed.with_id(2).raw == {**raw, "spec-id": 2}


def of_sources(*ids: int, transform: str = "bucket[16]", **more: Any) -> PartitionSpec:
    field = {"source-ids": list(ids), "field-id": 1000, "transform": transform, "name": "b", **more}
    return PartitionSpec.parse({"spec-id": 0, "fields": [field]})


@pytest.mark.parametrize("transform", ["bucket[16]", "truncate[4]", "identity", "day", "zorder"])
@pytest.mark.parametrize("more", [{}, {"source-id": 1}], ids=["source-ids alone", "both"])
def test_a_transform_of_several_columns_is_unknown(transform: str, more: dict[str, int]) -> None:
    """Its values are not buckets of the first column, so nobody may write or prune as if they were."""
    (field,) = of_sources(1, 2, transform=transform, **more).fields
    assert field.transform == UnknownTransform(transform)
    assert (field.source_id, field.more_source_ids) == (1, (2,))
    assert str(field) == f"1000: b: {transform}(1, 2)"
    with pytest.raises(InvalidInput, match="Cannot apply unknown transform"):
        field.transform.apply(5, parse_type("long"))


def test_one_column_may_be_written_as_a_list() -> None:
    (field,) = of_sources(1).fields
    assert (field.transform, field.source_id, field.more_source_ids) == (Bucket(16), 1, ())


def test_specs_of_other_columns_are_not_compatible() -> None:
    assert of_sources(1, 2).content == of_sources(1, 2).content
    assert of_sources(1, 2).content != of_sources(1, 3).content
    assert of_sources(1, 2).content != of_sources(1).content


def test_a_spec_of_fields_names_all_its_columns() -> None:
    made = PartitionSpec.of(of_sources(1, 2).fields)
    assert made.raw == of_sources(1, 2).raw
    assert made.fields == of_sources(1, 2).fields


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ((9, "identity", "x"), "Cannot find source column"),
        ((3, "identity", "x"), "non-primitive"),
        ((6, "identity", "x"), "Invalid partition field parent"),
        ((1, "day", "x"), "Invalid source type long for transform: day"),
    ],
)
def test_a_spec_that_does_not_fit_the_schema_is_refused(fields: tuple[int, str, str], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        spec(fields).check_compatible(SCHEMA)
    spec((4, "identity", "x"), (9, "void", "y"), (1, "bucket[2]", "z")).check_compatible(SCHEMA)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        {"fields": {}},
        {"fields": [1]},
        {"fields": [{"source-id": 1, "transform": "identity"}]},
        {"fields": [{"source-id": 1, "name": "a"}]},
        {"fields": [{"name": "a", "transform": "identity"}]},
        {"fields": [{"source-ids": [], "name": "a", "transform": "identity"}]},
        {"fields": [{"source-id": "1", "name": "a", "transform": "identity"}]},
        {"fields": [], "spec-id": "0"},
    ],
)
def test_json_that_is_not_a_spec_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidInput):
        PartitionSpec.parse(raw)


def test_a_spec_is_made_of_fields() -> None:
    made = PartitionSpec.of([PartitionField(2, 1000, parse_transform("month"), "m")], spec_id=5)
    assert made == PartitionSpec.parse(made.raw)
    assert made.raw["fields"] == [{"source-id": 2, "field-id": 1000, "transform": "month", "name": "m"}]


@pytest.mark.parametrize(
    ("names", "why"), [(("a", "a"), "Cannot use partition name more than once: a"), (("",), "empty partition name")]
)
def test_a_field_needs_a_name_of_its_own(names: tuple[str, ...], why: str) -> None:
    named = spec(*((1, "identity", name) for name in names))
    with pytest.raises(InvalidInput, match=why):
        named.check_names()


def field(source_id: int, field_id: int, transform: str = "identity") -> PartitionField:
    return PartitionField(source_id, field_id, parse_transform(transform), f"f{field_id}")


def spec_of(*fields: PartitionField) -> PartitionSpec:
    return PartitionSpec.of(fields)


def test_an_equal_field_gives_its_id() -> None:
    ids = PartitionFieldIds([spec_of(field(1, 1000)), spec_of(field(2, 1001, "day"))])
    assert ids.id_of(field(2, 0, "day")) == 1001
    assert ids.id_of(field(2, 0)) is None


def test_of_several_ids_the_last_counts() -> None:
    ids = PartitionFieldIds([spec_of(field(1, 1000)), spec_of(field(1, 1001)), spec_of(field(1, 1000))])
    assert ids.id_of(field(1, 0)) == 1000


def test_an_id_of_another_field_is_taken() -> None:
    ids = PartitionFieldIds([spec_of(field(1, 1000)), spec_of(field(2, 1000))])
    assert ids.belongs_to_another(field(3, 1000))
    assert not ids.belongs_to_another(field(2, 1000))
    assert not ids.belongs_to_another(field(3, 1001))


def test_a_removed_spec_gives_its_ids_back_unless_another_has_them() -> None:
    first, second = spec_of(field(1, 1000), field(2, 1001)), spec_of(field(1, 1000))
    ids = PartitionFieldIds([first, second])
    ids.remove(first)
    assert ids.id_of(field(1, 0)) == 1000
    assert ids.id_of(field(2, 0)) is None
    assert not ids.belongs_to_another(field(9, 1001))
    assert ids.belongs_to_another(field(9, 1000))
