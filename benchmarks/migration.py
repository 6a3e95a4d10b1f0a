"""A Hive table of many small Parquet files taken over: our migration beside Spark's and PyIceberg's `add_files`.

    python -m benchmarks migration [--files 100000] [--partitions 1000] [--rounds 3] [--parallelism 1,2,4,8]
                                   [--sample 1000] [--memory 10000,100000] [--out build/benchmarks]

One Spark session of two local cores, on one metastore and the local disk. All take over the same files, in turns:

    ours          `iceberg_hms.migration.snapshot` into a new table: lists, describes, commits
    Spark         `CALL system.add_files` into an empty table, by parallelism; 1 is its default
    PyIceberg     `add_files` of a sample of the files, in a process of its own: files/s alone

Figures are medians of the rounds, the first of which warms all up and does not count where there are more. With
--memory a driver of its own takes over tables of so many files: the largest resident memory of its Python process and
of its JVM, whose executors are other processes (`local-cluster`).
Ends with 1 if a table lacks a file or a row.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import iceberg_hms
import iceberg_hms.spark
from benchmarks import instruments
from benchmarks.object_store import numbers
from iceberg_hms import migration
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.local.metastore import LocalMetastore
from integration.spark_fixtures import SETTINGS

NAMESPACE: Final = "moving"
COLUMNS: Final = 5
ROWS: Final = 10
SCHEMA: Final = pa.schema([("id", pa.int64()), *((f"c{at}", pa.float64()) for at in range(1, COLUMNS))])
DDL: Final = "id bigint, " + ", ".join(f"c{at} double" for at in range(1, COLUMNS))
STEP_SECONDS: Final = 3_600


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parallelism", type=numbers, default=[1, 2, 4, 8])
    parser.add_argument("--sample", type=int, default=1_000)
    parser.add_argument("--memory", type=numbers, default=[])
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms-migration-")))
        metastore = stack.enter_context(LocalMetastore(folder / "metastore"))
        catalog = stack.enter_context(iceberg_hms.connect(metastore.uri, metastore.warehouse))
        catalog.create_namespace(NAMESPACE)
        spark = _session(metastore, folder)
        stack.callback(spark.stop)
        findings: list[str] = []
        results: dict[str, Any] = {}
        if arguments.files:
            make_table(spark, metastore, "source", arguments.files, arguments.partitions)
            results["seconds"] = _race(spark, catalog, arguments, findings)
            results["sample"] = _sample(metastore, arguments.sample)
        for files in arguments.memory:
            name = f"memory_{files}"
            make_table(spark, metastore, name, files, max(1, files // 100))
            results[name] = _memory(metastore, folder, name)
    _print(arguments, results)
    instruments.keep(arguments.out, "migration", vars(arguments), results)
    print("\n".join(findings))
    raise SystemExit(1 if findings else 0)


def _session(metastore: LocalMetastore, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in {**SETTINGS, "spark.driver.memory": "3g", "spark.local.dir": str(folder)}.items():
        builder = builder.config(key, value)
    configured = iceberg_hms.spark.configure(builder, metastore_uri=metastore.uri, warehouse=metastore.warehouse)
    return configured.getOrCreate()


def make_table(spark: Any, metastore: LocalMetastore, name: str, files: int, partitions: int) -> None:
    """A partitioned Hive table with so many small Parquet files, without field ids."""
    location = f"{metastore.warehouse}/{NAMESPACE}.db/{name}"
    folder = Path(location.removeprefix("file:"))
    each = files // partitions
    for part in range(partitions):
        place = folder / f"part={part}"
        place.mkdir(parents=True)
        sink = pa.BufferOutputStream()
        columns = {"id": range(part, part + ROWS), **{f"c{at}": [at + part / 7] * ROWS for at in range(1, COLUMNS)}}
        pq.write_table(pa.table(columns, schema=SCHEMA), sink)
        content = sink.getvalue().to_pybytes()
        for at in range(each):
            (place / f"part-{at:05}.snappy.parquet").write_bytes(content)
    spark.sql(
        f"CREATE EXTERNAL TABLE {NAMESPACE}.{name} ({DDL}) PARTITIONED BY (part int) STORED AS PARQUET "
        f"LOCATION '{location}'"
    )
    spark.sql(f"MSCK REPAIR TABLE {NAMESPACE}.{name}")


def _race(spark: Any, catalog: Catalog, arguments: Any, findings: list[str]) -> Mapping[str, list[float]]:
    contenders: dict[str, Callable[[str], None]] = {"ours": partial(_ours, spark, catalog)}
    for width in arguments.parallelism:
        contenders[f"Spark, parallelism {width}"] = partial(_stock, spark, width)
    seconds: dict[str, list[float]] = defaultdict(list)
    for round_ in range(arguments.rounds):
        for at, (who, run) in enumerate(contenders.items()):
            name = f"target_{round_}_{at}"
            if who != "ours":
                spark.sql(f"CREATE TABLE {NAMESPACE}.{name} ({DDL}, part int) USING iceberg PARTITIONED BY (part)")
            started = perf_counter()
            run(name)
            seconds[who].append(perf_counter() - started)
            print(name, who, round(seconds[who][-1], 1), flush=True)
            _check(catalog, name, arguments, findings)
    return seconds


def _ours(spark: Any, catalog: Catalog, name: str) -> None:
    migration.snapshot(spark, f"{NAMESPACE}.source", f"{NAMESPACE}.{name}", catalog=catalog, progress=False)


def _stock(spark: Any, parallelism: int, name: str) -> None:
    spark.sql(
        f"CALL spark_catalog.system.add_files(table => '{NAMESPACE}.{name}', source_table => '{NAMESPACE}.source', "
        f"parallelism => {parallelism})"
    ).collect()


def _check(catalog: Catalog, name: str, arguments: Any, findings: list[str]) -> None:
    snapshot = catalog.load_table(f"{NAMESPACE}.{name}").metadata.current_snapshot
    summary = {} if snapshot is None else snapshot.summary
    files = arguments.files // arguments.partitions * arguments.partitions
    found = (summary.get("total-data-files"), summary.get("total-records"))
    if found != (str(files), str(files * ROWS)):
        findings.append(f"{name} has {found[0]} files and {found[1]} rows of {files} and {files * ROWS}")


def _sample(metastore: LocalMetastore, sample: int) -> Mapping[str, float]:
    """Files a second of PyIceberg's add_files."""
    from pyiceberg.catalog import load_catalog

    folder = Path(f"{metastore.warehouse}/{NAMESPACE}.db/source".removeprefix("file:"))
    paths = [str(each) for each in sorted(folder.rglob("*.parquet"))[:sample]]
    catalog = load_catalog("hive", type="hive", uri=metastore.uri, warehouse=metastore.warehouse)
    table = catalog.create_table(f"{NAMESPACE}.sample", schema=SCHEMA)
    started = perf_counter()
    table.add_files(paths, check_duplicate_files=False)
    seconds = perf_counter() - started
    return {"files": len(paths), "seconds": seconds}


