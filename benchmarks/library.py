"""The library itself: one writer, many writers in processes of their own, and the check for duplicate files."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

import iceberg_hms
from benchmarks import instruments
from benchmarks.writers import Bare, JavaHive, Library, Process, Writer, count_calls, make_tables, timed
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.local.zookeeper import LocalZooKeeper
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

#: Commits of each kind before the first round: they open connections, probe compare-and-swap, and warm up the JVMs.
WARM_UP = 25


def single_writer() -> None:
    """Compare one writer with the metastore calls of its commits: how much of the metastore's speed does it get?

    On one embedded metastore, blocks of these kinds alternate, each on a table of its own:

        bare      lock, get_table_req, alter_table_with_environment_context with the expected value, unlock; the row
                  changes as it does in an append
        bare+get  the same with a second get_table_req, before the lock
        library   Table.append of one DataFile record: the same calls, plus a manifest, a list and a metadata file
        java      with --java: the same append by Java's HiveCatalog 1.11.0, in lock mode

    Prints medians of the blocks' rates and the median of the ratios of neighbouring blocks. Blocks are short, so that
    both blocks of a ratio see the same load of the machine.
    """
    parser = instruments.parser(single_writer.__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--commits", type=int, default=5, help="in each block")
    parser.add_argument("--java", action="store_true", help="also Java's HiveCatalog")
    parser.add_argument("--quick", action="store_true", help="one small round, to see whether it runs")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.commits = 1, 3
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder, LocalMetastore(folder) as metastore:
        blocks = measure_single(metastore, Path(folder), arguments)
    show_single(blocks)
    instruments.keep(arguments.out, "single_writer", vars(arguments), blocks)


def measure_single(metastore: LocalMetastore, folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One dict a round: for each kind the durations of its commits, and its metastore calls."""
    settings = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
    make_tables(settings, [f"t{number}" for number in range(4)])
    calls = count_calls()
    with ExitStack() as stack:
        writers: dict[str, Writer] = {
            "bare": Bare(settings),
            "bare+get": Bare(settings, second_get=True),
            "library": Library(settings),
        }
        if arguments.java:
            writers["java"] = JavaHive(settings, folder / "java")
        for number, writer in enumerate(writers.values()):
            stack.callback(writer.close)
            writer.load(f"bench.t{number}")
            timed(writer, 1 if arguments.quick else WARM_UP)
        rounds = []
        for _ in range(arguments.rounds):
            block = {}
            for kind, writer in writers.items():
                calls.clear()
                block[kind] = {"seconds": timed(writer, arguments.commits), "calls": dict(calls)}
            rounds.append(block)
        return rounds


def block_rate(block: dict[str, Any]) -> float:
    return len(block["seconds"]) / float(sum(block["seconds"]))


def show_single(rounds: list[dict[str, Any]]) -> None:
    rows = []
    for kind in rounds[0]:
        rates = sorted(block_rate(each[kind]) for each in rounds)
        seconds = [second for each in rounds for second in each[kind]["seconds"]]
        calls = sum(sum(each[kind]["calls"].values()) for each in rounds) / len(seconds)
        rows.append(
            [
                kind,
                f"{statistics.median(rates):.1f}",
                f"{rates[0]:.1f} to {rates[-1]:.1f}",
                f"{statistics.median(seconds) * 1000:.1f}",
                f"{instruments.quantile(seconds, 0.99) * 1000:.0f}",
                f"{calls:.2f}" if calls else "-",
                f"{statistics.median(block_rate(each['library']) / block_rate(each[kind]) for each in rounds):.2f}",
            ]
        )
    header = ["", "commits/s", "least to most", "median ms", "p99 ms", "calls/commit", "library is"]
    instruments.print_table(header, rows)


