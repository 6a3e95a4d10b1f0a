from __future__ import annotations

from simulation.mutants.mutant import Mutant


def test_a_mutant_is_hunted_everywhere_unless_it_says_where() -> None:
    assert Mutant("m", "a rule", "x.py", "old", "new").scenario == "all"
