"""What is built before the lock may be swapped in; it neither acknowledges nor refuses what only the lock proves."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.change import Manifests, StagedChange
from iceberg_hms.coordinator.group.build_attempt import (
    REMEMBERED_SECONDS,
    begin_staging,
    build_attempt,
    load_remembered,
    load_table,
)
from iceberg_hms.coordinator.group.group_progress import GroupProgress, TableHints
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.outcome import Committed, Failed
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.ports import Swapped
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.group.test_group_progress import context
from tests.coordinator.harness import NAME, Harness, append, set_properties

WRONG_UUID = {"type": "assert-table-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.create()
    return made


def test_the_table_is_remembered_for_a_while_and_while_its_metadata_can_be_read(harness: Harness) -> None:
    group, now = context(harness, []), harness.runtime.now()
    there = TableHints(last_location=harness.location(), ended=now)
    found = load_remembered(group, there)
    assert found is not None
    assert found.metadata == harness.metadata()
    assert load_remembered(group, TableHints()) is None
    assert load_remembered(group, TableHints(last_location="file:/gone", ended=now)) is None
    old = TableHints(last_location=harness.location(), ended=now - REMEMBERED_SECONDS - 1)
    assert load_remembered(group, old) is None


@pytest.mark.parametrize(("locked", "fresh"), [(True, True), (False, True), (False, False)])
def test_a_change_is_refused_only_for_what_was_read_just_now(harness: Harness, locked: bool, fresh: bool) -> None:
    commits = harness.members(set_properties(WRONG_UUID, a="b"))
    group, progress = context(harness, commits), GroupProgress(list(commits))
    base = load_table(group)
    build_attempt(group, progress, base, begin_staging(group, progress, base), locked=locked, fresh=fresh)
    assert progress.attempt is None
    assert [type(outcome) for _, outcome in group.outcomes.known] == ([Failed] if fresh else [])
    assert progress.waiting == ([] if fresh else commits)


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("sent_again", [True, False], ids=["sent again", "changes nothing"])
def test_a_change_that_adds_nothing_is_acknowledged_only_under_the_lock(
    harness: Harness, sent_again: bool, locked: bool
) -> None:
    harness.commit(append("file:/a", snapshot_id=42))
    commits = harness.members(append("file:/a", snapshot_id=42) if sent_again else set_properties())
    group, progress = context(harness, commits), GroupProgress(list(commits))
    base = load_table(group)
    build_attempt(group, progress, base, begin_staging(group, progress, base), locked=locked)
    assert progress.attempt is None
    assert progress.waiting == ([] if locked else commits)
    assert [type(outcome) for _, outcome in group.outcomes.known] == ([Committed] if locked else [])


def test_what_is_built_is_on_disk_and_carries_what_waits(harness: Harness) -> None:
    commits = harness.members(append("file:/a", snapshot_id=1), append("file:/b", snapshot_id=2))
    group, progress = context(harness, commits), GroupProgress(list(commits))
    base = load_table(group)
    build_attempt(group, progress, base, begin_staging(group, progress, base))
    assert progress.attempt is not None
    assert harness.read_metadata(progress.attempt.location) == progress.attempt.metadata
    assert progress.attempt.location in progress.attempt.written
    assert list(progress.attempt.commits) == commits
    assert group.outcomes.known == []


def test_what_a_commit_wrote_is_deleted_if_its_caller_left_while_it_was_staged(harness: Harness) -> None:
    [commit] = commits = harness.members(append("file:/a"))
    whole = commit.change

    class LeavesMidway:
        identity = whole.identity
        check = whole.check

        def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
            staged = whole.stage(base, manifests)
            commit.withdraw()
            return staged

    class Deleted(MemoryFiles):
        def delete(self, location: str) -> bool:
            deleted.append(location)
            return super().delete(location)

    deleted: list[str] = []
    commit.change = LeavesMidway()
    group, progress = context(harness, commits), GroupProgress(list(commits))
    base = load_table(group)
    build_attempt(group, progress, base, begin_staging(group, progress, base))
    assert (progress.attempt, progress.waiting, group.outcomes.known) == (None, [], [])
    group.files.delete_garbage(Deleted(), group.outcomes.known, group.ports.manifests)
    assert len(deleted) == 1
    assert deleted[0].endswith(".avro")


def test_what_may_have_been_seen_in_a_swap_of_an_earlier_group_gets_a_higher_number(harness: Harness) -> None:
    """A client that read it there builds on its snapshot id; the number shows what it read (`sequence_numbers`)."""
    commits = harness.members(*(append(f"file:/{number}", snapshot_id=number + 1) for number in range(2)))
    group, progress = context(harness, commits), GroupProgress(list(commits))
    swap = SentSwap(NAME, "file:/base", carries=commits[0].carries, last_sequence_number=7)
    group.sources.sent.send(swap, [])
    group.sources.sent.settle(swap, CommitStatus.UNKNOWN, Swapped())
    base = load_table(group)
    build_attempt(group, progress, base, begin_staging(group, progress, base))
    assert progress.attempt is not None
    numbers = [snapshot.sequence_number for snapshot in progress.attempt.metadata.snapshots]
    assert numbers == [8, 9]
    progress.waiting = commits[1:]
    assert begin_staging(group, progress, base).base is base.metadata
