from __future__ import annotations

from simulation.scenarios.migrators import MIGRATOR_SCENARIOS
from simulation.world.faults import FaultPlan
from simulation.world.metastore_handler import SwapSupport


def test_kinds_are_changed_in_fine_weather_with_faults_late_and_under_the_lock_alone() -> None:
    assert all(scenario.migrators >= 2 for scenario in MIGRATOR_SCENARIOS)
    assert any(scenario.faults == FaultPlan() for scenario in MIGRATOR_SCENARIOS)
    assert any(scenario.faults.late_changes > 1 for scenario in MIGRATOR_SCENARIOS)
    assert any(scenario.faults.crashes and scenario.faults.pauses for scenario in MIGRATOR_SCENARIOS)
    assert any(scenario.swap_support is SwapSupport.IGNORED for scenario in MIGRATOR_SCENARIOS)


def test_a_program_of_hives_takes_part_where_expected_values_keep_its_changes() -> None:
    for scenario in MIGRATOR_SCENARIOS:
        assert bool(scenario.hive_writers) == (scenario.swap_support is SwapSupport.ATOMIC)
