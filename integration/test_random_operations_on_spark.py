"""Spark reads what random operations left of tables of all shapes as their models say. `make outcomes` runs more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.random_operations import spark_reader
from tests.random_operations.independent_reader import Broken
from tests.random_operations.runs import LastState, Run, outcome
from tests.random_operations.shapes import SHAPES

SEED, STEPS = 4, 15
#: A third of the shapes is quick enough for each run.
NAMES = [
    pytest.param(shape.name, marks=() if at % 3 == 2 else pytest.mark.slow, id=shape.name)
    for at, shape in enumerate(SHAPES)
]


@pytest.mark.parametrize("name", NAMES)
def test_spark_reads_what_the_model_says(spark: Any, tmp_path: Path, name: str) -> None:
    found = outcome(Run(name, SEED, STEPS, folder=str(tmp_path / "table")))
    assert found.failure is None, found.failure
    assert isinstance(found.last, LastState)
    assert spark_reader.compare(spark, found.last, tmp_path / "copy") == len(found.last.branches) > 0
    wrong = {branch: [*rows, rows[0]] for branch, rows in found.last.branches.items() if rows}
    assert wrong, "a table without a row proves nothing"
    with pytest.raises(Broken, match="Spark reads"):
        spark_reader.compare(spark, replace(found.last, branches=wrong), tmp_path / "another copy")
