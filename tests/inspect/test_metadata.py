"""Table metadata as rows."""

from __future__ import annotations

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.inspect.metadata import (
    column_name,
    column_rows,
    metadata_facts,
    metadata_log_rows,
    sort_order_rows,
    spec_rows,
)
from tests.inspect import samples

FIELDS = ("id", "is_default", "field_id", "field", "transform", "source", "order")


def rows(names: tuple[str, ...], *values: tuple[object, ...]) -> list[dict[str, object]]:
    return [dict(zip(names, each, strict=True)) for each in values]


def test_the_facts_are_those_of_the_file() -> None:
    facts = metadata_facts(samples.metadata(), samples.METADATA_LOCATION)
    assert facts["metadata_location"] == samples.METADATA_LOCATION
    assert (facts["format_version"], facts["snapshots"], facts["current_snapshot_id"]) == (2, 3, samples.SECOND)
    assert (facts["default_spec_id"], facts["current_schema_id"], facts["last_column_id"]) == (1, 0, 6)
    assert facts["next_row_id"] is None


def test_row_ids_are_shown_only_for_v3() -> None:
    facts = metadata_facts(samples.metadata(format_version=3, next_row_id=40), samples.METADATA_LOCATION)
    assert facts["next_row_id"] == 40


def test_columns_are_listed_with_their_nested_fields() -> None:
    columns = ("field_id", "name", "type", "required", "identifier", "doc")
    assert column_rows(samples.metadata().schema) == rows(
        columns,
        (1, "level", "string", True, True, "how bad"),
        (2, "event_time", "timestamp", False, False, None),
        (3, "message", "string", False, False, None),
        (4, "call_stack", "list", False, False, None),
        (5, "call_stack.element", "string", False, False, None),
    )


def test_all_specs_are_listed_with_the_default_marked_and_dropped_columns_by_their_last_name() -> None:
    assert spec_rows(samples.metadata()) == rows(
        FIELDS,
        (0, False, None, None, None, None, None),
        (1, True, 1000, "event_time_day", "day", "event_time", None),
        (1, True, 1001, "gone_odd", "odd[2]", "gone", None),
    )


def test_sort_orders_show_the_direction() -> None:
    assert sort_order_rows(samples.metadata()) == rows(
        FIELDS,
        (0, True, None, None, None, None, None),
        (1, False, None, "level", "identity", "level", "asc nulls-first"),
    )


def test_the_metadata_log_ends_with_the_current_file() -> None:
    assert metadata_log_rows(samples.metadata(), samples.METADATA_LOCATION) == rows(
        ("timestamp_ms", "metadata_location", "is_current"),
        (1_617_280_000_001, f"{samples.LOCATION}/metadata/00002-b.metadata.json", False),
        (1_617_280_000_009, samples.METADATA_LOCATION, True),
    )


def test_a_column_that_no_schema_has_is_shown_by_its_id() -> None:
    assert column_name(samples.metadata(), 99) == "#99"


def test_all_columns_of_a_transform_are_shown() -> None:
    of_two = {"source-ids": [1, 99], "field-id": 1000, "transform": "zorder", "name": "z"}
    by_two = {"source-ids": [1, 99], "transform": "zorder", "direction": "asc", "null-order": "nulls-first"}
    metadata = TableMetadata.parse(
        {
            **samples.metadata().raw,
            "partition-specs": [{"spec-id": 1, "fields": [of_two]}],
            "sort-orders": [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [by_two]}],
        }
    )
    first = column_name(metadata, 1)
    assert [row["source"] for row in spec_rows(metadata)] == [f"{first}, #99"]
    assert [row["source"] for row in sort_order_rows(metadata)] == [None, f"{first}, #99"]
