"""Deletes and overwrites by a filter on a table of many files, beside PyIceberg and Java."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import iceberg_hms
from benchmarks import instruments
from benchmarks.writers import JavaHive
from iceberg_hms.expressions import col
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("level", pa.string()), ("message", pa.string())])
DAYS = 100
ENGINES = ("iceberg-hms", "pyiceberg", "java")
#: What each process does to a table of its own.
CHANGES = ("delete a partition", "delete by bounds", "overwrite a partition")
ROWS = 1_000


def filtered_changes() -> None:
    """Change a table of many files by a filter, with each engine in a process of its own.

    The files are records with bounds and no data, in 100 partitions, in manifests of 1,000 files. Each change goes to a
    new copy of the table: delete one partition; delete the first half of the files, which bounds of `id` tell and no
    partition does; replace one partition by one file. Seconds are those of the call alone, after the table was loaded
    and a small commit was made elsewhere; memory is the process's peak, for Java the JVM's.
    """
    parser = instruments.parser(filtered_changes.__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder, LocalMetastore(folder) as metastore:
        results = list(_measure(metastore, Path(folder), arguments))
    _show(results)
    instruments.keep(arguments.out, "filtered_changes", vars(arguments), results)


def _measure(metastore: LocalMetastore, folder: Path, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    settings = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
    engines = arguments.engines.split(",")
    with iceberg_hms.connect(**settings, storage_fsync=False) as catalog:
        catalog.create_namespace("bench")
        for round_, change in itertools.product(range(arguments.rounds), CHANGES):
            for engine in engines[round_ % len(engines) :] + engines[: round_ % len(engines)]:
                table = f"bench.{re.sub('[^a-z]', '_', f'{change} {engine}')}_{round_}"
                _fill(catalog, table, arguments.files)
                _fill(catalog, f"{table}_warm", DAYS)
                job = {"engine": engine, "change": change, "table": table, "folder": str(folder / table), **settings}
                job["files"] = arguments.files
                command = [sys.executable, "-m", "benchmarks", "filtered-change", json.dumps(job)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE)  # noqa: S603 - this program itself
                answer = json.loads(done.stdout.splitlines()[-1])
                left = catalog.load_table(table).current_snapshot()
                files = "" if left is None else left.summary["total-data-files"]
                yield {"engine": engine, "change": change, "round": round_, "files left": files, **answer}
                for name in (table, f"{table}_warm"):
                    catalog.drop_table(name)


def _fill(catalog: Any, name: str, files: int) -> None:
    table = catalog.create_table(
        name, SCHEMA, partition_spec=["day"], properties={"commit.manifest.target-size-bytes": "131072"}
    )
    table.append([_data_file(number, files) for number in range(files)], check_duplicate_files=False)


def _data_file(number: int, files: int) -> DataFile:
    day = number * DAYS // files
    # Files of a half lie in all partitions.
    first = (number % 2 * files + number) * ROWS
    counts = dict.fromkeys(range(1, 5), ROWS)
    return DataFile(
        f"file:/warehouse/bench.db/table/data/day={day}/{number:08d}.parquet",
        "PARQUET",
        ROWS,
        100_000,
        {"day": day},
        column_sizes=counts,
        value_counts=counts,
        null_value_counts=dict.fromkeys(range(1, 5), 0),
        lower_bounds={1: first.to_bytes(8, "little"), 2: day.to_bytes(4, "little"), 3: b"DEBUG", 4: b"a message"},
        upper_bounds={
            1: (first + ROWS - 1).to_bytes(8, "little"),
            2: day.to_bytes(4, "little"),
            3: b"WARN",
            4: b"some message",
        },
    )


def run_filtered_change() -> None:
    """One change of one engine, as a process: `python -m benchmarks filtered-change JOB` (JSON)."""
    job: dict[str, Any] = json.loads(sys.argv[1])
    change, pid = {"iceberg-hms": _ours, "pyiceberg": _pyiceberg, "java": _java}[job["engine"]](job)
    change(f"{job['table']}_warm", DAYS)
    started = time.perf_counter()
    change(job["table"], None)
    seconds = time.perf_counter() - started
    status = Path(f"/proc/{pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    print(json.dumps({"seconds": seconds, "peak_mib": int(peak[1]) // 1024 if peak else 0}), flush=True)


#: Changes a table; the number of its files, if it is not the measured one.
_Change = Callable[[str, int | None], None]


def _middle(job: dict[str, Any], files: int | None) -> int:
    """The first id of the second half."""
    return (job.get("files", 100_000) if files is None else files) * ROWS


def _ours(job: dict[str, Any]) -> tuple[_Change, str]:
    catalog = iceberg_hms.connect(metastore_uri=job["metastore_uri"], warehouse=job["warehouse"], storage_fsync=False)

    def change(name: str, files: int | None) -> None:
        table = catalog.load_table(name)
        match job["change"]:
            case "delete a partition":
                table.delete(col("day") == 50)
            case "delete by bounds":
                table.delete(col("id") < _middle(job, files))
            case _:
                table.overwrite([_data_file(DAYS * 50 + 1, DAYS * DAYS)], overwrite_filter=col("day") == 50)

    return change, "self"


def _pyiceberg(job: dict[str, Any]) -> tuple[_Change, str]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("pyiceberg", type="hive", uri=job["metastore_uri"], warehouse=job["warehouse"])
    rows = pa.table({"id": [1], "day": [50], "level": ["x"], "message": ["y"]}, schema=SCHEMA)

    def change(name: str, files: int | None) -> None:
        table = catalog.load_table(name)
        match job["change"]:
            case "delete a partition":
                table.delete("day = 50")
            case "delete by bounds":
                table.delete(f"id < {_middle(job, files)}")
            case _:
                table.overwrite(rows, overwrite_filter="day = 50")

    return change, "self"


def _java(job: dict[str, Any]) -> tuple[_Change, str]:
    settings = {"metastore_uri": job["metastore_uri"], "warehouse": job["warehouse"]}
    java = JavaHive(settings, Path(job["folder"]))
    iceberg = java.iceberg
    expressions = iceberg.expressions.Expressions

    def change(name: str, files: int | None) -> None:
        table = java.table(name)
        match job["change"]:
            case "delete a partition":
                table.newDelete().deleteFromRowFilter(expressions.equal("day", 50)).commit()
            case "delete by bounds":
                middle = java.long(_middle(job, files))
                table.newDelete().deleteFromRowFilter(expressions.lessThan("id", middle)).commit()
            case _:
                record = (
                    iceberg.DataFiles.builder(table.spec()).withPath("file:/data/new.parquet").withFormat("PARQUET")
                )
                record = record.withPartitionPath("day=50").withFileSizeInBytes(9).withRecordCount(1).build()
                table.newOverwrite().overwriteByRowFilter(expressions.equal("day", 50)).addFile(record).commit()

    return change, str(java.pid)


def _show(results: list[dict[str, Any]]) -> None:
    rows = []
    for change, engine in itertools.product(CHANGES, dict.fromkeys(each["engine"] for each in results)):
        found = [each for each in results if (each["engine"], each["change"]) == (engine, change)]
        seconds = [each["seconds"] for each in found]
        rows.append(
            [
                f"{change}, {engine}",
                f"{statistics.median(seconds):.2f}",
                f"{min(seconds):.2f} to {max(seconds):.2f}",
                f"{statistics.median(each['peak_mib'] for each in found):.0f}",
                "/".join(sorted({each["files left"] for each in found})),
            ]
        )
    instruments.print_table(["", "median s", "least to most", "peak MiB", "files left"], rows)
