"""The metadata of new tables."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pyiceberg.partitioning import PartitionSpec as PyIcebergSpec
from pyiceberg.schema import Schema as PyIcebergSchema
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.metadata import new_table_metadata as pyiceberg_new_table_metadata
from pyiceberg.table.sorting import SortOrder as PyIcebergOrder

from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortOrder
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.format.updates.create import create_updates, new_table_metadata

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 7,
    "fields": [
        {"id": 11, "name": "id", "required": True, "type": "long"},
        {
            "id": 12,
            "name": "p",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 15, "name": "at", "required": False, "type": "timestamp"}]},
        },
        {"id": 14, "name": "level", "required": False, "type": "string", "doc": "how bad"},
    ],
    "identifier-field-ids": [11],
}
SPEC: dict[str, Any] = {
    "spec-id": 3,
    "fields": [
        {"source-id": 15, "field-id": 1007, "transform": "day", "name": "at_day"},
        {"source-id": 14, "transform": "identity", "name": "level"},
    ],
}
ORDER: dict[str, Any] = {
    "order-id": 5,
    "fields": [{"source-id": 11, "transform": "identity", "direction": "desc", "null-order": "nulls-last"}],
}


def make(properties: dict[str, str] | None = None, **more: Any) -> TableMetadata:
    arguments: dict[str, Any] = {
        "schema": Schema.parse(SCHEMA),
        "spec": PartitionSpec.parse(SPEC),
        "order": SortOrder.parse(ORDER),
        "location": "file:/a b/t/",
        "properties": properties or {},
        "uuid": UUID,
        "now_ms": 99,
        **more,
    }
    return new_table_metadata(**arguments)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_ids_are_fresh_and_spec_and_order_use_the_new_ids(version: int) -> None:
    metadata = make(format_version=version)
    metadata.verify()
    assert metadata.format_version == version
    assert (metadata.uuid, metadata.location, metadata.last_updated_ms) == (UUID, "file:/a b/t", 99)
    assert {field.name: field.id for field in metadata.schema.fields} == {"id": 1, "p": 2, "level": 3}
    assert metadata.schema.find("p.at") == metadata.schema.field(4)
    assert metadata.schema.schema_id == 0
    assert metadata.schema.identifier_field_ids == {1}
    assert metadata.last_column_id == 4
    assert [str(field) for field in metadata.spec.fields] == ["1000: at_day: day(4)", "1001: level: identity(3)"]
    assert (metadata.spec.spec_id, metadata.last_partition_id) == (0, 1001)
    assert (metadata.sort_order.order_id, [field.source_id for field in metadata.sort_order.fields]) == (1, [1])
    assert (metadata.current_snapshot_id, metadata.refs, list(metadata.snapshots)) == (None, {}, [])
    assert metadata.properties == {"write.parquet.compression-codec": "zstd"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_and_would_have_made_the_same(version: int) -> None:
    ours = make(format_version=version, spec=None, order=None)
    theirs = pyiceberg_new_table_metadata(
        schema=PyIcebergSchema.model_validate(SCHEMA),
        partition_spec=PyIcebergSpec(),
        sort_order=PyIcebergOrder(order_id=0),
        location="file:/a b/t",
        properties={"format-version": str(version), "write.parquet.compression-codec": "zstd"},
        table_uuid=TableMetadataUtil.parse_raw(ours.to_bytes().decode()).table_uuid,
    ).model_copy(update={"last_updated_ms": 99} | ({"next_row_id": 0} if version == 3 else {}))
    assert TableMetadataUtil.parse_raw(ours.to_bytes().decode()) == theirs


@pytest.mark.parametrize("version", [1, 2])
def test_a_table_that_pyiceberg_makes_is_read(version: int) -> None:
    theirs = pyiceberg_new_table_metadata(
        schema=PyIcebergSchema.model_validate(SCHEMA),
        partition_spec=PyIcebergSpec.model_validate(
            {"spec-id": 0, "fields": [{**SPEC["fields"][1], "field-id": 1000}]}
        ),
        sort_order=PyIcebergOrder.model_validate(ORDER),
        location="file:/a b/t",
        properties={"format-version": str(version)},
    )
    ours = TableMetadata.parse(theirs.model_dump_json()).verify()
    assert ours.uuid == str(theirs.table_uuid)
    assert ours.schema.identifier_field_ids == {1}
    assert [field.source_id for field in ours.sort_order.fields] == [1]
    assert orjson.loads(ours.to_bytes()) == orjson.loads(theirs.model_dump_json())


def test_fields_that_a_version_lacks_are_not_written() -> None:
    assert not {"last-sequence-number", "next-row-id"} & make(format_version=1).raw.keys()
    assert {"schema", "partition-spec"} <= make(format_version=1).raw.keys()
    assert not {"schema", "partition-spec", "next-row-id"} & make(format_version=2).raw.keys()
    assert make(format_version=2).raw["current-snapshot-id"] == -1
    assert make(format_version=3).raw["current-snapshot-id"] is None
    assert make(format_version=3).raw["next-row-id"] == 0
    assert next(iter(make().raw)) == "format-version"


def test_the_format_version_property_is_consumed() -> None:
    metadata = make({"format-version": "3", "a": "b", "write.parquet.compression-codec": "gzip"}, format_version=1)
    assert metadata.format_version == 3
    assert metadata.properties == {"a": "b", "write.parquet.compression-codec": "gzip"}


def test_without_a_spec_and_order_the_table_has_empty_ones() -> None:
    metadata = make(spec=None, order=None)
    assert metadata.spec.raw == {"spec-id": 0, "fields": []}
    assert metadata.sort_order.raw == {"order-id": 0, "fields": []}
    assert metadata.last_partition_id == 999


@pytest.mark.parametrize("version", [1, 2, 3])
def test_create_updates_make_the_same_table(version: int) -> None:
    metadata = make({"x": "y"}, format_version=version)
    updates = create_updates(metadata)
    assert [update["action"] for update in updates] == [
        *("assign-uuid", "upgrade-format-version", "add-schema", "set-current-schema", "add-spec", "set-default-spec"),
        *("add-sort-order", "set-default-sort-order", "set-location", "set-properties"),
    ]
    assert apply(None, orjson.loads(orjson.dumps(updates)), now_ms=99) == metadata


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"current-snapshot-id": "5"}, "reserved properties, but got current-snapshot-id"),
        ({"uuid": "x"}, "reserved properties"),
        ({"format-version": "two"}, "format-version must be"),
        ({"write.metadata.metrics.column.nope": "full"}, "could not find column nope"),
        ({"commit.retry.num-retries": "-1"}, "commit.retry.num-retries must be a whole number from 0"),
        ({"write.metadata.compression-codec": "lz77"}, "must be none or gzip"),
        ({"write.metadata.previous-versions-max": "lots"}, "must be a whole number"),
        ({"commit.manifest.target-size-bytes": "8 MB"}, "must be a whole number from 1"),
    ],
)
def test_invalid_properties_are_refused(properties: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        make(properties)


def test_valid_properties_with_columns_and_numbers_are_accepted() -> None:
    good = {"write.metadata.metrics.column.p.at": "none", "commit.retry.num-retries": "0"}
    assert make(good).properties.items() >= good.items()


@pytest.mark.parametrize(
    "more",
    [{"format_version": 4}, {"properties": {"format-version": "4"}}, {"properties": {"encryption.key-id": "k"}}],
)
def test_unsupported_features_are_refused_as_unsupported(more: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFormat):
        make(**more)


@pytest.mark.parametrize(
    "more",
    [
        {"spec": PartitionSpec.parse({"fields": [{"source-id": 99, "transform": "identity", "name": "x"}]})},
        {"spec": PartitionSpec.parse({"fields": [{"source-id": 11, "transform": "day", "name": "x"}]})},
        {"spec": PartitionSpec.parse({"fields": [{"source-id": 11, "transform": "identity", "name": "level"}]})},
        {"order": SortOrder.parse({"fields": [{**ORDER["fields"][0], "source-id": 12}]})},
        {"schema": Schema.parse({**SCHEMA, "identifier-field-ids": [14]})},
        {"location": ""},
        {"format_version": 0},
        {
            "format_version": 2,
            "schema": Schema.parse({"fields": [{"id": 11, "name": "id", "required": False, "type": "variant"}]}),
        },
    ],
)
def test_an_invalid_table_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make(**{"spec": None, "order": None, **more})
