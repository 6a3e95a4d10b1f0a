"""How much of all time something may take."""

import pytest

from iceberg_hms.coordinator.scheduling.time_budget import TimeBudget


@pytest.mark.parametrize(("percent", "free"), [(50, 2.0), (20, 8.0), (80, 0.5), (100, 0.0)])
def test_after_each_use_so_much_time_passes_that_the_share_is_kept(percent, free):
    share = TimeBudget(percent)
    assert share.is_left(0.0)
    share.used(10.0, 12.0)
    if free:
        assert not share.is_left(12.0 + free - 0.01)
    assert share.is_left(12.0 + free + 0.01)
