from __future__ import annotations

import pytest

from simulation.mutants.hunt import PACKAGE, patched
from simulation.mutants.planted import MUTANTS, Mutant
from simulation.scenarios.catalogue import by_name


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_planted_defect_fits_its_module(mutant: Mutant) -> None:
    module = PACKAGE / mutant.module
    text = patched(module.read_text(encoding="utf-8"), mutant)
    compile(text, str(module), "exec")


def test_there_are_at_least_twenty_and_each_has_a_name_and_a_rule() -> None:
    assert len(MUTANTS) >= 20
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.breaks for mutant in MUTANTS)


def test_every_defect_is_hunted_in_a_scenario_that_exists() -> None:
    assert all(by_name(mutant.scenario) for mutant in MUTANTS)
