"""Makes a table of one file, whether or not we would take the file, that each reader opens by its folder."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, mapping_text
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.file_matrix.shapes import Case, table_schema

NAMESPACE: Final = "m"
ROWS: Final = 3


@dataclass(frozen=True)
class MadeTable:
    """case: what is in it. name: below NAMESPACE of a Hadoop catalog. metadata: where its metadata file is.
    refusal: why we refuse its file; empty if we take it."""

    case: Case
    name: str
    metadata: str
    refusal: str


def make_tables(
    catalog: Catalog, files: MemoryFiles, cases: Sequence[Case], warehouse: Path, jvm: Any
) -> list[MadeTable]:
    """catalog: in memory, over `files`. A file that we take is registered with the bounds that we write for it; of any
    other the table has the size and the number of rows alone, so that readers meet each file."""
    (warehouse / NAMESPACE).mkdir(parents=True, exist_ok=True)
    written: dict[tuple[str, str], Path] = {}
    made = []
    for case in cases:
        name = uuid.uuid4().hex
        key = (case.shape.name, case.layout)
        if key not in written:
            written[key] = warehouse / f"{name}.{case.shape.format}"
            case.shape.write(written[key], case.layout, jvm)
        made.append(_make(catalog, files, case, f"t{name}", written[key], warehouse))
    return made


def _make(catalog: Catalog, files: MemoryFiles, case: Case, name: str, path: Path, warehouse: Path) -> MadeTable:
    folder = warehouse / NAMESPACE / name
    table = catalog.create_table(
        f"{NAMESPACE}.{name}",
        table_schema(case.type, case.layout),
        location=f"file:{folder}",
        properties={"format-version": str(case.version)},
    )
    location = f"file:{path}"
    record, refusal = record_of(table.metadata, location)
    table.set_properties({NAME_MAPPING: mapping_text(table.metadata.schema)})
    table.append([record])
    (folder / "metadata").mkdir(parents=True)
    for each in files.list_files(f"file:{folder}"):
        (folder / "metadata" / each.location.rpartition("/")[2]).write_bytes(files.read(each.location))
    last = folder / "metadata" / "v1.metadata.json"
    last.write_bytes(files.read(table.metadata_location))
    (folder / "metadata" / "version-hint.text").write_text("1")
    return MadeTable(case, name, f"file:{last}", refusal)


def record_of(metadata: TableMetadata, location: str) -> tuple[DataFile, str]:
    """The record of a file, and why we refuse the file."""
    try:
        found = describe(location, TableOfFiles(metadata), _open)
    except IcebergHmsError as error:
        path = Path(location.removeprefix("file:"))
        return DataFile(
            file_path=location,
            file_format=path.suffix[1:].upper(),
            record_count=ROWS,
            file_size_in_bytes=path.stat().st_size,
            spec_id=0,
        ), str(error)
    if found is None:
        raise ValueError(f"{location} has no rows")
    return found.data_file, f"extra columns: {', '.join(found.extra_columns)}" if found.extra_columns else ""


def _open(location: str) -> pa.NativeFile:
    return pa.OSFile(location.removeprefix("file:"), "rb")
