"""Expiry and orphan files of a table with many files: this package beside stock Spark's procedures.

    python -m benchmarks maintenance [--files 269875] [--rounds 3] [--out build/benchmarks]

The Atlas table with an empty file for each of its data files, and 100 orphans. By turns, in processes of their own:

    expiry        an append before it; the older snapshot is expired, which has all but one of the table's files
    orphans       what the table's folder has that no snapshot leads to, without deletion (`dry_run`)

Spark plans on two local cores, with its defaults but for 4 GB of memory. Seconds are those of the call in a process
that has begun; memory is the process's largest of its own pages. Figures are medians. Ends with 1 if one finds other
orphans, or expires none.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import iceberg_hms
from benchmarks import instruments
from benchmarks.instruments import serving
from benchmarks.memory import peak_of
from benchmarks.stock_spark import stock_session
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore
from integration import interop, maven_packages
from integration.planning import atlas_table
from integration.planning.atlas_table import Atlas

NAMESPACE: Final = "atlas"
TABLE: Final = "t"
ORPHANS: Final = 100
#: A time before all orphans are too young.
_LONG_AGO: Final = 1_600_000_000
_SECONDS: Final = 7_200
_WHO: Final = ("ours", "Spark")


@dataclass(frozen=True)
class Call:
    """found: orphans, or snapshots that were expired. seconds: wall. cpu: seconds. peak: MiB."""

    what: str
    who: str
    found: int
    seconds: float
    cpu: float
    peak: float


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--files", type=int, default=atlas_table.PARTITIONS * atlas_table.FILES_EACH // 10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    calls = list(_measured(arguments))
    by_kind: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for each in calls:
        by_kind[each.what, each.who].append(each)
    rows = [
        (*kind, found[0].found, *(f"{median(getattr(each, key) for each in found):.1f}" for key in _FIGURES))
        for kind, found in by_kind.items()
    ]
    instruments.print_table(("what", "who", "found", "seconds", "CPU seconds", "MiB"), rows)
    instruments.keep(arguments.out, "maintenance", vars(arguments), list(map(asdict, calls)))
    expected = {"orphans": ORPHANS, "expiry": 1}
    raise SystemExit(0 if all(each.found == expected[each.what] for each in calls) else 1)


_FIGURES: Final = ("seconds", "cpu", "peak")


def _measured(arguments: argparse.Namespace) -> Iterator[Call]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms-maintenance-")))
        maven_packages.fetch(folder)
        metastore = stack.enter_context(LocalMetastore(folder / "metastore"))
        server = stack.enter_context(serving(metastore, folder / "server.log"))
        table = _make(metastore, max(1, arguments.files // atlas_table.PARTITIONS))
        for round_ in range(arguments.rounds):
            for who in _WHO:
                home = folder / f"{who}-{round_}"
                home.mkdir()
                work = {"who": who, "uri": server.uri, "folder": str(home)}
                work |= {"metastore": metastore.uri, "warehouse": metastore.warehouse}
                file = f"{table}/data/appended-{who}-{round_}.parquet"
                with iceberg_hms.connect(metastore.uri, metastore.warehouse) as catalog:
                    partition = {"hour": 0, "batch": 0}
                    appended = DataFile(file, "PARQUET", 1, 1_000, partition)
                    catalog.load_table(f"{NAMESPACE}.{TABLE}").append([appended])
                Path(file.removeprefix("file:")).touch()
                for answer in instruments.answers("maintainer", work, _SECONDS):
                    call = Call(**answer)
                    print(call, flush=True)
                    yield call


def _make(metastore: LocalMetastore, files_each: int) -> str:
    """The table with its files, and the orphans. Returns its folder's location."""
    with iceberg_hms.connect(metastore.uri, metastore.warehouse) as catalog:
        catalog.create_namespace(NAMESPACE)
        location = f"{metastore.warehouse}/{NAMESPACE}.db/{TABLE}"
        atlas = Atlas(location, files_each)
        print(f"making {atlas.files:,} files", flush=True)
        catalog.register_table(f"{NAMESPACE}.{TABLE}", atlas_table.make(atlas))
        catalog.load_table(f"{NAMESPACE}.{TABLE}").set_properties({"commit.manifest-merge.enabled": "false"})
    for partition in range(atlas_table.PARTITIONS):
        paths = [atlas_table.data_file(atlas, partition, at).file_path for at in range(files_each)]
        home = Path(paths[0].removeprefix("file:")).parent
        home.mkdir(parents=True)
        for path in paths:
            _touch(path.removeprefix("file:"))
        if partition < ORPHANS:
            _touch(str(home / "orphan.parquet"))
    return location


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    os.utime(path, (_LONG_AGO, _LONG_AGO))


def run_maintainer() -> None:
    """A process that expires and looks for orphans: a line for each. `python -m benchmarks maintainer WORK`."""
    work = json.loads(sys.argv[1])
    with ExitStack() as stack:
        pid, calls = {"ours": _ours, "Spark": _spark}[work["who"]](work, stack)
        for what, call in calls.items():
            with peak_of(pid) as peak:
                cpu, begun = instruments.cpu_seconds(pid), perf_counter()
                found = call()
                seconds = perf_counter() - begun
            cpu = instruments.cpu_seconds(pid) - cpu
            instruments.say(asdict(Call(what, work["who"], found, seconds, cpu, peak())))


Calls = tuple[int, Mapping[str, Callable[[], int]]]


def _ours(work: Mapping[str, Any], stack: ExitStack) -> Calls:
    catalog = stack.enter_context(iceberg_hms.connect(work["metastore"], work["warehouse"]))
    table = catalog.load_table(f"{NAMESPACE}.{TABLE}")
    oldest = table.snapshots()[0].snapshot_id
    return os.getpid(), {
        "orphans": lambda: len(table.remove_orphan_files(dry_run=True).files.locations),
        "expiry": lambda: len(table.expire_snapshots(snapshot_ids=[oldest]).snapshot_ids),
    }


def _spark(work: Mapping[str, Any], stack: ExitStack) -> Calls:
    spark = stack.enter_context(stock_session(Path(work["folder"])))
    catalog = interop.add_spark_catalog(spark, "stock", type="rest", uri=work["uri"])
    table = f"{NAMESPACE}.{TABLE}"
    snapshots = spark.table(f"{catalog}.{table}.snapshots").orderBy("committed_at")
    oldest = snapshots.first()["snapshot_id"]

    def orphans() -> int:
        call = f"CALL {catalog}.system.remove_orphan_files(table => '{table}', dry_run => true)"
        # It takes what an older log leads to for orphans, too.
        return len([row for row in spark.sql(call).collect() if not row[0].endswith(".metadata.json")])

    def expiry() -> int:
        given = f"table => '{table}', snapshot_ids => array({oldest}), stream_results => true"
        spark.sql(f"CALL {catalog}.system.expire_snapshots({given})").collect()
        spark.sql(f"REFRESH TABLE {catalog}.{table}")
        return int(snapshots.where(f"snapshot_id = {oldest}").count() == 0)

    return int(spark._jvm.java.lang.ProcessHandle.current().pid()), {"orphans": orphans, "expiry": expiry}
