"""What the groups of a table leave to the next ones is kept for a bounded number of tables."""

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.scheduling.table_state import BatchingWindow, TableStates
from tests.coordinator.harness import NAME, Harness
from tests.coordinator.stock_clients import LOST, Queued


@pytest.fixture
def harness():
    return Harness()


def refuse(state, *ids):
    """Record refusals; the answer to the first goes out, the others are held."""
    commits = [Queued(id_, outcome=LOST) for id_ in ids]
    for commit in commits:
        state.retry_priority.record_outcome(commit, 10.0)
    return commits


def test_a_table_keeps_its_state_until_it_is_forgotten(harness):
    states = TableStates(harness.ports, harness.settings)
    state = states.get(NAME)
    assert states.get(NAME) is state
    states.forget(NAME)
    assert states.get(NAME) is not state


def test_only_as_many_tables_as_allowed_are_remembered_the_latest_ones(harness):
    states = TableStates(harness.ports, harness.settings, max_tables=2)
    first, second, third = (TableName("db", name) for name in "abc")
    kept, dropped = states.get(first), states.get(second)
    assert states.get(first) is kept
    states.get(third)
    assert states.get(first) is kept
    assert states.get(second) is not dropped


def test_a_commit_has_priority_once_it_was_refused(harness):
    states = TableStates(harness.ports, harness.settings)
    assert not states.has_priority(NAME, Queued(1))
    refuse(states.get(NAME), 1)
    assert states.has_priority(NAME, Queued(1))
    assert not states.has_priority(NAME, Queued(2))


def test_forgetting_a_table_returns_the_commits_whose_answers_it_held(harness):
    states = TableStates(harness.ports, harness.settings)
    assert states.forget(NAME) == []
    _, *held = refuse(states.get(NAME), 1, 2, 3)
    assert states.forget(NAME) == held


def test_retry_priority_that_begins_anew_returns_the_commits_whose_answers_it_held(harness):
    states = TableStates(harness.ports, harness.settings)
    state = states.get(NAME)
    _, held = refuse(state, 1, 2)
    assert states.reset_retry_priority(state) == [held]
    assert state.retry_priority.times_refused(held) == 0


def groups(window, answered, returning, count):
    """Run `count` groups whose callers come back in time, `returning` of `answered`. Returns for how many each group
    waited, and how often too few came."""
    expected, misses = [], 0
    for _ in range(count):
        wanted = window.expected(answered)
        # The wait ends as soon as the last expected caller is back.
        window.record(min(wanted, returning), wanted, answered)
        expected.append(wanted)
        misses += wanted > returning
    return expected, misses


@pytest.mark.parametrize("answered", [2, 16, 64])
def test_a_group_waits_for_all_callers_if_all_come_back(answered):
    assert groups(BatchingWindow(), answered, answered, 100) == ([answered] * 100, 0)


@pytest.mark.parametrize("answered", [2, 16, 64])
def test_groups_hardly_wait_for_callers_that_never_come_back_in_time(answered):
    expected, misses = groups(BatchingWindow(), answered, 0, 1_000)
    assert misses < 25
    assert expected.count(0) > 970


def test_the_wait_between_probes_is_bounded_however_many_probes_missed():
    window = BatchingWindow()
    for _ in range(10_000):
        window.record(0, 1, 4)
    # The callers are fast from now on: one probe after at most 64 groups finds that out.
    expected, _ = groups(window, 4, 4, 70)
    assert expected[0] == 0
    assert expected[-1] > 0


@pytest.mark.parametrize(("answered", "returning"), [(4, 2), (64, 61), (64, 20)])
def test_a_group_waits_for_as_many_callers_as_come_back(answered, returning):
    expected, misses = groups(BatchingWindow(), answered, returning, 1_000)
    assert misses < 25
    assert expected.count(returning) > 970


@pytest.mark.parametrize("answered", [2, 16])
def test_the_window_notices_callers_that_become_faster(answered):
    window = BatchingWindow()
    groups(window, answered, 0, 1_000)
    expected, _ = groups(window, answered, answered, 100)
    assert expected[-1] == answered


def test_the_window_notices_callers_that_become_slower():
    window = BatchingWindow()
    groups(window, 16, 16, 100)
    _, misses = groups(window, 16, 1, 100)
    assert misses < 10
