"""A time budget bounds the share of all time that something may take."""

import pytest

from iceberg_hms.coordinator.scheduling.time_budget import TimeBudget


@pytest.mark.parametrize(("percent", "free"), [(50, 2.0), (20, 8.0), (80, 0.5), (100, 0.0)])
def test_after_a_use_enough_time_passes_to_keep_to_the_share(percent, free):
    budget = TimeBudget(percent)
    assert budget.allows(0.0)
    budget.spend(10.0, 12.0)
    if free:
        assert not budget.allows(12.0 + free - 0.01)
    assert budget.allows(12.0 + free + 0.01)
    assert budget.seconds_until_allowed(12.0) == pytest.approx(free)
    assert budget.seconds_until_allowed(99.0) == 0.0
