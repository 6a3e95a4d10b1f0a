from __future__ import annotations

import pytest

from simulation.mutants.hunt import PACKAGE, patched
from simulation.mutants.planted import MUTANTS, Mutant
from simulation.scenarios.catalogue import by_name


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_planted_defect_matches_its_module_once_and_compiles(mutant: Mutant) -> None:
    module = PACKAGE / mutant.module
    text = patched(module.read_text(encoding="utf-8"), mutant)
    compile(text, str(module), "exec")


def test_every_defect_has_a_name_of_its_own_and_a_rule() -> None:
    assert len(MUTANTS) >= 125
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.breaks for mutant in MUTANTS)


def test_every_defect_is_hunted_in_a_scenario_that_exists() -> None:
    assert all(by_name(mutant.scenario) for mutant in MUTANTS)
