"""A group waits only for callers that come back at once."""

import pytest

from iceberg_hms.coordinator.scheduling.batching_window import BatchingWindow


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
