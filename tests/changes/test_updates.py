"""Updates: their shapes, which are checked once, when a request arrives."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.updates import parse
from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.metadata.snapshot import Ref
from simulation.actors import requests
from tests.changes.tables import UUID, snapshot

STATISTICS = {
    "snapshot-id": 7,
    "statistics-path": "file:/stats.puffin",
    "file-size-in-bytes": 10,
    "file-footer-size-in-bytes": 4,
    "blob-metadata": [],
}
PARTITION_STATISTICS = {"snapshot-id": 7, "statistics-path": "file:/stats.parquet", "file-size-in-bytes": 10}

WELL_FORMED: list[dict[str, Any]] = [
    {**requests.assign_uuid(UUID)},
    {**requests.upgrade_format_version(2)},
    {**requests.add_schema({"type": "struct", "fields": []})},
    {**requests.set_current_schema()},
    {"action": "remove-schemas", "schema-ids": [1]},
    {**requests.add_spec({"fields": []})},
    {**requests.set_default_spec()},
    {"action": "remove-partition-specs", "spec-ids": [1]},
    {**requests.add_sort_order({"order-id": 1, "fields": []})},
    {**requests.set_default_sort_order()},
    {**updates.add_snapshot(snapshot(7))},
    {**requests.remove_snapshots([7])},
    {**updates.set_snapshot_ref("main", 7)},
    {**requests.remove_snapshot_ref("audit")},
    {**updates.set_properties({"owner": "me"})},
    {**requests.remove_properties(["owner"])},
    {**requests.set_location("file:/elsewhere")},
    {"action": "set-statistics", "snapshot-id": 7, "statistics": STATISTICS},
    {"action": "remove-statistics", "snapshot-id": 7},
    {"action": "set-partition-statistics", "partition-statistics": PARTITION_STATISTICS},
    {"action": "remove-partition-statistics", "snapshot-id": 7},
    {"action": "remove-encryption-key", "key-id": "k1"},
]


@pytest.mark.parametrize("update", WELL_FORMED, ids=lambda update: update["action"])
def test_well_formed_updates_pass_unchanged(update: dict[str, Any]) -> None:
    assert parse([update]) == (update,)


def test_the_actions_are_those_of_the_protocol() -> None:
    assert {update["action"] for update in WELL_FORMED} | {"add-encryption-key"} == set(updates.SHAPES)


@pytest.mark.parametrize("update", WELL_FORMED, ids=lambda update: update["action"])
def test_each_field_is_required_and_has_its_type(update: dict[str, Any]) -> None:
    for name in set(update) - {"action", "snapshot-id" if update["action"] == "set-statistics" else ""}:
        missing = {key: value for key, value in update.items() if key != name}
        for malformed in (missing, {**update, name: None}, {**update, name: object()}):
            with pytest.raises(InvalidInput, match=name.replace("_", "-")):
                parse([malformed])


def test_unknown_fields_survive() -> None:
    update = {**requests.set_location("file:/elsewhere"), "reason": "moved"}
    assert parse([update]) == (update,)


def test_the_case_of_an_action_does_not_matter_as_in_java() -> None:
    assert parse([{"action": "SET-LOCATION", "location": "file:/x"}]) == (requests.set_location("file:/x"),)


def test_older_clients_names_of_properties_are_accepted() -> None:
    set_, removed = parse(
        [{"action": "set-properties", "updated": {"a": "1"}}, {"action": "remove-properties", "removed": ["b"]}]
    )
    assert set_["updates"] == {"a": "1"}
    assert removed["removals"] == ["b"]


def test_todays_name_wins_over_the_old_one() -> None:
    (set_,) = parse([{"action": "set-properties", "updated": {"a": "1"}, "updates": {"a": "2"}}])
    assert set_["updates"] == {"a": "2"}


def test_a_refs_retention_is_kept() -> None:
    kept = Ref(5, "branch", min_snapshots_to_keep=3, max_snapshot_age_ms=None, max_ref_age_ms=99)
    assert updates.set_snapshot_ref("audit", 7, retention=kept) == {
        "action": "set-snapshot-ref",
        "ref-name": "audit",
        "type": "branch",
        "snapshot-id": 7,
        "min-snapshots-to-keep": 3,
        "max-ref-age-ms": 99,
    }


@pytest.mark.parametrize(
    "malformed",
    [
        None,
        {"action": "set-location"},
        [None],
        [{}],
        [{"action": 3}],
        [{"action": "drop-everything"}],
        [{"action": "add-view-version", "view-version": {}}],
        [{"action": "set-current-view-version", "view-version-id": 1}],
        [{"action": "upgrade-format-version", "format-version": "2"}],
        [{"action": "set-current-schema", "schema-id": True}],
        [{"action": "set-properties", "updates": {"a": 1}}],
        [{"action": "set-properties", "updates": [["a", "1"]]}],
        [{"action": "remove-properties", "removals": "owner"}],
        [{"action": "remove-properties", "removals": [1]}],
        [{"action": "remove-snapshots", "snapshot-ids": ["7"]}],
        [{"action": "set-snapshot-ref", "ref-name": "main", "type": "twig", "snapshot-id": 7}],
        [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7, "max-ref-age-ms": "1"}],
        [{"action": "add-snapshot", "snapshot": [7]}],
        [updates.add_snapshot(snapshot(7, manifest_list=None))],
        [updates.add_snapshot(snapshot(7, manifest_list=None, manifests=[1]))],
        [updates.add_snapshot(snapshot(7, summary={"added-records": 5}))],
        [updates.add_snapshot(snapshot(2**63))],
        [updates.add_snapshot(snapshot(7, parent_snapshot_id="5"))],
        [updates.add_snapshot(snapshot(7, sequence_number="1"))],
        [updates.add_snapshot(snapshot(7, timestamp_ms=None))],
        [updates.add_snapshot(snapshot(7, first_row_id="0"))],
        [updates.add_snapshot(snapshot(7, added_rows=0.5))],
        [updates.add_snapshot(snapshot(7, schema_id=2**31))],
        [{"action": "set-statistics", "statistics": []}],
    ],
    ids=lambda value: str(value)[:60],
)
def test_malformed_updates_are_refused(malformed: Any) -> None:
    with pytest.raises(InvalidInput):
        parse(malformed)


def test_encryption_is_refused_as_unsupported() -> None:
    key = {"key-id": "k1", "encrypted-key-metadata": "eA=="}
    with pytest.raises(UnsupportedFormat, match="encrypt"):
        parse([{"action": "add-encryption-key", "encryption-key": key}])


def test_a_ref_is_removed_by_its_name() -> None:
    assert parse([updates.remove_snapshot_ref("audit")]) == ({"action": "remove-snapshot-ref", "ref-name": "audit"},)
