"""Schemas equal Java's, field for field; relabelling keeps the layout."""

from __future__ import annotations

from typing import Any

import fastavro
import pytest

from iceberg_hms.errors import UnsupportedFormat
from iceberg_hms.format.avro import avro_file, manifest_schemas
from iceberg_hms.format.schema.types import NestedField, StructType, parse_type
from tests.format.samples import golden, golden_layout


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_schema_of_a_list_is_javas(version: int) -> None:
    assert manifest_schemas.manifest_file(version) == avro_file.decode(golden(f"v{version}-list.avro"), "x").schema


@pytest.mark.parametrize("name", ["v1-data", "v2-data", "v2-deletes", "v3-data", "v3-deletes"])
def test_the_schema_of_a_manifest_is_javas(name: str) -> None:
    version = int(name[1])
    schema, spec = golden_layout(version)
    ours = manifest_schemas.manifest_entry(version, spec.partition_type(schema))
    assert ours == avro_file.decode(golden(f"{name}.avro"), "x").schema


def partition(*types: str) -> StructType:
    return StructType(tuple(NestedField(1000 + at, f"p {at}", parse_type(each)) for at, each in enumerate(types)))


def partition_fields(*types: str) -> list[dict[str, Any]]:
    (data_file,) = [
        each for each in manifest_schemas.manifest_entry(3, partition(*types))["fields"] if each["field-id"] == 2
    ]
    (found,) = [each for each in data_file["type"]["fields"] if each["field-id"] == 102]
    return list(found["type"]["fields"])


def test_named_types_are_defined_once() -> None:
    types = ("uuid", "uuid", "fixed[3]", "fixed[3]", "decimal(9, 2)", "decimal(9, 2)", "decimal(9, 3)")
    kinds = [each["type"][1] for each in partition_fields(*types)]
    assert kinds[1::2][:3] == ["uuid_fixed", "fixed_3", "decimal_9_2"]
    assert kinds[6]["name"] == "decimal_9_3"
    fastavro.parse_schema(manifest_schemas.manifest_entry(3, partition(*types)))


def test_nanoseconds_have_their_own_logical_type() -> None:
    kinds = [each["type"][1] for each in partition_fields("timestamp_ns", "timestamptz_ns", "timestamp")]
    assert [(each["logicalType"], each["adjust-to-utc"]) for each in kinds] == [
        ("timestamp-nanos", False),
        ("timestamp-nanos", True),
        ("timestamp-micros", False),
    ]


def test_a_dropped_columns_partition_is_null() -> None:
    assert partition_fields("unknown")[0]["type"] == "null"


@pytest.mark.parametrize("kind", ["variant", "geometry"])
def test_types_that_cannot_partition_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedFormat, match=kind):
        manifest_schemas.manifest_entry(3, partition(kind))


@pytest.mark.parametrize("version", [0, 4])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedFormat, match=f"format-version {version}"):
        manifest_schemas.manifest_file(version)
    with pytest.raises(UnsupportedFormat, match=f"format-version {version}"):
        manifest_schemas.manifest_entry(version, partition())


@pytest.mark.parametrize(
    ("precision", "size"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (9, 4), (10, 5), (18, 8), (19, 9), (38, 16)]
)
def test_decimals_take_the_fewest_bytes(precision: int, size: int) -> None:
    assert manifest_schemas.decimal_size(precision) == size


@pytest.mark.parametrize(
    ("name", "avro"),
    [
        ("a", "a"),
        ("a-b", "a_x2Db"),
        ("1a", "_1a"),
        ("a b", "a_x20b"),
        ("a.b", "a_x2Eb"),
        ("a{b}", "a_x7Bb_x7D"),
        ("_", "_"),
        ("\U0001f600", "_xD83D_xDE00"),
        ("größe", "größe"),
        ("m2", "m2"),
        ("m²", "m_xB2"),
        ("²m", "_xB2m"),
        ("½", "_xBD"),
        ("Ⅳ", "_x2163"),
        ("a٣", "a٣"),
        ("٣a", "_٣a"),
        ("\U0001d400", "_xD835_xDC00"),
        ("a\U0001d7d8", "a_xD835_xDFD8"),
    ],
)
def test_names_are_escaped_for_avro_as_in_java(name: str, avro: str) -> None:
    struct = StructType((NestedField(1000, name, parse_type("int")),))
    (data_file,) = [each for each in manifest_schemas.manifest_entry(2, struct)["fields"] if each["field-id"] == 2]
    (field,) = next(each for each in data_file["type"]["fields"] if each["field-id"] == 102)["type"]["fields"]
    assert field["name"] == avro
    assert field.get("iceberg-field-name") == (None if name == avro else name)


@pytest.mark.parametrize(("one", "other"), [("a.b", "a_x2Eb"), ("1", "_1"), ("a²", "a_xB2")])
def test_two_names_that_are_equal_in_avro_are_refused(one: str, other: str) -> None:
    """Java cannot write such a manifest either, and no reader could parse it."""
    fields = (NestedField(1000, one, parse_type("int")), NestedField(1001, other, parse_type("int")))
    with pytest.raises(UnsupportedFormat, match=f"{one} and {other} are both named {other} in Avro"):
        manifest_schemas.manifest_entry(2, StructType(fields))


def test_relabelled_fields_are_named_by_id() -> None:
    renamed = {
        "type": "record",
        "name": "x",
        "fields": [
            {"name": "added_data_files_count", "type": ["null", "int"], "field-id": 504},
            {"name": "mine", "type": {"type": "long", "logicalType": "timestamp-micros"}, "field-id": 9_999},
            {"name": "no_id", "type": "int"},
        ],
    }
    names = manifest_schemas.known_fields(manifest_schemas.manifest_file(3))
    found = manifest_schemas.relabel(renamed, names)
    assert [field["name"] for field in found["fields"]] == ["added_files_count", "mine", "no_id"]
    assert found["fields"][1]["type"] == {"type": "long"}
    assert manifest_schemas.top_level_ids(renamed) == {504, 9_999}
    assert manifest_schemas.top_level_ids("string") == set()


def test_partition_fields_are_not_confused_with_others() -> None:
    # Old writers chose any ids for partition fields: 504 here is not the list's count.
    struct = StructType((NestedField(504, "status", parse_type("int")),))
    schema = manifest_schemas.manifest_entry(2, struct)
    labels = manifest_schemas.relabel(schema, manifest_schemas.known_fields(manifest_schemas.manifest_file(3)))
    data_file = labels["fields"][-1]["type"]
    (found,) = [field for field in data_file["fields"] if field["name"] == "partition"]
    assert [field["name"] for field in found["type"]["fields"]] == ["p504"]
