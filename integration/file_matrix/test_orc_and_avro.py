"""Real readers on ORC and Avro files of every shape."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from integration.file_matrix.measuring import measure
from tests.file_matrix import avro_shapes, orc_shapes
from tests.file_matrix.shapes import Shape, cases_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shapes", [avro_shapes.SHAPES, orc_shapes.SHAPES], ids=["avro", "orc"])
def test_a_file_is_taken_if_every_reader_reads_it_and_only_then(
    spark: Any, tmp_path: Path, shapes: Sequence[Shape]
) -> None:
    found, refusals = measure(spark, shapes, tmp_path)
    differing = []
    for case in cases_of(shapes):
        failing = found.failing(case.shape, case.type, case.version)
        if bool(refusals[case.name]) != bool(failing):
            differing.append((case.name, refusals[case.name], failing))
    assert not differing
