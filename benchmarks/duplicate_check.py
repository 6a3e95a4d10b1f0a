"""What it costs to look whether a table has the files of an append already, beside the same append without the look.

    .venv/bin/python -m benchmarks.duplicate_check [--manifests 1000] [--files 10 100] [--rounds 30] [--cold 5]
                                                   [--quick] [--out build/benchmarks]

For each number of files a manifest: a table of so many manifests on the local disk, then `Table.append` of one DataFile
record with `check_duplicates` on and off by turns. The metastore is one in memory, so that its time, to which the look
adds nothing, does not hide the look's:

    warm  by one catalog, which knows the table's manifests
    cold  the first append of a new catalog, which does not; the operating system may have the files in memory

Prints medians and the median of the ratios of neighbours; raw results are kept as JSON.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import report
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.storage.files import PyArrowFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

SCHEMA = pa.schema([(f"c{number}", pa.int64()) for number in range(10)])

#: Metrics of a column, of which each file has as many as a table has columns at Iceberg's defaults.
COLUMNS = range(1, 11)
#: Appends that are under way at once while a table is filled; they share swaps.
AT_ONCE = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--manifests", type=int, default=1_000)
    parser.add_argument("--files", type=int, nargs="+", default=[10, 100], help="in each manifest")
    parser.add_argument("--rounds", type=int, default=30, help="warm appends of each kind")
    parser.add_argument("--cold", type=int, default=5, help="cold appends of each kind")
    parser.add_argument("--quick", action="store_true", help="one small round: does it run?")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.manifests, arguments.files, arguments.rounds, arguments.cold = 20, [2], 3, 1
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder:
        results = [measure(folder, files, arguments) for files in arguments.files]
    show(results)
    report.keep(arguments.out, "duplicate_check", vars(arguments), results)


def measure(folder: str, files: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The seconds of each append, in pairs: with the look, without."""
    name = f"bench.t{files}"
    pointer = MemoryTablePointer(namespaces=())

    def opened() -> Catalog:
        # The fake of the files gives way to real ones, which have the same methods.
        real: Any = PyArrowFiles(fsync=False)
        return memory_catalog(files=real, pointer=pointer, warehouse=f"file:{folder}")

    with opened() as catalog:
        catalog.create_namespace("bench")
        table = catalog.create_table(name, SCHEMA)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda _: catalog.load_table(name).append(records(files)), range(arguments.manifests)))
        table.refresh()
        for _ in range(3):
            pair(table, table)
        warm = [pair(table, table) for _ in range(arguments.rounds)]
    cold = []
    for _ in range(arguments.cold):
        with opened() as checks, opened() as does_not:
            cold.append(pair(checks.load_table(name), does_not.load_table(name)))
    return {"files": files, "manifests": arguments.manifests, "warm": warm, "cold": cold}


def pair(checks: Any, does_not: Any) -> tuple[float, float]:
    return append(checks, check=True), append(does_not, check=False)


def append(table: Any, *, check: bool) -> float:
    added = records(1)
    started = time.perf_counter()
    table.append(added, check_duplicates=check)
    return time.perf_counter() - started


def records(count: int) -> list[DataFile]:
    """New data files, with metrics as footers give them."""
    counts = dict.fromkeys(COLUMNS, 1_000)
    bounds = dict.fromkeys(COLUMNS, bytes(8))
    return [
        DataFile(
            f"file:/warehouse/database.db/table/data/{uuid.uuid4()}.parquet",
            "PARQUET",
            record_count=1_000,
            file_size_in_bytes=100_000,
            column_sizes=counts,
            value_counts=counts,
            null_value_counts=counts,
            lower_bounds=bounds,
            upper_bounds=bounds,
        )
        for _ in range(count)
    ]


def show(results: list[dict[str, Any]]) -> None:
    rows = []
    for each in results:
        for kind in ("warm", "cold"):
            on, off = zip(*each[kind], strict=True)
            rows.append(
                [
                    f"{each['manifests']} manifests of {each['files']} files, {kind}",
                    f"{statistics.median(on) * 1000:.1f}",
                    f"{statistics.median(off) * 1000:.1f}",
                    f"{statistics.median(first - second for first, second in each[kind]) * 1000:.1f}",
                    f"{statistics.median(first / second for first, second in each[kind]):.2f}",
                ]
            )
    report.print_table(["median ms of an append", "checked", "not checked", "difference", "ratio"], rows)


if __name__ == "__main__":
    main()
