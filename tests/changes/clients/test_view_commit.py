from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.clients.view_commit import ViewCommit
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.views.view_metadata import ViewMetadata
from tests.format.views.samples import schema, spec_example, version

BASE = ViewMetadata.parse(spec_example())
SAME_UUID = {"type": "assert-view-uuid", "uuid": BASE.uuid.upper()}
REPLACE = [
    {"action": "ADD-VIEW-VERSION", "view-version": version(3, "select 1", schema_id=1)},
    {"action": "set-current-view-version", "view-version-id": -1},
]


def test_a_commit_replays_on_a_view_that_meets_its_requirements() -> None:
    after = ViewCommit.parse([SAME_UUID], REPLACE).replay(BASE, now_ms=1)
    assert (after.current_version_id, len(after.versions)) == (3, 3)
    assert ViewCommit.parse([SAME_UUID], []).replay(BASE, now_ms=1) is BASE


def test_a_view_with_another_uuid_fails_the_requirement_with_javas_words() -> None:
    commit = ViewCommit.parse([{"type": "Assert-View-UUID", "uuid": "u-2"}], REPLACE)
    with pytest.raises(RequirementFailed) as raised:
        commit.replay(BASE, now_ms=1)
    assert raised.value.message == f"Requirement failed: view UUID does not match: expected {BASE.uuid} != u-2"
    assert raised.value.name == "assert-view-uuid"


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        ("x", "non-array"),
        ([1], "JSON object"),
        ([{}], "Missing field: type"),
        ([{"type": "assert-view-uuid"}], "uuid"),
        ([{"type": "assert-view-uuid", "uuid": 1}], "uuid"),
        ([{"type": "assert-table-uuid", "uuid": "u"}], "against a view"),
        ([{"type": "assert-create"}], "against a view"),
    ],
)
def test_a_malformed_requirement_is_refused(requirements: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ViewCommit.parse(requirements, [])


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        (None, "non-array"),
        (["x"], "JSON object"),
        ([{}], "Missing field: action"),
        ([{"action": "no-such"}], "Cannot convert metadata update action"),
        ([{"action": "add-spec", "spec": {}}], "Cannot apply update add-spec to a view"),
        ([{"action": "set-current-schema", "schema-id": 0}], "to a view"),
        ([{"action": "add-view-version"}], "view version"),
        ([{"action": "add-view-version", "view-version": {"version-id": 1}}], "schema-id"),
        ([{"action": "set-current-view-version", "view-version-id": "1"}], "view-version-id"),
        ([{"action": "set-location"}], "location"),
        ([{"action": "set-properties", "updates": {"a": 1}}], "not a string"),
        ([{"action": "add-schema"}], "schema"),
    ],
)
def test_a_malformed_update_or_a_tables_is_refused(updates: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ViewCommit.parse([], updates)


def test_field_names_of_older_clients_are_known() -> None:
    updates = [
        {"action": "set-properties", "updated": {"a": "b"}},
        {"action": "remove-properties", "removed": ["comment"]},
    ]
    assert ViewCommit.parse([], updates).replay(BASE, now_ms=1).properties == {"a": "b"}


def test_too_large_commits_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(InvalidInput, match="too large"):
        ViewCommit.parse([SAME_UUID], ["x"] * 10, max_updates=10)
    with pytest.raises(InvalidInput, match="at most 1000 schemas and versions"):
        ViewCommit.parse([], [{"action": "add-schema", "schema": schema()}] * 1_001)
