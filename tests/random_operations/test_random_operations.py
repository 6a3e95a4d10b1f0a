"""A sample of the random test: sequences of operations on each shape, and operations at once. `make outcomes` runs as
many as one likes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.random_operations import runs
from tests.random_operations.__main__ import main
from tests.random_operations.independent_reader import Broken
from tests.random_operations.places import Bucket, LocalFolder
from tests.random_operations.runs import Run, outcome, runs_of
from tests.random_operations.shapes import SHAPES, by_name
from tests.random_operations.tested_table import TestedTable

SEED, STEPS, TRIALS = 1, 16, 2
NAMES = [shape.name for shape in SHAPES]


@pytest.mark.parametrize("name", NAMES)
def test_every_state_is_what_the_operations_mean(name: str) -> None:
    found = outcome(Run(name, SEED, STEPS))
    assert found.failure is None, found.failure
    assert found.counts.total() == STEPS
    assert found.last is not None


@pytest.mark.parametrize("name", NAMES[::4])
def test_three_operations_at_once_leave_what_some_order_of_them_would(name: str) -> None:
    found = outcome(Run(name, SEED, TRIALS, trials=True))
    assert found.failure is None, found.failure
    assert found.counts["trials"] == TRIALS


def test_a_seed_brings_the_same_operations_back(tmp_path: Path) -> None:
    logs, shape = [], by_name("v3-identity-nulls")
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        table = TestedTable(shape, SEED, LocalFolder(folder, shape))
        for _ in range(STEPS):
            table.step()
        table.close()
        logs.append(table.log)
    assert logs[0] == logs[1]


def test_runs_go_through_all_shapes_and_seeds_and_have_all_steps() -> None:
    found = runs_of(2 * len(SHAPES) * runs.STEPS_A_TABLE + 7, 5)
    assert [run.shape for run in found] == [*NAMES, *NAMES, NAMES[0]]
    assert [run.seed for run in found[:: len(SHAPES)]] == [5, 6, 7]
    assert (found[0].count, found[-1].count) == (runs.STEPS_A_TABLE, 7)
    assert {run.shape for run in runs_of(100, 5, trials=True, shape=NAMES[3])} == {NAMES[3]}


def test_a_difference_is_printed_with_its_steps_and_the_command_that_brings_it_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = TestedTable.step

    def broken(table: TestedTable) -> None:
        if len(table.log) == 2:
            raise Broken("a row is missing")
        step(table)

    monkeypatch.setattr(TestedTable, "step", broken)
    assert main(["--steps", "5", "--seed", "3", "--shape", "v2-identity"]) == 1
    printed = capsys.readouterr().out
    assert "a row is missing" in printed
    assert len(re.findall(r"^ +\d+ \w", printed, re.MULTILINE)) == 2
    assert "again: python -m tests.random_operations --seed 3 --shape v2-identity --steps 5" in printed
    assert "1 tables differ" in printed


def test_a_run_without_a_difference_says_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "3", "--trials", "1", "--shape", "v1-unpartitioned"]) == 0
    printed = capsys.readouterr().out
    assert "3 steps on 1 tables of 1 shapes, seeds 1 to 1: no difference" in printed
    assert "1 trials on 1 tables" in printed


def test_a_run_on_a_bucket_names_it_and_no_key_and_spark_reads_none(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run("v2-identity", 3, 5, store="http://localhost:9000/lake")
    assert run.again.endswith("--shape v2-identity --steps 5 --store http://localhost:9000/lake")
    bucket = Bucket(str(run.store), "a key", "a secret")
    assert (bucket.endpoint, bucket.name) == ("http://localhost:9000", "lake")
    assert "a secret" not in repr(bucket)
    with pytest.raises(SystemExit):
        main(["--spark", "--store", str(run.store)])
    assert "--spark reads local files alone" in capsys.readouterr().err
