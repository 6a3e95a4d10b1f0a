from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_hms.errors import InvalidInput
from simulation.mutants.hunt import MutantResult, hunt, patched, table
from simulation.mutants.planted import MUTANTS, Mutant

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def test_a_mutant_that_breaks_the_protocol_is_found() -> None:
    result = hunt(BY_NAME["skip-the-flush"], schedules=5, seed=1)
    assert result.found is not None
    assert result.found.startswith("pointer-is-whole: ")
    assert (result.scenario, result.schedules) == ("calm", 1)


def test_a_mutant_that_changes_nothing_survives(capsys: pytest.CaptureFixture[str]) -> None:
    harmless = replace(BY_NAME["skip-the-flush"], name="harmless", new=BY_NAME["skip-the-flush"].old)
    result = hunt(harmless, schedules=1, seed=1)
    assert result.found is None
    assert "SURVIVED" in table([result])


def test_a_mutant_that_does_not_run_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="does not run"):
        hunt(replace(BY_NAME["skip-the-flush"], new="(((("), schedules=1, seed=1)


@pytest.mark.parametrize(("text", "count"), [("nothing", 0), ("old and old", 2)])
def test_a_text_that_does_not_match_exactly_once_is_refused(text: str, count: int) -> None:
    mutant = Mutant("m", "a rule", "x.py", "old", "new")
    with pytest.raises(InvalidInput, match=f"{count} times"):
        patched(text, mutant)
    assert patched("an old text", mutant) == "an new text"


def test_the_table_has_one_line_a_mutant_and_counts() -> None:
    mutant = Mutant("m", "a rule", "x.py", "old", "new")
    lines = table(
        [MutantResult(mutant, "one-chain: oh", "worst", 17, 1.5), MutantResult(mutant, None, "", 99, 9.0)]
    ).splitlines()
    assert lines[1].split() == ["m", "one-chain", "worst", "17", "1.5"]
    assert lines[2].split() == ["m", "SURVIVED", "99", "9.0"]
    assert lines[3] == "1 of 2 found"
