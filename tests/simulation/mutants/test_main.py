from __future__ import annotations

import pytest

from simulation.mutants.__main__ import main


def test_an_unknown_mutant_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no-such-mutant"])
    assert "no such mutant: no-such-mutant" in capsys.readouterr().err


def test_mutants_hunted_at_the_same_time_are_listed_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["skip-the-flush", "skip-the-metadata-file"]
    assert main([*names, "--jobs", "2", "--schedules", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines[1:3]) == sorted(names)
    assert lines[3] == "2 of 2 found"
