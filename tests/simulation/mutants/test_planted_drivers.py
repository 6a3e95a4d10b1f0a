from __future__ import annotations

from simulation.mutants.planted import MUTANTS
from simulation.mutants.planted_drivers import DRIVERS
from simulation.scenarios.tables import by_name


def test_they_are_all_hunted_each_in_a_scenario_that_there_is() -> None:
    assert set(DRIVERS) <= set(MUTANTS)
    assert len(DRIVERS) >= 10
    assert all(by_name(mutant.scenario) for mutant in DRIVERS)