def many_writers() -> None:
    """Compare many processes that append to one table with one process that has a table to itself.

    Each round has two blocks with the same number of commits, each on a new table: first one process makes all commits,
    then all processes together, each its share. All settings are the defaults, unless --set changes them. With --java,
    N processes with Java's HiveCatalog in lock mode append to the second table too; the counts below leave them out.

        together / alone   commits per second of all processes, over those of the one
        slowest / mean     the time that a process took for its share
        failed, lost       commits that raised; acknowledged commits that are not in the table
        calls              metastore calls of a commit, by method
    """
    parser = instruments.parser(many_writers.__doc__)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--commits", type=int, default=10, help="of each writer in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lock", choices=["hms", "zookeeper"], default="hms")
    parser.add_argument("--java", type=int, default=0, metavar="N", help="add N writers with Java's HiveCatalog")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all writers")
    parser.add_argument("--quick", action="store_true", help="one small round, to see whether it runs")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.writers, arguments.commits, arguments.rounds = 3, 2, 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        settings = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
        settings |= dict(each.split("=", 1) for each in arguments.set)
        if arguments.lock == "zookeeper":
            zookeeper = stack.enter_context(LocalZooKeeper(folder / "zookeeper"))
            settings |= {"zookeeper": zookeeper.hosts, "lock": "zookeeper"}
        rounds = measure_many(settings, folder, arguments)
    show_many(rounds)
    instruments.keep(arguments.out, f"many_writers_{arguments.lock}", vars(arguments), rounds)


