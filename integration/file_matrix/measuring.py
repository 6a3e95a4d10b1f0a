"""What each reader makes of many tables of one file each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from integration import interop
from integration.file_matrix.java_reader import read_by_java
from integration.file_matrix.pyiceberg_reader import read_by_pyiceberg
from integration.file_matrix.spark_reader import read_by_spark, vectorized
from integration.file_matrix.tables import NAMESPACE, MadeTable, make_tables
from tests.file_matrix.record import READ, Record
from tests.file_matrix.shapes import PLACES, Shape, cases_of

#: So many tables are made and read at once.
_TOGETHER: Final = 200

Outcomes = dict[str, dict[str, dict[str, str]]]


def measure(spark: Any, shapes: Sequence[Shape], folder: Path) -> tuple[Record, dict[str, str]]:
    """Returns what to record, and by case why we refuse its file. spark: a session with Iceberg. folder: for files."""
    # A session remembers the warehouse of a catalog that it has loaded.
    spark_catalog = f"file_matrix_{uuid.uuid4().hex}"
    interop.add_spark_catalog(spark, spark_catalog, type="hadoop", warehouse=str(folder))
    outcomes: Outcomes = {}
    refusals: dict[str, str] = {}
    cases = list(cases_of(shapes))
    files = MemoryFiles()
    with memory_catalog(files=files) as catalog:
        catalog.create_namespace(NAMESPACE)
        for start in range(0, len(cases), _TOGETHER):
            tables = make_tables(catalog, files, cases[start : start + _TOGETHER], folder, spark._jvm)
            outcomes |= _read(spark, spark_catalog, tables)
            refusals |= {each.case.name: each.refusal for each in tables}
    by_java = {each.name: each for each in shapes if each.by_java}
    written = {name: _flat_file(each, folder, spark._jvm) for name, each in by_java.items()}
    return Record(outcomes, written), refusals


def _read(spark: Any, catalog: str, tables: Sequence[MadeTable]) -> Outcomes:
    """Spark, which takes longest, reads what the others read."""
    outcomes: Outcomes = {}
    for each in tables:
        readers = {"pyiceberg": read_by_pyiceberg(each), "java": read_by_java(spark._jvm, each)}
        if each.case.shape.format == "avro":
            # PyIceberg reads no Avro files.
            del readers["pyiceberg"]
        outcomes[each.case.name] = {
            place: {reader: found[place] for reader, found in readers.items()} for place in PLACES[each.case.layout]
        }
    rest = [each for each in tables if _is_read(outcomes[each.case.name])]
    for reader, on in (("spark", True), ("spark rows", False)):
        chosen = [each for each in rest if on or each.case.layout == "flat"]
        with vectorized(spark, on):
            found = read_by_spark(spark, catalog, chosen, lambda table, _: not table.refusal)
        for each in chosen:
            for place in PLACES[each.case.layout]:
                outcomes[each.case.name][place][reader] = found[each.name, place]
    return outcomes


def _is_read(outcomes: dict[str, dict[str, str]]) -> bool:
    return all(outcome == READ for by_reader in outcomes.values() for outcome in by_reader.values())


def _flat_file(shape: Shape, folder: Path, jvm: Any) -> bytes:
    path = folder / f"by-java.{shape.format}"
    path.unlink(missing_ok=True)
    shape.write(path, "flat", jvm)
    return path.read_bytes()
