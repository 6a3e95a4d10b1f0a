"""Commits beside planners: what 16 committers of one table lose while 16 clients plan scans of another.

    python -m benchmarks planners [--files 269875] [--clients 16] [--commits 1500] [--rounds 4] [--out build/benchmarks]

Two servers, at their defaults but for `rest.scan-planning`: one plans in processes of its own, one on its threads
(`rest.planning-processes` 0). Blocks alternate: commits alone, then with planners at each server. Planners ask for a
hundredth of the Atlas table's hours each, one plan after the other, and fetch all tasks. They are another process that
gives way to all others: real ones are other machines. Committers send requests that were made before. Figures are
medians of the rounds, the first of which warms up. Ends with 1 if a request fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import os
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import orjson

import iceberg_hms
from benchmarks import instruments, loads
from benchmarks.instruments import Serving, serving
from iceberg_hms.local.metastore import LocalMetastore
from integration.load_generator import Connection
from integration.planning.atlas_table import FILES_EACH, MANIFEST_ENTRIES, PARTITIONS, Atlas, make

#: How many hours the Atlas table has, and how many a plan asks for.
HOURS: Final = 672
WIDTH: Final = 7
ATLAS: Final = f"{loads.NAMESPACE}.atlas"
OK: Final = 200
#: How gzip begins.
GZIP: Final = b"\x1f\x8b"


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--files", type=int, default=PARTITIONS * FILES_EACH // 10)
    parser.add_argument("--clients", type=int, default=16, help="planners, and committers")
    parser.add_argument("--commits", type=int, default=1_500)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms-planners-")))
        metastore = stack.enter_context(LocalMetastore(folder / "metastore"))
        catalog = stack.enter_context(iceberg_hms.connect(metastore.uri, metastore.warehouse))
        catalog.create_namespace(loads.NAMESPACE)
        atlas = Atlas(f"{metastore.warehouse}/{ATLAS}", max(1, arguments.files // PARTITIONS), MANIFEST_ENTRIES, False)
        catalog.register_table(ATLAS, make(atlas, 2))
        servers = {
            name: stack.enter_context(
                serving(
                    metastore, folder / f"{name}.log", environment={"ICEBERG_HMS_REST_SCAN_PLANNING": "offered", **more}
                )
            )
            for name, more in {
                "processes": {},
                "threads": {"ICEBERG_HMS_REST_PLANNING_PROCESSES": "0"},
            }.items()
        }
        results = _run(catalog, servers, arguments)
    rows = []
    for (name, with_planners), runs in results.items():
        counted = runs[1:] if len(runs) > 1 else runs
        rate, plans = (median(each[key] for each in counted) for key in ("commits", "plans"))
        rows.append((name, "beside planners" if with_planners else "alone", f"{rate:.0f}", f"{plans:.1f}"))
    instruments.print_table(("planned in", "committers", "commits/s", "plans/s"), rows)
    instruments.keep(arguments.out, "planners", vars(arguments), {str(key): value for key, value in results.items()})


def _run(catalog: Any, servers: dict[str, Serving], arguments: Any) -> dict[tuple[str, bool], list[dict[str, float]]]:
    results: dict[tuple[str, bool], list[dict[str, float]]] = defaultdict(list)
    for round_ in range(arguments.rounds):
        for (name, server), with_planners in itertools.product(servers.items(), (False, True)):
            table = f"{loads.NAMESPACE}.t_{round_}_{name}_{int(with_planners)}"
            loads.grow(catalog, table, 1)
            made = loads.bodies(catalog, table, arguments.commits)
            found = asyncio.run(_block(server.uri, table, made, arguments.clients, with_planners=with_planners))
            results[name, with_planners].append(found)
            print(table, found, flush=True)
    return results


async def _block(uri: str, table: str, made: list[bytes], clients: int, *, with_planners: bool) -> dict[str, float]:
    planners = None
    if with_planners:
        command = [sys.executable, "-m", "benchmarks", "planner-clients", uri, str(clients)]
        planners = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        # The first line says that each has made a plan.
        assert planners.stdout is not None
        await planners.stdout.readline()
    before = perf_counter()
    sent = await loads.send(uri, table, made, clients)
    seconds = perf_counter() - before
    if sent.failed:
        raise SystemExit(f"commits failed: {sent.failed[:3]}")
    counts = {"plans": 0, "files": 0}
    if planners is not None:
        out, _ = await planners.communicate(b"end")
        if planners.returncode:
            raise SystemExit("planners failed")
        counts = orjson.loads(out)
    return {"commits": sent.rate, **{name: count / seconds for name, count in counts.items()}}


def run_planners() -> None:
    """A process with planners, until its input ends or says something. Prints a line when each has made a plan, and one
    with what they planned since."""
    uri, clients = sys.argv[1], int(sys.argv[2])
    os.nice(19)
    counts = asyncio.run(_plan_until_told(uri, clients))
    instruments.say(counts)


async def _plan_until_told(uri: str, clients: int) -> dict[str, int]:
    planned: list[int] = []
    first = [asyncio.Event() for _ in range(clients)]
    planners: list[asyncio.Future[Any]] = [
        asyncio.create_task(_plan(uri, number, planned, first[number])) for number in range(clients)
    ]
    ready: asyncio.Future[Any] = asyncio.gather(*(each.wait() for each in first))
    await asyncio.wait([*planners, ready], return_when=asyncio.FIRST_COMPLETED)
    planned.clear()
    instruments.say({"ready": ready.done()})
    told: asyncio.Future[Any] = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    await asyncio.wait([*planners, told], return_when=asyncio.FIRST_COMPLETED)
    counts = {"plans": len(planned), "files": sum(planned)}
    for each in planners:
        each.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await each
    return counts


async def _plan(uri: str, number: int, planned: list[int], first: asyncio.Event) -> None:
    """Plan, and fetch all tasks, until it is cancelled. planned: gets the files of each plan."""
    connection = Connection(uri)
    await connection.open()
    path = f"/v1/namespaces/{loads.NAMESPACE}/tables/atlas"
    try:
        for at in itertools.count(number * WIDTH, WIDTH):
            hour = at % (HOURS - WIDTH)
            sides = ({"type": "gt-eq", "value": hour}, {"type": "lt", "value": hour + WIDTH})
            left, right = ({**each, "term": "hour"} for each in sides)
            filter_ = {"type": "and", "left": left, "right": right}
            files, tasks = await _post(connection, f"{path}/plan", {"filter": filter_})
            while tasks:
                more, left_over = await _post(connection, f"{path}/tasks", {"plan-task": tasks.pop()})
                files += more
                tasks += left_over
            planned.append(files)
            first.set()
    finally:
        connection.close()


async def _post(connection: Connection, path: str, body: Any) -> tuple[int, list[str]]:
    """How many files an answer has, and its plan tasks. An answer without plan tasks is not parsed: that would take
    processor time of the server's machine, and real clients have their own."""
    status, answer = await connection.post(path, orjson.dumps(body))
    if status != OK:
        raise SystemExit(f"{path}: {status} {answer[:300]!r}")
    # A process compresses its answers for all who accept that, threads only for other machines.
    text = gzip.decompress(answer) if answer.startswith(GZIP) else answer
    tasks = orjson.loads(text)["plan-tasks"] if b'"plan-tasks":' in text else []
    return text.count(b'"data-file":'), tasks
