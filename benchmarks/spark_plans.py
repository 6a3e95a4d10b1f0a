"""The planning part of stock Spark's selective queries of the Atlas table, by the driver and by the server.

    python -m benchmarks spark-plans [--tables clustered,spread] [--files 2698752] [--rounds 3] [--folder build/atlas]
                                     [--out build/benchmarks]

A query is timed from its text until Spark knows the partitions of its scan: parsing, the load of the table and the plan
are in it, no data is read. Three ways take turns, in Spark applications of their own, one for each round:

    driver          Spark plans by itself, at its defaults
    server          `scan-planning-mode=server`, the server at its defaults
    server, kept    the same, and the server keeps decoded manifests (`planning.cache-dir`)

The first query of an application that each way plans finds nothing, and is not counted: it loads classes. `nothing` is
what a query costs without a plan. CPU seconds are those of Spark's driver, and of the server with its processes.
Figures are medians of the rounds, each of which has two of a kind. Ends with 1 if two ways plan other rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import iceberg_hms
from benchmarks import instruments
from benchmarks.instruments import serving
from benchmarks.kept_tables import kept_table
from benchmarks.stock_spark import stock_session
from iceberg_hms.local.metastore import LocalMetastore
from integration import interop, maven_packages
from integration.planning import atlas_table
from integration.planning.atlas_table import Atlas, name_in

NAMESPACE: Final = "atlas"
#: Way -> how the catalog plans, and the server that it asks.
WAYS: Final = {"driver": ("client", "plain"), "server": ("server", "plain"), "server, kept": ("server", "kept")}
#: What no file matches.
NOTHING: Final = "hour = 9999"
_TIMES: Final = 2
#: Time limit of an application.
_SECONDS: Final = 3_600


@dataclass(frozen=True)
class Query:
    """rows: of the files that the scan reads. seconds: wall. driver, server: CPU seconds."""

    table: str
    filter: str
    way: str
    rows: int
    seconds: float
    driver: float
    server: float


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--tables", default="clustered,spread")
    parser.add_argument("--files", type=int, default=atlas_table.PARTITIONS * atlas_table.FILES_EACH)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    queries = _measured(arguments)
    by_kind: dict[tuple[str, str, str], list[Query]] = defaultdict(list)
    for each in queries:
        by_kind[each.table, each.filter, each.way].append(each)
    rows = [
        (*kind, f"{found[0].rows:,}", *(f"{median(getattr(each, key) for each in found):.2f}" for key in _FIGURES))
        for kind, found in by_kind.items()
    ]
    instruments.print_table(("table", "filter", "planned by", "rows", "seconds", "driver", "server"), rows)
    instruments.keep(arguments.out, "spark-plans", vars(arguments), list(map(asdict, queries)))
    raise SystemExit(1 if _differ(queries) else 0)


_FIGURES: Final = ("seconds", "driver", "server")


def _differ(queries: Sequence[Query]) -> bool:
    counts: dict[tuple[str, str], set[int]] = defaultdict(set)
    for each in queries:
        counts[each.table, each.filter].add(each.rows)
    found = {of: counted for of, counted in counts.items() if len(counted) > 1}
    for (table, where), counted in found.items():
        print(f"{table} / {where}: {sorted(counted)} rows")
    return bool(found)


def _measured(arguments: argparse.Namespace) -> list[Query]:
    queries = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms-spark-plans-")))
        maven_packages.fetch(folder)
        metastore = stack.enter_context(LocalMetastore(folder / "metastore"))
        filters = _register(arguments, metastore, folder)
        kept = {"ICEBERG_HMS_PLANNING_CACHE_DIR": str(folder / "kept")}
        servers = {
            name: stack.enter_context(serving(metastore, folder / f"{name}.log", environment=more))
            for name, more in {"plain": {}, "kept": kept}.items()
        }
        for round_ in range(arguments.rounds):
            home = folder / str(round_)
            home.mkdir()
            work = {
                "folder": str(home),
                "filters": filters,
                "uris": {name: server.uri for name, server in servers.items()},
                "pids": {name: server.pid for name, server in servers.items()},
                "first": round_,
            }
            for answer in instruments.answers("spark-planner", work, _SECONDS):
                queries.append(Query(**answer))
                print(queries[-1], flush=True)
    return queries


def _register(arguments: argparse.Namespace, metastore: LocalMetastore, folder: Path) -> dict[str, dict[str, str]]:
    """Make and register the tables. Returns the filters of each, by table and name."""
    found = {}
    each = max(1, arguments.files // atlas_table.PARTITIONS)
    with iceberg_hms.connect(metastore.uri, metastore.warehouse) as catalog:
        catalog.create_namespace(NAMESPACE)
        for name in arguments.tables.split(","):
            kept = (arguments.folder or folder / "tables").absolute() / f"{name}-{each}"
            atlas = Atlas(f"file:{kept}", each, spread=name == "spread")
            catalog.register_table(f"{NAMESPACE}.{name}", kept_table(kept, partial(atlas_table.make, atlas)))
            found[name] = _filters(atlas)
    return found


def _filters(atlas: Atlas) -> dict[str, str]:
    name = f"name = '{name_in(atlas.files_each // 2)}'"
    return {
        "nothing": NOTHING,
        "a partition": "hour = 17 and batch = 2",
        "an hour and bounds": f"hour = 17 and {name}",
        "bounds": name,
        "a day": "hour >= 24 and hour < 48",
    }


def run_spark_planner() -> None:
    """A Spark application that plans queries, and prints a line for each. `python -m benchmarks spark-planner WORK`."""
    work = json.loads(sys.argv[1])
    with stock_session(Path(work["folder"])) as spark:
        for number, (mode, server) in enumerate(WAYS.values()):
            uri = work["uris"][server]
            interop.add_spark_catalog(spark, f"way{number}", type="rest", uri=uri, scan_planning_mode=mode)
        driver = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        ways = list(enumerate(WAYS.items()))
        first = work["first"] % len(ways)
        for table, filters in work["filters"].items():
            for number, _ in ways:
                _plan(spark, f"way{number}.{NAMESPACE}.{table}", NOTHING)
            for name, where in filters.items():
                for _ in range(_TIMES):
                    for number, (way, (_, server)) in ways[first:] + ways[:first]:
                        pids = (driver, work["pids"][server])
                        before, begun = list(map(_cpu_seconds, pids)), perf_counter()
                        execution = _plan(spark, f"way{number}.{NAMESPACE}.{table}", where)
                        seconds = perf_counter() - begun
                        used = (_cpu_seconds(pid) - earlier for pid, earlier in zip(pids, before, strict=True))
                        rows = int(execution.optimizedPlan().collectLeaves().head().stats().rowCount().get())
                        instruments.say(asdict(Query(table, name, way, rows, seconds, *used)))


def _plan(spark: Any, table: str, where: str) -> Any:
    """Plan a query. Returns Java's QueryExecution."""
    execution = spark.table(table).where(where).select("name", "value")._jdf.queryExecution()
    execution.toRdd().getNumPartitions()
    return execution


def _cpu_seconds(pid: int) -> float:
    """Of a process and those that it started, as the server does those that plan: they stay."""
    lines = (each.read_text(encoding="utf-8") for each in Path(f"/proc/{pid}/task").glob("*/children"))
    return sum(map(instruments.cpu_seconds, [pid, *(int(child) for line in lines for child in line.split())]))
