"""Requirements: shapes, checks, and the messages that Java's clients know."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes import requirements
from iceberg_hms.changes.requirements import check, parse
from iceberg_hms.errors import InvalidInput, RequirementFailed
from simulation.actors import requests
from tests.changes.tables import UUID, branch, snapshot, table, with_main

OTHER_UUID = "00000000-0000-0000-0000-000000000001"

# requirement that `with_main()` meets, one that it fails, and Java's message for it
BROKEN = [
    (
        requirements.assert_table_uuid(UUID),
        requirements.assert_table_uuid(OTHER_UUID),
        f"UUID does not match: expected {UUID} != {OTHER_UUID}",
    ),
    (
        requests.assert_ref_snapshot_id("main", 7),
        requests.assert_ref_snapshot_id("main", 5),
        "branch main has changed: expected id 5 != 7",
    ),
    (
        requests.assert_ref_snapshot_id("audit", None),
        requests.assert_ref_snapshot_id("main", None),
        "branch main was created concurrently",
    ),
    (
        requests.assert_ref_snapshot_id("audit", None),
        requests.assert_ref_snapshot_id("audit", 5),
        "branch or tag audit is missing, expected 5",
    ),
    (
        requests.assert_last_assigned_field_id(2),
        requests.assert_last_assigned_field_id(1),
        "last assigned field id changed: expected id 1 != 2",
    ),
    (
        requests.assert_current_schema_id(0),
        requests.assert_current_schema_id(1),
        "current schema changed: expected id 1 != 0",
    ),
    (
        requests.assert_last_assigned_partition_id(999),
        requests.assert_last_assigned_partition_id(1000),
        "last assigned partition id changed: expected id 1000 != 999",
    ),
    (
        requests.assert_default_spec_id(0),
        requests.assert_default_spec_id(3),
        "default partition spec changed: expected id 3 != 0",
    ),
    (
        requests.assert_default_sort_order_id(0),
        requests.assert_default_sort_order_id(3),
        "default sort order changed: expected id 3 != 0",
    ),
]


@pytest.mark.parametrize(("holds", "broken", "message"), BROKEN, ids=lambda value: str(value)[:40])
def test_a_broken_requirement_says_what_java_says(holds: Any, broken: Any, message: str) -> None:
    base = with_main(7)
    check(parse([holds]), base)
    with pytest.raises(RequirementFailed) as caught:
        check(parse([broken]), base)
    assert caught.value.message == f"Requirement failed: {message}"
    assert caught.value.name == broken["type"]


def test_the_error_has_the_expected_and_the_found_value() -> None:
    with pytest.raises(RequirementFailed) as caught:
        check(parse([requests.assert_ref_snapshot_id("main", 5)]), with_main(7))
    assert (caught.value.expected, caught.value.found) == (5, 7)


def test_a_tag_is_called_a_tag() -> None:
    base = with_main(7, refs={"main": branch(7), "v1": {"snapshot-id": 7, "type": "tag"}})
    with pytest.raises(RequirementFailed, match="tag v1 has changed: expected id 5 != 7"):
        check(parse([requests.assert_ref_snapshot_id("v1", 5)]), base)


def test_uuids_are_compared_without_regard_to_case() -> None:
    check(parse([requirements.assert_table_uuid(UUID.upper())]), table())


def test_a_v1_table_without_uuid_has_no_uuid_to_match() -> None:
    with pytest.raises(RequirementFailed, match="expected null != "):
        check(parse([requirements.assert_table_uuid(UUID)]), table(1, table_uuid=None))


def test_main_of_an_old_v1_table_without_refs_is_its_current_snapshot() -> None:
    base = with_main(7, version=1, refs=None, snapshots=[snapshot(7, sequence_number=None)])
    check(parse([requests.assert_ref_snapshot_id("main", 7)]), base)


def test_a_missing_table_passes_only_assert_create() -> None:
    check(parse([requests.assert_create()]), None)
    for holds, _, _ in BROKEN:
        with pytest.raises(RequirementFailed, match="table does not exist"):
            check(parse([holds]), None)


def test_create_is_refused_on_a_table() -> None:
    with pytest.raises(RequirementFailed, match="table already exists") as caught:
        check(parse([requests.assert_create()]), table())
    assert caught.value.name == "assert-create"


def test_assert_create_must_stand_alone() -> None:
    with pytest.raises(InvalidInput, match="must stand alone"):
        parse([requests.assert_create(), requirements.assert_table_uuid(UUID)])


def test_the_first_broken_requirement_is_named() -> None:
    broken = [requests.assert_current_schema_id(4), requirements.assert_table_uuid(OTHER_UUID)]
    with pytest.raises(RequirementFailed) as caught:
        check(parse(broken), table())
    assert caught.value.name == "assert-current-schema-id"


def test_a_missing_snapshot_id_is_null() -> None:
    assert parse([{"type": "assert-ref-snapshot-id", "ref": "main"}]) == (
        requests.assert_ref_snapshot_id("main", None),
    )


def test_the_case_of_a_type_does_not_matter_as_in_java() -> None:
    assert parse([{"type": "ASSERT-CREATE"}]) == (requests.assert_create(),)


@pytest.mark.parametrize(
    "malformed",
    [
        None,
        {},
        "assert-create",
        [None],
        ["assert-create"],
        [{}],
        [{"type": None}],
        [{"type": 3}],
        [{"type": "assert-nothing"}],
        [{"type": "assert-view-uuid", "uuid": UUID}],
        [{"type": "assert-table-uuid"}],
        [{"type": "assert-table-uuid", "uuid": 5}],
        [{"type": "assert-ref-snapshot-id", "snapshot-id": 5}],
        [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": "5"}],
        [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2**63}],
        [{"type": "assert-current-schema-id"}],
        [{"type": "assert-current-schema-id", "current-schema-id": None}],
        [{"type": "assert-current-schema-id", "current-schema-id": True}],
        [{"type": "assert-current-schema-id", "current-schema-id": 1.0}],
        [{"type": "assert-default-spec-id", "default-spec-id": 2**31}],
    ],
    ids=str,
)
def test_malformed_requirements_are_refused(malformed: Any) -> None:
    with pytest.raises(InvalidInput):
        parse(malformed)


def test_the_missing_field_is_named() -> None:
    with pytest.raises(InvalidInput, match="last-assigned-field-id"):
        parse([{"type": "assert-last-assigned-field-id"}])
