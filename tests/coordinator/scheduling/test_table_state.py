"""What the groups of a table leave to the next ones is kept for a bounded number of tables."""

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.scheduling.table_state import TableStates
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
