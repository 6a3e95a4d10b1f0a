"""The rule against the record of what readers make of Parquet files, which integration/file_matrix measures."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, pyarrow_to_schema

from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.parquet_files import found_in_parquet
from iceberg_hms.datafiles.parquet_types import pyiceberg_knows
from iceberg_hms.errors import IcebergHmsError
from tests.catalog.parquet import open_input, table_for
from tests.file_matrix import record
from tests.file_matrix.parquet_shapes import SHAPES
from tests.file_matrix.shapes import Case, Layout, Shape, cases_of, table_schema

MEASURED = record.load("parquet")


def file_of(shape: Shape, layout: Layout, folder: Path) -> str:
    path = folder / f"{layout}.parquet"
    if shape.by_java:
        path.write_bytes(MEASURED.files[shape.name])
    else:
        shape.write(path, layout, None)
    return str(path)


def refusal(location: str, case: Case) -> str:
    """Empty if the file is taken."""
    table = TableOfFiles(table_for(table_schema(case.type, case.layout), version=case.version))
    try:
        return ", ".join(found_in_parquet(location, table, open_input).matched.extra)
    except IcebergHmsError as error:
        return str(error)


def test_a_file_is_taken_if_every_reader_reads_it_and_only_then(tmp_path: Path) -> None:
    differing = []
    for shape in SHAPES:
        files: dict[str, str] = {}
        for case in cases_of([shape]):
            if shape.by_java and case.layout == "nested":
                continue
            if case.layout not in files:
                files[case.layout] = file_of(shape, case.layout, tmp_path)
            refused = refusal(files[case.layout], case)
            failing = MEASURED.failing(shape, case.type, case.version)
            if bool(refused) != bool(failing):
                differing.append((case.name, refused, failing))
    assert not differing


def test_the_page_shows_the_record() -> None:
    """`python -m tests.file_matrix.record` writes it."""
    assert record.PAGE.read_text(encoding="utf-8") == record.page()


@pytest.mark.parametrize("version", [2, 3])
def test_columns_for_which_pyiceberg_has_no_type_are_known(version: int, tmp_path: Path) -> None:
    """One of them keeps it from reading the others, so a file with one that the table dropped is refused."""
    differing = []
    for shape in SHAPES:
        if "nested" in shape.layouts:
            column = pq.read_schema(file_of(shape, "flat", tmp_path)).field("c")
            marked = pa.schema([column.with_metadata({"PARQUET:field_id": "1"})])
            try:
                pyarrow_to_schema(marked, None, downcast_ns_timestamp_to_us=version == 2, format_version=version)
                known = True
            except (TypeError, ValueError, UnsupportedPyArrowTypeException):
                known = False
            if pyiceberg_knows(column.type, version) is not known:
                differing.append((shape.name, column.type, known))
    assert not differing
