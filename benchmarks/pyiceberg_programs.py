"""PyIceberg programs on our adapter beside its HiveCatalog: on one table at the same time, and alone with many rows.

    python -m benchmarks pyiceberg [--rounds 3] [--appends 20] [--rows 1000000] [--skip-s3] [--out build/benchmarks]

Both catalogs run at their defaults on one metastore, in turns, each block on a table of its own. First eight processes
append a row at a time, `--appends` each, while two others read a number, and overwrite it by the next one, as often:

    landed      appends that were acknowledged, of all; overwrites that were
    refused     overwrites of which PyIceberg reported a conflict after all its retries
    unknown     writes whose call ended with any other error
    /s          acknowledged writes a second, from the first one's start to the last one's end; the median
    slowest     acknowledged append, in seconds

Then a process of its own loads a table, appends a row, and so many rows of ten columns, from Arrow, scans them all and
deletes a tenth, on the local disk and in MinIO (`make minio`): seconds, and the process's largest memory.
Ends with 1 if a table's rows are not those of its acknowledged writes in some order.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import instruments
from iceberg_hms.local.metastore import LocalMetastore
from integration import pyiceberg_writers
from integration.pyiceberg_writers import COUNT, ROW, WriteResult
from integration.stores.minio import local_object_store

APPENDERS, COUNTERS = 8, 2
COLUMNS = 10
BUCKET = "lake"
BLOCK_SECONDS = 900
ADAPTER, HIVE = "adapter", "HiveCatalog"


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--appends", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--skip-s3", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        local = catalogs(stack.enter_context(LocalMetastore(folder / "local")), {})
        stores = {"file": local}
        if not arguments.skip_s3:
            store = stack.enter_context(local_object_store(folder))
            store.make_bucket(BUCKET)
            remote = stack.enter_context(LocalMetastore(folder / "s3", warehouse=f"s3://{BUCKET}/warehouse"))
            keys = {"s3.access-key-id": store.access_key, "s3.secret-access-key": store.secret_key}
            stores["s3"] = catalogs(remote, {"s3.endpoint": store.endpoint, "s3.region": store.region, **keys})
        findings, together = contention(local, arguments.rounds, arguments.appends)
        alone = programs(stores, arguments.rounds, arguments.rows)
    results = {"together": together, "alone": alone}
    instruments.keep(arguments.out, "pyiceberg", vars(arguments), results)
    print("\n".join(findings))
    raise SystemExit(1 if findings else 0)


def catalogs(metastore: LocalMetastore, store: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The properties of both catalogs on a metastore."""
    shared = {"warehouse": metastore.warehouse, **store}
    adapter = {"py-catalog-impl": "iceberg_hms.pyiceberg.HmsCatalog", **shared}
    return {
        ADAPTER: {**adapter, "uri": metastore.uri.replace("thrift://", "iceberg-hms+thrift://")},
        HIVE: {"type": "hive", "uri": metastore.uri, **shared},
    }


def contention(
    given: Mapping[str, Mapping[str, str]], rounds: int, appends: int
) -> tuple[list[str], dict[str, list[list[WriteResult]]]]:
    """What is wrong with the rows, and each catalog's results by round."""
    blocks: dict[str, list[list[WriteResult]]] = defaultdict(list)
    findings = []
    for round_ in range(rounds):
        for who, properties in given.items():
            name = f"together.{who.lower()}_{round_}"
            with _loaded(properties) as catalog:
                catalog.create_namespace_if_not_exists("together")
                table = pyiceberg_writers.make_table(catalog, name)
                results = pyiceberg_writers.run(
                    properties, name, appenders=APPENDERS, appends=appends, counters=COUNTERS, counts=appends
                )
                try:
                    pyiceberg_writers.check(table.refresh(), results)
                except AssertionError as error:
                    findings.append(f"{name}: {error}")
            blocks[who].append(results)
    header = ("catalog", "appends landed", "overwrites landed", "refused", "unknown", "/s", "slowest append")
    instruments.print_table(header, [_together(who, blocks[who]) for who in given])
    return findings, blocks


def _together(who: str, blocks: list[list[WriteResult]]) -> tuple[object, ...]:
    made = [each for block in blocks for each in block]
    landed = {kind: [each for each in made if each.kind == kind and each.acknowledged] for kind in (ROW, COUNT)}
    asked = {kind: sum(each.kind == kind for each in made) for kind in (ROW, COUNT)}
    walls = [max(each.ended for each in block) - min(each.ended - each.seconds for each in block) for block in blocks]
    rates = [sum(each.acknowledged for each in block) / wall for block, wall in zip(blocks, walls, strict=True)]
    slowest = max((each.seconds for each in landed[ROW]), default=0)
    return (
        who,
        f"{len(landed[ROW])} of {asked[ROW]}",
        f"{len(landed[COUNT])} of {asked[COUNT]}",
        sum(each.refused for each in made),
        sum(not each.acknowledged and not each.refused for each in made),
        f"{median(rates):.1f}",
        f"{slowest:.1f}",
    )


def programs(
    stores: Mapping[str, Mapping[str, Mapping[str, str]]], rounds: int, rows: int
) -> dict[str, list[dict[str, float]]]:
    """The figures of each program, by store and catalog."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    spawn = multiprocessing.get_context("spawn")
    for round_ in range(rounds):
        for store, given in stores.items():
            for who, properties in given.items():
                answers = spawn.Queue()
                name = f"alone.{who.lower()}_{round_}"
                process = spawn.Process(target=_program, args=(dict(properties), name, rows, answers), daemon=True)
                process.start()
                found[f"{store}, {who}"].append(answers.get(timeout=BLOCK_SECONDS))
                process.join(BLOCK_SECONDS)
    steps = list(next(iter(found.values()))[0])
    lines = [(who, *(f"{median(each[step] for each in made):.2f}" for step in steps)) for who, made in found.items()]
    instruments.print_table(("store, catalog", *steps), lines)
    return found


def _program(properties: dict[str, str], name: str, rows: int, answers: Any) -> None:
    import numpy
    import pyarrow as pa

    random = numpy.random.default_rng(1)
    data = pa.table({"id": numpy.arange(rows), **{f"c{at}": random.random(rows) for at in range(1, COLUMNS)}})
    found: dict[str, float] = {}
    with _loaded(properties) as catalog:
        catalog.create_namespace_if_not_exists("alone")
        catalog.create_table(name, data.schema)
        table = catalog.load_table(name)
        steps: dict[str, Callable[[], object]] = {
            "first append s": lambda: table.append(data.slice(0, 1)),
            "append s": lambda: table.append(data),
            "scan s": lambda: table.scan().to_arrow(),
            "delete s": lambda: table.delete(f"id < {rows // 10}"),
        }
        for step, work in steps.items():
            began = perf_counter()
            work()
            found[step] = perf_counter() - began
        assert table.scan().count() == rows - rows // 10, "rows are missing"
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found["MiB"] = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    answers.put(found)


def _loaded(properties: Mapping[str, str]) -> Any:
    import warnings

    from pyiceberg.catalog import load_catalog

    # HiveCatalog's writers warn of locks that they wait for.
    warnings.simplefilter("ignore")
    return load_catalog("bench", **properties)
