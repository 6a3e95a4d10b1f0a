"""Whether we take files of each shape, beside what the record says that readers make of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.errors import IcebergHmsError
from tests.catalog.parquet import open_input, table_for
from tests.file_matrix import record
from tests.file_matrix.record import Record
from tests.file_matrix.shapes import Case, Layout, Shape, cases_of, table_schema


def differences(file_format: str, folder: Path) -> list[tuple[str, str, Mapping[str, str]]]:
    """Of each case that we take and a reader does not read, or that we refuse and all read: its name, why we refuse it,
    and the readers with what they do. file_format: as the page names it."""
    measured = record.load(file_format.lower())
    differing = []
    for shape in record.FORMATS[file_format]:
        files: dict[str, str] = {}
        for case in cases_of([shape]):
            if shape.by_java and case.layout == "nested":
                continue
            if case.layout not in files:
                files[case.layout] = file_of(shape, case.layout, folder, measured)
            refused = _refusal(files[case.layout], case)
            failing = measured.failing(shape, case.type, case.version)
            if bool(refused) != bool(failing):
                differing.append((case.name, refused, failing))
    return differing


def file_of(shape: Shape, layout: Layout, folder: Path, measured: Record) -> str:
    """Where the shape's file is now."""
    path = folder / f"{layout}.{shape.format}"
    if shape.by_java:
        path.write_bytes(measured.files[shape.name])
    else:
        shape.write(path, layout, None)
    return str(path)


def _refusal(location: str, case: Case) -> str:
    """Empty if the file is taken."""
    table = TableOfFiles(table_for(table_schema(case.type, case.layout), version=case.version))
    try:
        found = describe(location, table, open_input)
    except IcebergHmsError as error:
        return str(error)
    return "it has no rows" if found is None else ", ".join(found.extra_columns)
