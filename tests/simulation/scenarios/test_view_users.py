from __future__ import annotations

from simulation.scenarios.view_users import VIEW_USER_SCENARIOS
from simulation.world.faults import FaultPlan
from simulation.world.metastore_handler import SwapSupport


def test_views_are_changed_in_fine_weather_with_faults_late_and_under_the_lock_alone() -> None:
    assert all(scenario.view_users >= 2 for scenario in VIEW_USER_SCENARIOS)
    assert any(scenario.faults == FaultPlan() for scenario in VIEW_USER_SCENARIOS)
    assert any(scenario.faults.late_changes > 1 for scenario in VIEW_USER_SCENARIOS)
    assert any(scenario.swap_support is SwapSupport.IGNORED for scenario in VIEW_USER_SCENARIOS)


def test_no_creation_is_carried_out_a_second_time() -> None:
    assert not any(scenario.faults.repeated_changes for scenario in VIEW_USER_SCENARIOS)
