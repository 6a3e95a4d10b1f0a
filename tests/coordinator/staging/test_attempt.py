"""A group on its way to a swap: which snapshots tell that it landed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import ChangeIdentity, Manifests, StagedChange
from iceberg_hms.coordinator.staging.attempt import CommitAttempt, attempt_of
from iceberg_hms.coordinator.staging.staging import Staging
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
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


HOSTILE = "{" * 4_000_000


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_change_that_makes_the_metadata_too_large_is_refused_alone(at: int) -> None:
    harness = Harness()
    harness.create()
    changes = [append("file:/a", snapshot_id=1), set_properties(a="b")]
    changes.insert(at, set_properties(long=HOSTILE))
    group = harness.members(*changes)
    harness.group(*group)
    with pytest.raises(InvalidInput, match="bytes of memory, more than") as refused:
        group.pop(at).result()
    assert refused.value.proved_failed
    assert len({one.result().metadata_location for one in group}) == 1
    assert harness.metadata().properties["a"] == "b"
    assert [snapshot.snapshot_id for snapshot in harness.metadata().snapshots] == [1]


def test_of_changes_that_are_too_large_together_those_that_came_first_land() -> None:
    harness = Harness(max_metadata_bytes=40_000)
    harness.create()
    group = harness.members(*(set_properties(**{f"p{number}": "x" * 15_000}) for number in range(4)))
    harness.group(*group)
    assert {one.result().metadata_location for one in group[:2]} == {harness.location()}
    for one in group[2:]:
        with pytest.raises(InvalidInput, match="more than 40000 bytes"):
            one.result()


def test_a_lone_change_that_makes_the_metadata_too_large_changes_nothing() -> None:
    harness = Harness()
    before = harness.create()
    files = harness.files.locations()
    [alone] = harness.members(set_properties(long=HOSTILE))
    harness.group(alone)
    with pytest.raises(InvalidInput, match="bytes of memory, more than"):
        alone.result()
    assert harness.metadata() == before
    assert harness.files.locations() == files


def test_an_attempt_knows_which_snapshots_its_commits_add_on_this_base() -> None:
    harness = Harness()
    harness.create()
    staged = StagedChange([updates.set_properties({"a": "b"})], snapshot_ids=())

    class MovesARef:
        identity = ChangeIdentity(snapshot_ids=(2,))

        def check(self, base: TableMetadata | None) -> None:
            """It assumes nothing."""

        def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
            return staged

    first, second = harness.members(MovesARef(), append("file:/c", snapshot_id=3))
    manifests = harness.manifests.open()
    staging = Staging(harness.metadata(), [first, second], manifests, harness.runtime.now_ms).finish()
    assert staging.metadata is not None
    attempt = attempt_of(staging, staging.metadata, harness.coordinator.load(NAME), "unique")
    assert attempt.added == {first: ()}
