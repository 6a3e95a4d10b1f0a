"""What a poll of many tables costs the metastore and the watcher."""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa

import iceberg_hms
from benchmarks import instruments
from benchmarks.writers import count_calls
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore

NAMESPACE = "bench"
#: Threads that make the tables.
_MAKERS = 4


def watch() -> None:
    """Poll many tables: the first poll, polls in which nothing changed, and polls after some tables got a commit.

    Beside it what a program does without a watcher: it loads each table, whose metadata the catalog has cached. All
    rounds alternate. The metastore is embedded, on Derby.
    """
    parser = instruments.parser(watch.__doc__)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--changed", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    calls = count_calls()
    with (
        tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder,
        LocalMetastore(folder) as metastore,
        iceberg_hms.connect(metastore.uri, metastore.warehouse, storage_fsync=False) as catalog,
    ):
        names = _make_tables(catalog, arguments)
        results = list(_measure(catalog, names, metastore.pid, calls, arguments))
    _show(results)
    instruments.keep(arguments.out, "watch", vars(arguments), results)


def _make_tables(catalog: Catalog, arguments: Namespace) -> list[str]:
    schema = pa.schema([pa.field(f"column_{each}", pa.string()) for each in range(arguments.columns)])
    catalog.create_namespace(NAMESPACE)
    names = [f"{NAMESPACE}.t{each:05}" for each in range(arguments.tables)]
    with ThreadPoolExecutor(_MAKERS) as pool:
        list(pool.map(lambda name: catalog.create_table(name, schema), names))
    return names


def _measure(
    catalog: Catalog, names: Sequence[str], metastore: int | None, calls: Counter[str], arguments: Namespace
) -> Iterator[dict[str, Any]]:
    watcher = catalog.new_snapshots([NAMESPACE])

    def measured(what: str, act: Callable[[], int]) -> dict[str, Any]:
        before = calls.copy()
        meter = instruments.CpuMeter({"metastore": [metastore or 0], "client": [os.getpid()]})
        begun = perf_counter()
        changes = act()
        seconds = perf_counter() - begun
        cpu = {f"{name} cpu": used for name, used in meter.used().items()}
        made = dict(calls - before)
        return {"what": what, "seconds": seconds, **cpu, "calls": sum(made.values()), "made": made, "changes": changes}

    def poll() -> int:
        return len(list(watcher.poll()))

    def load_each() -> int:
        return len([catalog.load(name) for name in names]) - len(names)

    yield measured("first poll", poll) | {"token": len(watcher.token)}
    for _ in range(arguments.rounds):
        yield measured("nothing changed", poll)
        for number in range(arguments.changed):
            name = names[number * len(names) // arguments.changed]
            catalog.load_table(name).append(
                [DataFile(f"file:/nowhere/{number}.parquet", "PARQUET", 10, 1_000)], check_duplicate_files=False
            )
        yield measured(f"{arguments.changed} changed", poll)
        yield measured("load of each table", load_each)


def _show(results: Sequence[dict[str, Any]]) -> None:
    """Medians of all rounds."""
    rows = []
    for what in dict.fromkeys(each["what"] for each in results):
        of_kind = [each for each in results if each["what"] == what]
        columns = ("seconds", "metastore cpu", "client cpu", "calls", "changes")
        middle = {name: instruments.quantile([each[name] for each in of_kind], 0.5) for name in columns}
        rows.append([what, *(f"{middle[name]:.2f}" for name in columns[:3]), middle["calls"], middle["changes"]])
    instruments.print_table(["", "seconds", "metastore cpu", "client cpu", "calls", "changes"], rows)
    print(f"token: {results[0]['token']:,} characters")
