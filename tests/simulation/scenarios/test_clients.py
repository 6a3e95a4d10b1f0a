from __future__ import annotations

from collections import Counter

import pytest

from simulation.actors.client_snapshots import CommitKind
from simulation.engine.scheduler import WorkerPool
from simulation.scenarios.catalogue import SCENARIOS, by_name
from simulation.scenarios.clients import CLIENT_SCENARIOS
from simulation.schedule import Schedule, quiet_logs
from simulation.world.history import Answer, WriteAttempt

#: Of each scenario.
SCHEDULES = 30


def made_by(name: str) -> Counter[str]:
    """What the schedules of a scenario came to: a scenario that produces nothing of its kind shows nothing."""
    seen: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        pool = WorkerPool()
        schedule = Schedule(by_name(name)[0], seed, pool)
        with quiet_logs():
            result = schedule.run()
        pool.close()
        assert result.failure is None, "\n".join((f"seed {seed}: {result.failure}", *result.trace))
        seen.update(_events(schedule))
        for attempt in schedule.history.attempts:
            seen.update(_became(schedule, attempt))
    return seen


def _events(schedule: Schedule) -> Counter[str]:
    history = schedule.history
    calls = [event.call for event in schedule.wire.trace.events]
    return Counter(
        held=len(history.priority_waits),
        backoffs=len(history.backoffs),
        locks_kept=len(history.locks_kept),
        lists_deleted=sum(call.startswith("delete snap-") or "delete file:/t/metadata/snap-" in call for call in calls),
        unheard=sum(" is not heard" in call for call in calls),
        expired=sum(call == "expires" for call in calls),
        swaps=sum(call.startswith("swap") for call in calls),
    )


def _became(schedule: Schedule, attempt: WriteAttempt) -> list[str]:
    kind = attempt.operation.rpartition("-")[2]
    became = [f"{kind} {attempt.answer.value}"]
    snapshot = next(
        (
            metadata
            for table in schedule.checker.tables
            if table.metadata is not None
            and (metadata := table.metadata.snapshot_by_id(attempt.snapshot_id or 0)) is not None
        ),
        None,
    )
    if snapshot is not None and attempt.parents_seen:
        if snapshot.parent_snapshot_id != attempt.parents_seen[-1]:
            became += ["rebased", f"{kind} rebased", f"rebased on {attempt.branch}"]
        elif snapshot.manifest_list not in attempt.lists and attempt.left_at is not None:
            became.append("renumbered")
    if attempt.answer is Answer.COMMITTED and attempt.lost_at:
        became.append("committed after it lost")
    return became


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("groups", {"rebased": 20, "invalid failed": 5, "merge committed": 5}),
        ("branches", {"renumbered": 3, "rebased on audit": 1, "rebased on main": 5, "delete committed": 3}),
        ("branches-network", {"rebased": 5, "append committed": 20}),
        ("rewrites", {"rewrite rebased": 1, "rewrite committed": 3, "mask committed": 1}),
        ("rebase-all", {"validated rebased": 2, "rebased": 10}),
        ("upgrades", {"renumbered": 5, "rebased": 10, "mask committed": 1, "rewrite committed": 1}),
        ("upgrades-network", {"renumbered": 1, "append committed": 10}),
        ("rebase-none", {"append committed": 10, "committed after it lost": 10}),
        ("retry-priority", {"held": 2, "committed after it lost": 4, "delete committed": 25}),
        ("priority-given-up", {"held": 6, "committed after it lost": 1}),
        ("replaced-lists", {"lists_deleted": 4, "rebased": 5}),
        ("refused-attempts", {"committed after it lost": 10}),
        ("refused-network", {"lists_deleted": 1, "committed after it lost": 5}),
        ("expired", {"unheard": 20, "expired": 20, "validated unknown": 2, "rebased": 1}),
        ("expired-crash", {"unheard": 10, "expired": 5}),
        ("expired-network", {"unheard": 10, "expired": 10}),
        ("expired-unnumbered", {"unheard": 20, "expired": 20, "append unknown": 3}),
        ("backoff", {"backoffs": 1}),
        ("outside", {"locks_kept": 5, "committed after it lost": 10}),
    ],
)
def test_each_scenario_produces_what_it_is_there_for(name: str, wanted: dict[str, int]) -> None:
    seen = made_by(name)
    assert {key: seen[key] for key, count in wanted.items() if seen[key] < count} == {}, seen
    if name == "rebase-none":
        assert not seen["rebased"]


def test_they_are_all_run_and_every_kind_of_commit_is_in_one_of_them() -> None:
    assert all(each in SCENARIOS for each in CLIENT_SCENARIOS)
    commit_kinds = {
        commit_kind
        for each in CLIENT_SCENARIOS
        if each.clients
        for commit_kind in (*each.clients.commit_kinds, *each.clients.one_shot)
    }
    assert commit_kinds == set(CommitKind)
    assert {each.properties.get("format-version", "2") for each in CLIENT_SCENARIOS} == {"1", "2", "3"}
