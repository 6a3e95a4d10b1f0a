"""Many clients for a long time: does the server's memory stay flat, and do its answers stay quick?"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson

import iceberg_hms
from benchmarks import instruments
from benchmarks.http_client import HttpClient
from benchmarks.loads import NAMESPACE, SCHEMA
from iceberg_hms.local.metastore import LocalMetastore

TABLES = 8
#: An idle client asks once in so many seconds, as an engine between two queries does.
IDLE_SECONDS = 30.0
#: A busy client rests for so long between two requests, in seconds.
REST_SECONDS = 0.25
#: One request of a busy client in so many is a commit; the others load the table.
COMMIT_EVERY = 4
#: The share by which the server may have grown in the second half.
GROWTH_MAX = 0.05


@dataclass
class Span:
    """What happened in one part of the time. loads, commits: seconds of each. failed: answers other than 200.
    memory: resident bytes of the server at its end."""

    loads: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    memory: int = 0


def soak() -> None:
    """Keep idle and busy clients on one server for minutes, and show its memory and latencies over that time.

    Idle clients keep a connection and load a table every 30 s. Busy clients load one of eight tables, or set a property
    of it, four times a second each. It fails if a request failed, or if the server's memory grew by more than a
    twentieth in the second half.
    """
    options = instruments.parser(soak.__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--idle", type=int, default=200)
    options.add_argument("--busy", type=int, default=64)
    options.add_argument("--spans", type=int, default=10, help="parts of the time that are shown")
    options.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    arguments = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms ")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        with iceberg_hms.connect(metastore.uri, metastore.warehouse) as catalog:
            catalog.create_namespace(NAMESPACE)
            for number in range(TABLES):
                catalog.create_table(f"{NAMESPACE}.t{number}", SCHEMA)
        arguments.out.mkdir(parents=True, exist_ok=True)
        server = stack.enter_context(instruments.serving(metastore, arguments.out / "soak.log"))
        spans = asyncio.run(_run(server, arguments))
    problems = _show(spans, 60 * arguments.minutes / arguments.spans)
    instruments.keep(arguments.out, "soak", vars(arguments), [asdict(span) for span in spans])
    if problems:
        raise SystemExit("\n".join(problems))


async def _run(server: instruments.Serving, arguments: Namespace) -> list[Span]:
    spans = [Span() for _ in range(arguments.spans)]
    started = perf_counter()
    seconds = 60 * arguments.minutes

    def current() -> Span | None:
        """The span that it is now; None after the last."""
        number = int((perf_counter() - started) / seconds * len(spans))
        return spans[number] if number < len(spans) else None

    async def watch() -> None:
        while (span := current()) is not None:
            span.memory = _resident(server.pid)
            await asyncio.sleep(1)

    idle = (_client(server.uri, number, current, IDLE_SECONDS, commits=False) for number in range(arguments.idle))
    busy = (_client(server.uri, number, current, REST_SECONDS, commits=True) for number in range(arguments.busy))
    await asyncio.gather(watch(), *idle, *busy)
    return spans


async def _client(uri: str, number: int, current: Any, rest: float, *, commits: bool) -> None:
    client = HttpClient(uri)
    await client.open()
    path = f"/v1/namespaces/{NAMESPACE}/tables/t{number % TABLES}"
    for count in itertools.count(number):
        if (span := current()) is None:
            break
        is_commit = commits and count % COMMIT_EVERY == 0
        begun = perf_counter()
        if is_commit:
            update = {"action": "set-properties", "updates": {f"client-{number}": str(count)}}
            answer = await client.ask("POST", path, orjson.dumps({"requirements": [], "updates": [update]}))
        else:
            answer = await client.ask("GET", path)
        (span.commits if is_commit else span.loads).append(perf_counter() - begun)
        if answer.status != 200:
            span.failed[f"{'commit' if is_commit else 'load'} {answer.status}"] += 1
        await asyncio.sleep(rest)
    client.close()


def _resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _show(spans: Sequence[Span], seconds: float) -> list[str]:
    """Print the table. Returns what is not as it should be."""
    rows = []
    for number, span in enumerate(spans, 1):
        row = [f"until {number * seconds:.0f} s", len(span.loads), len(span.commits), sum(span.failed.values())]
        for latencies in (span.loads, span.commits):
            row += [f"{instruments.quantile(latencies or [0.0], share) * 1000:.0f}" for share in (0.5, 0.99, 1)]
        rows.append([*row, f"{span.memory / 2**20:.0f}"])
    header = [
        "",
        "loads",
        "commits",
        "failed",
        *(f"{what} {ms} ms" for what in ("load", "commit") for ms in ("median", "p99", "longest")),
    ]
    instruments.print_table([*header, "MiB"], rows)
    failed = sum((span.failed for span in spans), Counter[str]())
    problems = [f"{count} x {what}" for what, count in failed.items()]
    half, last = spans[(len(spans) - 1) // 2].memory, spans[-1].memory
    if last > half * (1 + GROWTH_MAX):
        problems.append(f"the server grew from {half / 2**20:.0f} to {last / 2**20:.0f} MiB in the second half")
    return problems
