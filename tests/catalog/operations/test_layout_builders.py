"""Evolving the partition spec and the sort order through the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = pa.schema([("level", pa.string()), ("event_time", pa.timestamp("us")), ("id", pa.int64())])


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with memory_catalog() as made:
        made.create_namespace("logging")
        yield made


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("logging.events", SCHEMA, partition_spec=["day(event_time)"])


def fields(table: Table) -> list[str]:
    return [str(field) for field in table.spec.fields]


def test_fields_are_added_removed_and_renamed(table: Table) -> None:
    with table.update_spec() as spec:
        spec.add_field("id", "bucket(16)").add_identity("level").add_field("event_time", "hours", "at")
        spec.remove_field("event_time_day")
    assert fields(table) == ["1001: id_bucket_16: bucket[16](3)", "1002: level: identity(1)", "1003: at: hour(2)"]
    table.update_spec().rename_field("at", "hour_of_event").remove_field("id", "bucket[16]").commit()
    assert fields(table) == ["1002: level: identity(1)", "1003: hour_of_event: hour(2)"]


def test_equal_fields_get_their_id_again(table: Table) -> None:
    table.update_spec().remove_field("event_time", "day").add_identity("level").commit()
    table.update_spec().add_field("event_time", "days").commit()
    assert fields(table) == ["1001: level: identity(1)", "1000: event_time_day: day(2)"]


@pytest.mark.parametrize("transform", ["zorder", "bucket[0]", None])
def test_unknown_transforms_are_refused(table: Table, transform: Any) -> None:
    with pytest.raises(InvalidInput):
        table.update_spec().add_field("level", transform)


def test_writers_who_add_different_fields_both_succeed(table: Table, catalog: Catalog) -> None:
    other = catalog.load_table("logging.events")
    table.update_spec().add_identity("level").commit()
    other.update_spec().add_field("id", "bucket[4]").commit()
    assert fields(other)[1:] == ["1001: level: identity(1)", "1002: id_bucket_4: bucket[4](3)"]
    with pytest.raises(RequirementFailed, match="Cannot add duplicate partition field"):
        table.update_spec().add_field("id", "bucket[4]").commit()


def test_the_sort_order_is_replaced(table: Table) -> None:
    table.replace_sort_order().asc("level").desc("id", transform="bucket[4]", nulls="first").commit()
    assert [str(field) for field in table.metadata.sort_order.fields] == [
        "identity(1) asc nulls-first",
        "bucket[4](3) desc nulls-first",
    ]
    with table.replace_sort_order(case_sensitive=False) as order:
        order.desc("EVENT_TIME")
    assert [str(field) for field in table.metadata.sort_order.fields] == ["identity(2) desc nulls-last"]
    table.replace_sort_order().commit()
    assert table.metadata.sort_order.is_unsorted


def test_a_column_to_sort_by_exists(table: Table) -> None:
    with pytest.raises(InvalidInput, match="missing column: none"):
        table.replace_sort_order().asc("none")


def test_a_partition_column_goes_after_its_field_in_one_transaction(table: Table, catalog: Catalog) -> None:
    with table.transaction() as tx:
        tx.update_spec().remove_field("event_time_day").add_identity("level").commit()
        tx.update_schema().delete_column("event_time").commit()
        tx.replace_sort_order().asc("id").commit()
    assert catalog.load_table("logging.events").metadata.current_schema_id == 1
    assert fields(table) == ["1001: level: identity(1)"]
