"""A group on its way to a swap: which snapshots tell that it landed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_hms.coordinator.protocol.attempt import CommitAttempt
from iceberg_hms.errors import CommitConflict, InvalidInput
from tests.coordinator.harness import NAME, Harness, append, set_properties


def test_snapshots_tell_of_a_group_only_if_each_of_it_adds_one() -> None:
    harness = Harness()
    harness.create()
    first, second, third = harness.members(
        append("file:/a", snapshot_id=1), append("file:/b", snapshot_id=2), set_properties(a="b")
    )
    base = harness.coordinator.load(NAME)
    attempt = CommitAttempt(base, base.metadata, "file:/m", (first, second))
    assert (list(attempt.identifying_ids), list(attempt.carried_ids)) == ([1, 2], [1, 2])
    mixed = replace(attempt, commits=(first, third))
    assert (list(mixed.identifying_ids), list(mixed.carried_ids)) == ([], [1])


def test_an_attempt_that_carries_no_commit_is_not_identified_by_snapshots() -> None:
    harness = Harness()
    harness.create()
    base = harness.coordinator.load(NAME)
    assert list(CommitAttempt(base, base.metadata, "file:/m").identifying_ids) == []


def test_an_attempt_replaces_the_row_as_it_was_read_last() -> None:
    harness = Harness()
    harness.create()
    base = harness.coordinator.load(NAME)
    row = replace(base.pointer, parameters={"read": "later"})
    moved = CommitAttempt(base, base.metadata, "file:/m").on(row)
    assert moved.base.pointer is row
    assert moved.base.metadata is base.metadata
    assert moved.location == "file:/m"


def test_changes_beside_one_that_cannot_be_written_may_come_again() -> None:
    harness = Harness()
    before = harness.create()
    hostile, honest = set_properties(long="{" * 400_000), set_properties(a="b")
    group = harness.members(hostile, honest)
    harness.group(*group)
    for one in group:
        with pytest.raises(CommitConflict):
            one.result()
    [alone] = harness.members(hostile)
    harness.group(alone)
    with pytest.raises(InvalidInput):
        alone.result()
    assert harness.metadata() == before
    harness.commit(honest)
    assert harness.metadata().properties["a"] == "b"
