"""Real readers on files of every shape: what the records say of them is measured anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.file_matrix.measuring import measure
from tests.file_matrix import record
from tests.file_matrix.shapes import cases_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file_format", record.FORMATS)
def test_a_file_is_taken_if_every_reader_reads_it_and_only_then(spark: Any, tmp_path: Path, file_format: str) -> None:
    shapes = record.FORMATS[file_format]
    found, refusals = measure(spark, shapes, tmp_path)
    recorded = record.load(file_format.lower())
    differing = []
    for case in cases_of(shapes):
        failing = found.failing(case.shape, case.type, case.version)
        before = recorded.failing(case.shape, case.type, case.version)
        if bool(refusals[case.name]) != bool(failing) or failing.keys() != before.keys():
            differing.append((case.name, refusals[case.name], failing, before))
    assert not differing