def _memory(metastore: LocalMetastore, folder: Path, name: str) -> Mapping[str, float]:
    work = [metastore.uri, metastore.warehouse, f"{NAMESPACE}.{name}", str(folder)]
    [found] = instruments.answers("migration-driver", work, STEP_SECONDS)
    return found


def run_driver() -> None:
    """A process: take a table over on executors of other processes, and print the driver's largest memory, in MiB."""
    from pyspark.sql import SparkSession

    uri, warehouse, name, folder = json.loads(sys.argv[1])
    builder = SparkSession.builder
    apart = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g", "spark.local.dir": folder}
    for key, value in {**SETTINGS, **apart}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    gateway: Any = spark.sparkContext._jvm
    jvm = int(gateway.java.lang.ProcessHandle.current().pid())
    with iceberg_hms.connect(uri, warehouse) as catalog:
        report = migration.migrate(spark, name, catalog=catalog, progress=False)
    found = {"files": report.files, "python": _peak(os.getpid()), "jvm": _peak(jvm), "seconds": report.seconds}
    spark.stop()
    instruments.say(found)


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _print(arguments: Any, results: Mapping[str, Any]) -> None:
    rows: list[Sequence[object]] = []
    for who, all_seconds in results.get("seconds", {}).items():
        counted = all_seconds[1:] if len(all_seconds) > 1 else all_seconds
        rows.append((who, f"{median(counted):.1f}", f"{arguments.files / median(counted):,.0f}"))
    if (sample := results.get("sample")) is not None:
        rows.append(
            (
                f"PyIceberg, {sample['files']} files",
                f"{sample['seconds']:.1f}",
                f"{sample['files'] / sample['seconds']:,.0f}",
            )
        )
    if rows:
        instruments.print_table(("who", "seconds", "files/s"), rows)
    memory = [
        (name, *(f"{found[key]:.0f}" for key in ("files", "python", "jvm", "seconds")))
        for name, found in results.items()
        if name.startswith("memory")
    ]
    if memory:
        instruments.print_table(("driver", "files", "Python MiB", "JVM MiB", "seconds"), memory)
