"""The state that the steps of a group share."""

from __future__ import annotations

from iceberg_hms.coordinator.files.group_files import GroupFiles
from iceberg_hms.coordinator.group.build_attempt import begin_staging, build_attempt, load_table
from iceberg_hms.coordinator.group.group_lock import GroupLock
from iceberg_hms.coordinator.group.group_outcomes import GroupFigures, GroupOutcomes
from iceberg_hms.coordinator.group.group_progress import (
    GroupContext,
    GroupProgress,
    abandon,
    drop_withdrawn,
    fail_unsent,
    send_next,
)
from iceberg_hms.coordinator.group.moves import Moves
from iceberg_hms.coordinator.group.refused_swaps import RefusedSwaps
from iceberg_hms.coordinator.outcome.outcome import Failed
from iceberg_hms.coordinator.ports import Refused
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitConflict, MetastoreRefused
from tests.coordinator.harness import NAME, Harness, append


def context(harness: Harness, commits: list[PendingCommit]) -> GroupContext:
    cache = harness.cache()
    sources = harness.sources(cache)
    outcomes = GroupOutcomes(NAME, commits, sources, lambda _: False)
    refusals = RefusedSwaps(harness.settings.refusal_max_swaps, lambda: None, harness.runtime.now)
    figures = GroupFigures(harness.runtime.now())
    return GroupContext(
        harness.ports,
        cache,
        harness.settings,
        NAME,
        sources,
        outcomes,
        refusals,
        GroupFiles(),
        figures,
        Moves(harness.ports, NAME),
        GroupLock(harness.runtime, NAME, commits, ()),
    )


def begun(harness: Harness, count: int) -> tuple[GroupContext, GroupProgress, list[PendingCommit]]:
    harness.create()
    commits = harness.members(*(append(f"file:/{number}", snapshot_id=number + 1) for number in range(count)))
    return context(harness, commits), GroupProgress(list(commits)), commits


def test_a_commit_whose_caller_has_left_is_not_in_the_next_attempt() -> None:
    group, progress, commits = begun(Harness(), 2)
    assert commits[0].withdraw()
    drop_withdrawn(group, progress)
    assert progress.waiting == commits[1:]


def test_an_attempt_that_is_abandoned_leaves_no_file_and_there_may_be_none() -> None:
    harness = Harness()
    group, progress, _ = begun(harness, 1)
    before = harness.metadata_files()
    base = load_table(group)
    build_attempt(group, progress, base, begin_staging(group, progress, base))
    assert len(harness.metadata_files() - before) == 1
    abandon(group, progress)
    abandon(group, progress)
    assert progress.attempt is None
    group.files.delete_garbage(harness.files, [], harness.manifests.open)
    assert harness.metadata_files() == before


def test_what_was_never_sent_fails_and_waits_no_more() -> None:
    group, progress, commits = begun(Harness(), 2)
    error = CommitConflict("moved")
    assert fail_unsent(group, progress, error) == [(commit, Failed(error)) for commit in commits]
    assert progress.waiting == []
    assert fail_unsent(group, progress, error) == []


def test_what_was_set_aside_is_refused_when_nothing_is_sent_next() -> None:
    harness = Harness()
    group, progress, commits = begun(harness, 1)
    refused = Refused(False, MetastoreRefused("value too long"))
    progress.under_lock = harness.version()
    assert send_next(group, progress, group.refusals.refused(commits, refused.error))
    assert progress.waiting == commits
    assert not send_next(group, progress, group.refusals.refused(commits, refused.error))
    assert group.outcomes.known == [(commits[0], Failed(refused.error))]
