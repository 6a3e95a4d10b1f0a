"""Partition values as people read them."""

from __future__ import annotations

import pytest

from iceberg_hms.format.metadata.partition_text import partition_values, source_type
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.types import PrimitiveType
from tests.inspect import samples


def partitioned_by(type_: str, transform: str) -> TableMetadata:
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "c", "required": False, "type": type_}]}
    fields = [{"source-id": 1, "field-id": 1000, "name": "p", "transform": transform}]
    return samples.metadata(
        schemas=[schema],
        partition_specs=[{"spec-id": 0, "fields": fields}],
        default_spec_id=0,
        sort_orders=[{"order-id": 0, "fields": []}],
    )


@pytest.mark.parametrize(
    ("type_", "transform", "value", "text"),
    [
        ("timestamp", "day", samples.DAY_1, "2021-04-01"),
        ("timestamp", "hour", 0, "1970-01-01-00"),
        ("date", "month", 615, "2021-04"),
        ("date", "year", 51, "2021"),
        ("string", "identity", "a b", "a b"),
        ("string", "bucket[16]", 3, "3"),
        ("long", "truncate[10]", -20, "-20"),
        ("string", "identity", None, "null"),
        ("string", "void", None, "null"),
    ],
)
def test_values_are_readable_for_each_transform(type_: str, transform: str, value: object, text: str) -> None:
    metadata = partitioned_by(type_, transform)
    assert partition_values(metadata, metadata.spec, {"p": value}) == {"p": text}


def test_a_value_of_an_unknown_transform_or_column_is_shown_raw() -> None:
    metadata = samples.metadata()
    shown = partition_values(metadata, metadata.spec, {"event_time_day": samples.DAY_2, "gone_odd": 5})
    assert shown == {"event_time_day": "2021-04-02", "gone_odd": "5"}


def test_a_value_of_the_wrong_type_is_shown_raw() -> None:
    metadata = samples.metadata()
    assert partition_values(metadata, metadata.spec, {"event_time_day": "x"})["event_time_day"] == "x"


def test_a_columns_type_is_found_in_older_schemas() -> None:
    assert source_type(samples.metadata(), 6) == PrimitiveType("int")
    assert source_type(samples.metadata(), 99) is None
