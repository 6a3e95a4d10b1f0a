"""Real readers on Parquet files of every shape: what the record says of them is measured anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.file_matrix.measuring import measure
from tests.file_matrix import record
from tests.file_matrix.parquet_shapes import SHAPES
from tests.file_matrix.shapes import cases_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.mark.filterwarnings("ignore")
def test_a_file_is_taken_if_every_reader_reads_it_and_only_then(spark: Any, tmp_path: Path) -> None:
    found, refusals = measure(spark, SHAPES, tmp_path)
    recorded = record.load("parquet")
    differing = []
    for case in cases_of(SHAPES):
        failing = found.failing(case.shape, case.type, case.version)
        before = recorded.failing(case.shape, case.type, case.version)
        if bool(refusals[case.name]) != bool(failing) or failing.keys() != before.keys():
            differing.append((case.name, refusals[case.name], failing, before))
    assert not differing
