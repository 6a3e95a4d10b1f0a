from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import parse_type
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor
from iceberg_hms.metastore.tables.columns import columns, has_instants, has_long_comments, hive_type, storage_descriptor
from iceberg_hms.testing.contracts.table_pointer import table_metadata

NESTED: Any = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "A", "required": True, "type": "long"},
        {
            "id": 2,
            "name": "b",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 3,
                "key": "string",
                "value-id": 4,
                "value-required": False,
                "value": {"type": "list", "element-id": 5, "element-required": False, "element": "timestamptz"},
            },
        },
    ],
}

HIVE_2 = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double", "date": "date",
    "time": "string", "timestamp": "timestamp", "timestamptz": "timestamp", "string": "string", "uuid": "string",
    "fixed[16]": "binary", "binary": "binary", "decimal(9,2)": "decimal(9,2)", "timestamp_ns": "timestamp",
    "timestamptz_ns": "timestamp", "unknown": "string", "variant": "binary", "geometry(srid:4326)": "binary",
}  # fmt: skip


@pytest.mark.parametrize(("iceberg", "hive"), HIVE_2.items())
def test_types_are_written_as_java_writes_them_on_hive_2(iceberg: str, hive: str) -> None:
    assert hive_type(parse_type(iceberg), local_time_zones=False) == hive


@pytest.mark.parametrize("iceberg", ["timestamptz", "timestamptz_ns"])
def test_instants_have_a_type_of_their_own_on_hive_3(iceberg: str) -> None:
    assert hive_type(parse_type(iceberg), local_time_zones=True) == "timestamp with local time zone"


def test_nested_types_are_spelled_out() -> None:
    type_ = parse_type(NESTED)
    assert hive_type(type_, local_time_zones=False) == "struct<A:bigint,b:map<string,array<timestamp>>>"
    zoned = "struct<A:bigint,b:map<string,array<timestamp with local time zone>>>"
    assert hive_type(type_, local_time_zones=True) == zoned


def test_instants_are_found_however_deep() -> None:
    assert has_instants(parse_type(NESTED))
    assert not has_instants(parse_type({**NESTED, "fields": NESTED["fields"][:1]}))


def test_columns_carry_names_and_comments() -> None:
    metadata = table_metadata("file:/t", columns=((1, "Id", "long"), (2, "name", "string")))
    assert columns(metadata.schema, local_time_zones=False) == [
        FieldSchema(name="Id", type="bigint"),
        FieldSchema(name="name", type="string"),
    ]


def test_a_new_descriptor_is_javas() -> None:
    cols = [FieldSchema(name="id", type="int")]
    new = storage_descriptor(None, cols, "file:/t", hive_engine=False)
    assert (new.cols, new.location) == (cols, "file:/t")
    assert new.serdeInfo.serializationLib.endswith("LazySimpleSerDe")
    hive = storage_descriptor(None, cols, "file:/t", hive_engine=True)
    assert hive.inputFormat == "org.apache.iceberg.mr.hive.HiveIcebergInputFormat"
    assert hive.serdeInfo.serializationLib == "org.apache.iceberg.mr.hive.HiveIcebergSerDe"


def test_what_is_not_ours_stays_and_the_row_that_was_read_is_not_changed() -> None:
    serde = SerDeInfo(name="s", serializationLib="old", parameters={"a": "b"}, description="kept")
    current = StorageDescriptor(location="file:/old", bucketCols=["x"], numBuckets=3, serdeInfo=serde)
    new = storage_descriptor(current, [], "file:/new", hive_engine=False)
    assert (new.bucketCols, new.numBuckets) == (["x"], 3)
    assert (new.serdeInfo.description, new.serdeInfo.parameters) == ("kept", {"a": "b"})
    assert (current.location, current.serdeInfo.serializationLib) == ("file:/old", "old")


def schema_of(*fields: tuple[str, str | None]) -> Schema:
    raw = [
        {"id": number, "name": name, "required": False, "type": "int", **({} if doc is None else {"doc": doc})}
        for number, (name, doc) in enumerate(fields, 1)
    ]
    return Schema.parse({"type": "struct", "schema-id": 0, "fields": raw})


def test_a_column_that_is_a_partition_key_of_the_row_is_left_out() -> None:
    found = columns(schema_of(("a", None), ("P", None)), local_time_zones=False, keys={"p"})
    assert [column.name for column in found] == ["a"]


@pytest.mark.parametrize("odd", ["c" * 768, "nul\0", "A", "a "])
def test_a_column_that_no_metastore_may_hold_is_left_out(odd: str) -> None:
    found = columns(schema_of(("a", None), (odd, None), ("b", None)), local_time_zones=False)
    assert [column.name for column in found] == ["a", "b"]


def test_a_column_with_a_longer_type_than_every_metastore_holds_is_left_out_unless_the_row_has_it() -> None:
    fields = [{"id": each, "name": f"{'n' * 100}{each}", "required": False, "type": "int"} for each in range(10, 400)]
    wide = {"id": 1, "name": "Wide", "required": False, "type": {"type": "struct", "fields": fields}}
    schema = Schema.parse({"type": "struct", "schema-id": 0, "fields": [wide]})
    assert columns(schema, local_time_zones=False) == []
    held = FieldSchema(name="wide", type=hive_type(schema.fields[0].type, local_time_zones=False))
    assert [column.name for column in columns(schema, local_time_zones=False, current=[held])] == ["Wide"]


def test_a_long_comment_is_cut_unless_the_row_has_it() -> None:
    doc = "d" * 300
    schema = schema_of(("a", doc), ("b", "x\0y"), ("c", ""))
    assert has_long_comments(schema)
    found = columns(schema, local_time_zones=False)
    assert [column.comment for column in found] == ["d" * 253 + "...", "xy", ""]
    assert columns(schema, local_time_zones=False, comment_max=4_000)[0].comment == doc
    held = FieldSchema(name="a", type="int", comment=doc)
    assert columns(schema, local_time_zones=False, current=[held])[0].comment == doc
    assert not has_long_comments(schema_of(("a", "d" * 256), ("b", None)))
