"""The rule against the record of what readers make of Parquet files, which integration/file_matrix measures."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, pyarrow_to_schema

from iceberg_hms.datafiles.parquet_types import pyiceberg_knows
from tests.file_matrix import record, rule
from tests.file_matrix.parquet_shapes import SHAPES

MEASURED = record.load("parquet")


def test_a_file_is_taken_if_every_reader_reads_it_and_only_then(tmp_path: Path) -> None:
    assert not rule.differences("Parquet", tmp_path)


def test_the_page_shows_the_record() -> None:
    """`python -m tests.file_matrix.record` writes it."""
    assert record.PAGE.read_text(encoding="utf-8") == record.page()


@pytest.mark.parametrize("version", [2, 3])
def test_columns_for_which_pyiceberg_has_no_type_are_known(version: int, tmp_path: Path) -> None:
    """One of them keeps it from reading the others, so a file with one that the table dropped is refused."""
    differing = []
    for shape in SHAPES:
        if "nested" in shape.layouts:
            column = pq.read_schema(rule.file_of(shape, "flat", tmp_path, MEASURED)).field("c")
            marked = pa.schema([column.with_metadata({"PARQUET:field_id": "1"})])
            try:
                pyarrow_to_schema(marked, None, downcast_ns_timestamp_to_us=version == 2, format_version=version)
                known = True
            except (TypeError, ValueError, UnsupportedPyArrowTypeException):
                known = False
            if pyiceberg_knows(column.type, version) is not known:
                differing.append((shape.name, column.type, known))
    assert not differing
