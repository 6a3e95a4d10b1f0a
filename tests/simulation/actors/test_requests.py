"""Requirements that follow from updates, as Java's UpdateRequirements derives them."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes import requirements, updates
from simulation.actors import requests
from simulation.actors.requests import for_create_table, for_replace_table, for_update_table
from tests.changes.tables import UUID, branch, snapshot, table, with_main

IDENTITY = requirements.assert_table_uuid(UUID)
SCHEMA = {"type": "struct", "fields": []}


@pytest.mark.parametrize(
    ("made", "required"),
    [
        ([], []),
        ([updates.set_snapshot_ref("main", 9)], [requests.assert_ref_snapshot_id("main", 7)]),
        ([updates.set_snapshot_ref("new", 7)], [requests.assert_ref_snapshot_id("new", None)]),
        ([requests.add_schema(SCHEMA)], [requests.assert_last_assigned_field_id(2)]),
        ([requests.set_current_schema()], [requests.assert_current_schema_id(0)]),
        ([requests.add_spec({"fields": []})], [requests.assert_last_assigned_partition_id(999)]),
        ([requests.set_default_spec()], [requests.assert_default_spec_id(0)]),
        ([requests.set_default_sort_order()], [requests.assert_default_sort_order_id(0)]),
        ([updates.set_properties({"a": "1"})], []),
        ([requests.set_location("file:/x")], []),
        ([updates.add_snapshot(snapshot(9))], []),
        ([requests.remove_snapshots([7])], []),
        ([requests.remove_snapshot_ref("audit")], []),
        (
            [{"action": "remove-schemas", "schema-ids": [1]}],
            [requests.assert_current_schema_id(0), requests.assert_ref_snapshot_id("audit", 7)],
        ),
        (
            [{"action": "remove-partition-specs", "spec-ids": [1]}],
            [requests.assert_default_spec_id(0), requests.assert_ref_snapshot_id("audit", 7)],
        ),
    ],
    ids=lambda value: str(value)[:50],
)
def test_an_update_requires_what_it_was_made_from(made: Any, required: Any) -> None:
    refs = {"main": branch(7), "audit": branch(7), "v1": {"snapshot-id": 7, "type": "tag"}}
    assert for_update_table(with_main(7, refs=refs), made) == (IDENTITY, *required)


def test_each_requirement_stands_once() -> None:
    made = [
        requests.add_schema(SCHEMA),
        requests.set_current_schema(),
        requests.add_schema(SCHEMA),
        requests.set_current_schema(),
        updates.set_snapshot_ref("main", 8),
        updates.set_snapshot_ref("main", 9),
    ]
    assert for_update_table(with_main(7), made) == (
        IDENTITY,
        requests.assert_last_assigned_field_id(2),
        requests.assert_current_schema_id(0),
        requests.assert_ref_snapshot_id("main", 7),
    )


def test_a_replacement_requires_ids_that_were_not_given_and_nothing_else() -> None:
    made = [
        requests.add_schema(SCHEMA),
        requests.set_current_schema(),
        requests.add_spec({"fields": []}),
        requests.set_default_spec(),
        requests.set_default_sort_order(),
        updates.set_snapshot_ref("main", 9),
    ]
    assert for_replace_table(with_main(7), made) == (
        IDENTITY,
        requests.assert_last_assigned_field_id(2),
        requests.assert_last_assigned_partition_id(999),
    )


def test_a_new_table_requires_that_there_is_none() -> None:
    assert for_create_table() == (requests.assert_create(),)


def test_a_v1_table_without_uuid_has_no_uuid_requirement() -> None:
    assert for_update_table(table(1, table_uuid=None), [requests.set_location("file:/x")]) == ()
