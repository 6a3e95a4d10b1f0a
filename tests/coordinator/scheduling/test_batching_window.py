"""Who is waited for before a group begins."""

import pytest

from iceberg_hms.coordinator.scheduling.batching_window import BatchingWindow


def groups(gathering, answered, come_back, count):
    """So many groups in turn, of which so many callers come back in time. How many were waited for, and in vain."""
    expected, vain = [], 0
    for _ in range(count):
        wanted = gathering.expected(answered)
        # The wait ends as soon as the last that is expected is there.
        gathering.came(min(wanted, come_back), wanted, answered)
        expected.append(wanted)
        vain += wanted > come_back
    return expected, vain


@pytest.mark.parametrize("answered", [2, 16, 64])
def test_callers_that_all_come_back_are_all_waited_for(answered):
    assert groups(BatchingWindow(), answered, answered, 100) == ([answered] * 100, 0)


@pytest.mark.parametrize("answered", [2, 16, 64])
def test_callers_that_never_come_back_in_time_are_hardly_waited_for(answered):
    expected, vain = groups(BatchingWindow(), answered, 0, 1_000)
    assert vain < 25
    assert expected.count(0) > 970


def test_callers_that_never_all_come_back_are_hoped_for_as_often_after_a_million_groups():
    gathering = BatchingWindow()
    for _ in range(10_000):
        gathering.came(0, 1, 4)
    # A number without a bound would have had 3,000 digits by now.
    assert gathering._next_rest == gathering._rest == 64


@pytest.mark.parametrize(("answered", "come_back"), [(4, 2), (64, 61), (64, 20)])
def test_those_that_do_come_back_are_waited_for_and_the_others_are_not(answered, come_back):
    expected, vain = groups(BatchingWindow(), answered, come_back, 1_000)
    assert vain < 25
    assert expected.count(come_back) > 970


@pytest.mark.parametrize("answered", [2, 16])
def test_callers_that_become_faster_are_found_out(answered):
    gathering = BatchingWindow()
    groups(gathering, answered, 0, 1_000)
    expected, _ = groups(gathering, answered, answered, 100)
    assert expected[-1] == answered


def test_callers_that_become_slower_are_found_out():
    gathering = BatchingWindow()
    groups(gathering, 16, 16, 100)
    _, vain = groups(gathering, 16, 1, 100)
    assert vain < 10
