from __future__ import annotations

from simulation.mutants.planted import MUTANTS
from simulation.mutants.planted_rebase import REBASE
from simulation.scenarios.tables import by_name


def test_they_are_all_hunted_each_in_a_scenario_that_there_is() -> None:
    assert set(REBASE) <= set(MUTANTS)
    assert len(REBASE) >= 8
    assert all(by_name(mutant.scenario) for mutant in REBASE)
