from __future__ import annotations

import pytest

from simulation.mutants.planted import MUTANTS, Mutant
from simulation.mutants.run import PACKAGE, patched


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_planted_defect_fits_its_module(mutant: Mutant) -> None:
    module = PACKAGE / mutant.module
    text = patched(module.read_text(encoding="utf-8"), mutant)
    compile(text, str(module), "exec")


def test_there_are_at_least_twenty_and_each_has_a_name_and_a_rule() -> None:
    assert len(MUTANTS) >= 20
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.breaks for mutant in MUTANTS)
