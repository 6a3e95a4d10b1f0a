from __future__ import annotations

import os
import subprocess
import sys

import pytest

from simulation.__main__ import main, report
from simulation.schedule import Result

_RUN = ["--schedules", "3", "--scenario", "no-lock-refused", "--trace"]


def test_a_good_run_says_how_many_and_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schedules", "3", "--seed", "5", "--scenario", "calm"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 schedules of 1 scenarios from seed 5: all invariants held. ")
    assert " schedules/s; " in said


def test_an_unknown_scenario_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["--scenario", "sunny"])
    assert exited.value.code == 2
    assert "sunny" in capsys.readouterr().err


def test_a_report_says_what_broke_how_and_how_to_see_it_again() -> None:
    result = Result("calm", 7, "nothing-twice: a is there 2 times", ("one line", "another"), 1, 1.0, 0, 0, 0)
    assert report(result).splitlines() == [
        "calm, seed 7: nothing-twice: a is there 2 times",
        "",
        "one line",
        "another",
        "",
        "again: python -m simulation --scenario calm --seed 7 --schedules 1",
    ]


def test_two_processes_give_the_same_trace_whatever_their_hashes() -> None:
    said = []
    for hashes in ("1", "2"):
        finished = subprocess.run(
            [sys.executable, "-m", "simulation", "--schedules", "6", "--seed", "3", "--trace"],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        said.append(finished.stdout.splitlines()[:-1])
    assert said[0] == said[1]
    assert len(said[0]) > 200


def test_a_run_in_other_processes_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for jobs in ("1", "2"):
        assert main([*_RUN, "--jobs", jobs]) == 0
        said.append(capsys.readouterr().out.splitlines()[:-1])
    assert said[0] == said[1]
    assert sum(line.startswith("no-lock-refused, seed ") for line in said[0]) == 3