def measure_many(settings: dict[str, Any], folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    numbers = range(arguments.writers)
    tables = [f"{kind}{number}" for number in range(arguments.rounds) for kind in ("alone", "together")]
    make_tables(settings, [*tables, *(f"warm{number}" for number in range(arguments.writers + arguments.java))])
    with ExitStack() as stack:

        def start(**job: Any) -> Process:
            process = Process(settings=settings, **job)
            stack.callback(process.close)
            return process

        library = [start(kind="library", warm_up=f"bench.warm{number}") for number in numbers]
        java = [
            start(kind="java", warm_up=f"bench.warm{arguments.writers + number}", folder=str(folder / f"java{number}"))
            for number in range(arguments.java)
        ]
        for process in (*library, *java):
            process.answer()
        rounds = []
        for number in range(arguments.rounds):
            alone = share_commits(
                settings, f"bench.alone{number}", library[:1], [], arguments.commits * arguments.writers
            )
            rounds.append(
                {
                    "alone": alone,
                    "together": share_commits(settings, f"bench.together{number}", library, java, arguments.commits),
                }
            )
        return rounds


def share_commits(
    settings: dict[str, Any], table: str, library: list[Process], java: list[Process], commits: int
) -> dict[str, Any]:
    """The answers of each writer, and the acknowledged commits that the table lacks."""
    writers = (*library, *java)
    for process in writers:
        process.send(table=table)
    for process in writers:
        process.answer()
    for process in writers:
        process.send(commits=commits)
    answers = [process.answer() for process in writers]
    with iceberg_hms.connect(**settings) as catalog:
        there = {snapshot.snapshot_id for snapshot in catalog.load_table(table).snapshots()}
    lost = [id_ for each in answers for id_ in each["snapshot_ids"] if id_ not in there]
    return {"library": answers[: len(library)], "java": answers[len(library) :], "lost": lost}


def rate(answers: list[dict[str, Any]]) -> float:
    """Successful commits a second, from the first writer's start to the last one's end."""
    done = sum(len(each["seconds"]) for each in answers)
    return done / float(max(each["ended"] for each in answers) - min(each["started"] for each in answers))


def summary(answers: list[dict[str, Any]], lost: list[int]) -> dict[str, float]:
    seconds = [second for each in answers for second in each["seconds"]]
    shares = [each["ended"] - each["started"] for each in answers]
    calls: Counter[str] = Counter()
    for each in answers:
        calls.update(each["calls"])
    return {
        "commits/s": rate(answers),
        "median ms": statistics.median(seconds) * 1000,
        "p99 ms": instruments.quantile(seconds, 0.99) * 1000,
        "longest ms": max(seconds) * 1000,
        "slowest / mean": max(shares) / statistics.mean(shares),
        "failed": sum(len(each["errors"]) for each in answers),
        "lost": len(lost),
        **{f"{method} calls": count / len(seconds) for method, count in calls.most_common()},
    }


def show_many(rounds: list[dict[str, Any]]) -> None:
    blocks = {
        kind: [summary(each[kind]["library"], each[kind]["lost"]) for each in rounds] for kind in ("alone", "together")
    }
    names = list(dict.fromkeys(name for found in blocks.values() for each in found for name in each))
    ratios = [rate(each["together"]["library"]) / rate(each["alone"]["library"]) for each in rounds]
    rows = [
        [name, *(f"{statistics.median(each.get(name, 0.0) for each in found):.2f}" for found in blocks.values())]
        for name in names
    ]
    rows.append(["together / alone", "", f"{statistics.median(ratios):.2f}"])
    if java := [each["together"]["java"] for each in rounds if each["together"]["java"]]:
        rows.append(["java commits/s", "", f"{statistics.median(map(rate, java)):.2f}"])
        rows.append(["java failed", "", str(sum(len(answers["errors"]) for each in java for answers in each))])
    instruments.print_table([f"median of {len(rounds)}", *blocks], rows)
    for error, count in Counter(
        error
        for each in rounds
        for kind in ("library", "java")
        for answers in each["together"][kind]
        for error in answers["errors"]
    ).most_common(5):
        print(f"{count} x {error}")


WIDE_SCHEMA = pa.schema([(f"c{number}", pa.int64()) for number in range(10)])

#: Columns with metrics: each file has the metrics of all columns, as at Iceberg's defaults.
METRIC_COLUMNS = range(1, 11)
#: Concurrent appends while a table is filled; they share swaps.
AT_ONCE = 64


def duplicate_check() -> None:
    """Compare appends with and without the check whether the table has their files already.

    For each number of files in a manifest: a table of so many manifests on the local disk, then Table.append of one
    DataFile record with `check_duplicates` on and off by turns. The metastore is in memory, so that its own time does
    not hide the time of the check:

        warm  by one catalog, which knows the table's manifests
        cold  the first append of a new catalog, which does not; the operating system may have the files in memory

    Prints medians and the median of the ratios of neighbours.
    """
    parser = instruments.parser(duplicate_check.__doc__)
    parser.add_argument("--manifests", type=int, default=1_000)
    parser.add_argument("--files", type=int, nargs="+", default=[10, 100], help="in each manifest")
    parser.add_argument("--rounds", type=int, default=30, help="warm appends of each kind")
    parser.add_argument("--cold", type=int, default=5, help="cold appends of each kind")
    parser.add_argument("--quick", action="store_true", help="one small round, to see whether it runs")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.manifests, arguments.files, arguments.rounds, arguments.cold = 20, [2], 3, 1
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder:
        results = [measure_duplicate_check(folder, files, arguments) for files in arguments.files]
    show_duplicate_check(results)
    instruments.keep(arguments.out, "duplicate_check", vars(arguments), results)


def measure_duplicate_check(folder: str, files: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The seconds of each append, in pairs: with the check, without it."""
    name = f"bench.t{files}"
    pointer = MemoryTablePointer(namespaces=())

    def opened() -> Catalog:
        # Real files instead of the fake, which has the same methods.
        real: Any = RoutedFiles(fsync=False)
        return memory_catalog(files=real, pointer=pointer, warehouse=f"file:{folder}")

    with opened() as catalog:
        catalog.create_namespace("bench")
        table = catalog.create_table(name, WIDE_SCHEMA, properties={"commit.manifest-merge.enabled": "false"})
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
    table.append(added, check_duplicate_files=check)
    return time.perf_counter() - started


def records(count: int) -> list[DataFile]:
    """New data files, with metrics as Parquet footers give them."""
    counts = dict.fromkeys(METRIC_COLUMNS, 1_000)
    bounds = dict.fromkeys(METRIC_COLUMNS, bytes(8))
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


def show_duplicate_check(results: list[dict[str, Any]]) -> None:
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
    instruments.print_table(["median ms of an append", "checked", "not checked", "difference", "ratio"], rows)
